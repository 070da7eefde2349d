"""The filelock drop-in. Every behaviour is tested on the real package too: what passes for one and not
for the other is no drop-in."""

import asyncio
import gc
import importlib
import os
import threading

import filelock as real
import pytest
import tenure
from conftest import HOLDER, PATIENCE
from tenure.compat import filelock as ours

HOLD = """
import importlib, sys
lock = importlib.import_module(sys.argv[1]).FileLock(sys.argv[2])
lock.acquire()
print("held", flush=True)
sys.stdin.readline()
lock.release()
print("released", flush=True)
sys.stdin.readline()
"""
NAMES = ["tenure.compat.filelock", "filelock"]


@pytest.fixture(params=NAMES)
def filelock(request):
    if request.param == NAMES[1] and int(real.__version__.split(".")[0]) < 4:
        pytest.skip("filelock is older than the release that the drop-in follows")
    return importlib.import_module(request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.lock"


def test_the_interface_is_there():
    for name in ours.__all__:
        # An older filelock, on an older Python, has fewer names.
        assert hasattr(ours, name) and (hasattr(real, name) or real.__version__ != ours.__version__), name
    for name in ("acquire", "release", "is_locked", "lock_counter", "lock_file", "timeout", "mode"):
        assert hasattr(ours.FileLock, name) and hasattr(real.FileLock, name)
    assert ours.FileLock is ours.UnixFileLock and issubclass(ours.FileLock, ours.BaseFileLock)
    assert not issubclass(ours.SoftFileLock, ours.FileLock)  # A caller that replaces one's methods means that one.


def test_context_manager_counter_and_proxy(filelock, path):
    lock = filelock.FileLock(path)
    assert not lock.is_locked and lock.lock_file == str(path) and lock.timeout == -1
    with lock as same:
        assert same is lock and lock.is_locked and lock.lock_counter == 1
        with lock:
            assert lock.lock_counter == 2
        with lock.acquire() as again:
            assert again is lock and lock.lock_counter == 2
        assert lock.is_locked and lock.lock_counter == 1
    assert not lock.is_locked and path.exists()
    lock.release()
    lock.acquire()
    lock.acquire()
    lock.release(force=True)
    assert not lock.is_locked and lock.lock_counter == 0


def test_settings(filelock, path):
    lock = filelock.FileLock(str(path), timeout=3, mode=0o600, thread_local=False)
    assert lock.timeout == 3 and not lock.is_thread_local() and lock.mode == 0o600
    lock.timeout = 0.5
    lock.blocking = False
    lock.poll_interval = 0.01
    assert (lock.timeout, lock.blocking, lock.poll_interval) == (0.5, False, 0.01)
    with lock:
        assert os.stat(path).st_mode & 0o777 == 0o600
    assert filelock.FileLock(path).is_thread_local() and not lock.is_singleton


def test_a_new_file_has_the_mode_of_the_umask(filelock, path):
    before = os.umask(0o022)
    try:
        with filelock.FileLock(path):
            assert os.stat(path).st_mode & 0o777 == 0o644
    finally:
        os.umask(before)


@pytest.mark.parametrize("how", [dict(timeout=0.1), dict(blocking=False), dict(timeout=0), dict(timeout=0.1, poll_interval=0.01)])
def test_a_timeout_names_the_file(filelock, path, child, how):
    holder = child(HOLD, NAMES[1], path)
    holder.line()
    lock = filelock.FileLock(path)
    with pytest.raises(filelock.Timeout) as caught:
        lock.acquire(**how)
    assert isinstance(caught.value, TimeoutError) and caught.value.lock_file == str(path)
    assert str(path) in str(caught.value) and not lock.is_locked and lock.lock_counter == 0
    import pickle

    assert pickle.loads(pickle.dumps(caught.value)).lock_file == str(path)


def test_a_cancel_check_ends_the_wait(filelock, path, child):
    holder = child(HOLD, NAMES[1], path)
    holder.line()
    asked = []
    with pytest.raises(filelock.Timeout):
        filelock.FileLock(path).acquire(cancel_check=lambda: bool(asked.append(1) or len(asked) > 2), poll_interval=0.01)
    assert len(asked) == 3


def test_a_singleton_is_one(filelock, path):
    one = filelock.FileLock(path, is_singleton=True)
    assert filelock.FileLock(path, is_singleton=True) is one and one.is_singleton
    with one:
        with filelock.FileLock(path, is_singleton=True):
            assert one.lock_counter == 2
    with pytest.raises(ValueError):
        filelock.FileLock(path, is_singleton=True, timeout=5)
    assert filelock.FileLock(path) is not one


def test_threads_have_a_hold_each_or_share_it(filelock, path):
    def in_thread(act):
        results = []
        thread = threading.Thread(target=lambda: results.append(act()))
        thread.start()
        thread.join(PATIENCE)
        return results[0]

    lock = filelock.FileLock(path)
    with lock:
        assert in_thread(lambda: lock.is_locked) is False
    lock = filelock.FileLock(path, thread_local=False)
    with lock:
        assert in_thread(lambda: lock.is_locked) is True
        in_thread(lock.acquire)
        assert lock.lock_counter == 2
        in_thread(lock.release)


def test_a_second_lock_of_the_same_thread_does_not_hang(filelock, path):
    with filelock.FileLock(path):
        with pytest.raises(RuntimeError):
            filelock.FileLock(path).acquire()
        with pytest.raises(filelock.Timeout):
            filelock.FileLock(path).acquire(timeout=0.05)


def test_a_decorator_and_a_lost_reference(filelock, path):
    lock = filelock.FileLock(path)

    @lock
    def work():
        return lock.is_locked

    assert work() and not lock.is_locked
    lock.acquire()
    del lock, work
    with filelock.FileLock(path, timeout=PATIENCE):
        pass


def test_a_raise_in_the_block_releases(filelock, path):
    lock = filelock.FileLock(path)
    with pytest.raises(KeyError):
        with lock:
            raise KeyError
    assert not lock.is_locked


def test_missing_directories_are_created_and_a_file_in_the_way_is_an_error(filelock, tmp_path):
    with filelock.FileLock(tmp_path / "no" / "such" / "x.lock"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        filelock.FileLock(tmp_path / "file" / "x.lock").acquire(timeout=1)


def test_async(filelock, path, child):
    async def main():
        lock = filelock.AsyncFileLock(path)
        async with lock as same:
            assert same is lock and lock.is_locked and lock.lock_counter == 1
            async with lock:
                assert lock.lock_counter == 2
        assert not lock.is_locked
        async with await lock.acquire():
            assert lock.is_locked
        await lock.acquire()
        await lock.acquire()
        await lock.release(force=True)
        assert not lock.is_locked
        holder = child(HOLD, NAMES[1], path)
        await asyncio.to_thread(holder.line)
        with pytest.raises(filelock.Timeout):
            await lock.acquire(timeout=0.05)
        with pytest.raises(NotImplementedError):
            with lock:
                pass
        waiting = asyncio.ensure_future(lock.acquire())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        holder.tell()
        await asyncio.to_thread(holder.line)
        async with lock:
            pass

    asyncio.run(main())


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("second", NAMES)
def test_both_exclude_each_other(path, child, first, second):
    holder = child(HOLD, first, path)
    holder.line()
    lock = importlib.import_module(second).FileLock(path)
    with pytest.raises(TimeoutError):
        lock.acquire(timeout=0.05)
    waiter = child(HOLD, second, path)
    holder.tell()
    assert holder.line() == "released" and waiter.line() == "held"
    waiter.kill()
    with lock.acquire(timeout=PATIENCE):
        assert lock.is_locked


def test_a_forked_child_does_not_unlock_its_parent(path):
    lock = ours.FileLock(path)
    with lock:
        pid = os.fork()
        if pid == 0:
            lock.release(force=True)
            os._exit(0 if not lock.is_locked else 1)
        assert os.waitpid(pid, 0)[1] == 0
        with pytest.raises(real.Timeout):
            real.FileLock(path).acquire(timeout=0)
        assert lock.is_locked


@pytest.mark.parametrize("kind", ["FileLock", "SoftFileLock"])
def test_a_forked_child_that_drops_its_copy_leaves_the_file(filelock, path, kind):
    lock = getattr(filelock, kind)(path)
    with lock:
        pid = os.fork()
        if pid == 0:
            assert not lock.is_locked
            del lock
            gc.collect()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert path.exists() and lock.is_locked


def test_a_lock_file_that_is_removed_during_the_hold_is_no_error(filelock, path):
    """As huggingface_hub does; what the block raised must not be hidden by the release."""
    for _ in range(3):
        with filelock.FileLock(path) as lock:
            os.unlink(path)
        assert not lock.is_locked
        with pytest.raises(KeyError):
            with filelock.FileLock(path):
                os.unlink(path)
                raise KeyError

    async def main():
        async with filelock.AsyncFileLock(path) as lock:
            os.unlink(path)
        assert not lock.is_locked

    asyncio.run(main())
    with filelock.FileLock(path) as lock:
        os.unlink(path)
        path.write_text("of somebody else")
    assert path.read_text() == "of somebody else" and not lock.is_locked


UNLINKER = """
import importlib, os, sys
module, path = sys.argv[1:]
filelock = importlib.import_module(module)
for _ in range(200):
    with filelock.FileLock(path):
        os.unlink(path)
print("done", flush=True)
"""


def test_many_that_remove_the_file_raise_nothing(path, child):
    children = [child(UNLINKER, NAMES[0], path) for _ in range(3)]
    assert [one.line() for one in children] == ["done"] * 3
    assert [one.end() for one in children] == [0] * 3


def test_the_errors_are_those_that_callers_catch(filelock, tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for path, kind in (("directory", IsADirectoryError), ("link", OSError), ("", OSError)):
        with pytest.raises(kind) as caught:
            filelock.FileLock(tmp_path / path if path else "").acquire(timeout=0)
        assert not isinstance(caught.value, filelock.Timeout) and caught.value.errno
    assert not (tmp_path / "elsewhere").exists()


def test_what_only_tenure_can_say_is_an_os_error(path, monkeypatch):
    def refuse(*_, **__):
        raise tenure.UnsupportedError("no locks here")

    monkeypatch.setattr("tenure._tenure.lock", refuse)
    with pytest.raises(OSError, match="no locks here") as caught:
        ours.FileLock(path).acquire(timeout=0)
    assert caught.value.filename == str(path) and isinstance(caught.value.__cause__, tenure.UnsupportedError)


def test_an_object_that_threads_share_is_one_holder_also_while_it_waits(filelock, path, child):
    holder = child(HOLD, NAMES[1], path)
    holder.line()
    lock = filelock.FileLock(path, thread_local=False, timeout=PATIENCE, poll_interval=0.01)
    threads = [threading.Thread(target=lock.acquire) for _ in range(4)]
    for thread in threads:
        thread.start()
    with pytest.raises(filelock.Timeout):
        lock.acquire(blocking=False)
    holder.tell()
    for thread in threads:
        thread.join(PATIENCE)
    assert lock.is_locked and lock.lock_counter == 4
    for _ in threads:
        lock.release()
    assert not lock.is_locked


def test_an_object_that_tasks_share_is_one_holder_also_while_it_waits(filelock, path, child):
    async def main():
        lock = filelock.AsyncFileLock(path, poll_interval=0.01)
        await asyncio.wait_for(asyncio.gather(lock.acquire(), lock.acquire()), PATIENCE)
        assert lock.lock_counter == 2
        await lock.release(force=True)
        holder = child(HOLD, NAMES[1], path)
        await asyncio.to_thread(holder.line)
        waiting = [asyncio.ensure_future(lock.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(filelock.Timeout):
            await lock.acquire(timeout=0.01)
        waiting[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        holder.tell()
        await asyncio.wait_for(asyncio.gather(*waiting[1:]), PATIENCE)
        assert lock.lock_counter == 2
        await lock.release(force=True)

    asyncio.run(main())


def test_a_task_that_waits_for_itself_is_told(filelock, path):
    async def main():
        async with filelock.AsyncFileLock(path):
            with pytest.raises(RuntimeError, match="Deadlock"):
                await filelock.AsyncFileLock(path).acquire()
            with pytest.raises(filelock.Timeout):
                await filelock.AsyncFileLock(path).acquire(timeout=0.05)
            other = asyncio.ensure_future(filelock.AsyncFileLock(path, poll_interval=0.01).acquire())
            await asyncio.sleep(0)
        await asyncio.wait_for(other, PATIENCE)  # Another task only waits.

    asyncio.run(main())


def test_cancel_check_is_asked_in_the_thread_of_the_loop(filelock, path, child):
    async def main():
        asked = []
        lock = filelock.AsyncFileLock(path, poll_interval=0.01)
        with pytest.raises(filelock.Timeout):
            await lock.acquire(cancel_check=lambda: bool(asked.append(threading.get_ident()) or len(asked) > 2))
        assert asked == [threading.get_ident()] * 3

    holder = child(HOLD, NAMES[1], path)
    holder.line()
    asyncio.run(main())


def test_a_lost_async_lock_leaves_no_coroutine_and_no_lock(filelock, path, recwarn):
    async def main():
        await filelock.AsyncFileLock(path).acquire()

    asyncio.run(main())
    gc.collect()
    with filelock.FileLock(path, timeout=PATIENCE):
        pass
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


def test_the_hold_of_a_thread_outlives_the_thread(filelock, path):
    lock = filelock.FileLock(path)
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join(PATIENCE)
    with pytest.raises(filelock.Timeout):
        filelock.FileLock(path).acquire(timeout=0)
    lock.release(force=True)
    with filelock.FileLock(path, timeout=0):
        pass


def test_the_hook_gets_the_descriptor_of_the_file(filelock, path):
    def note(fd):
        os.pwrite(fd, b"held", 0)

    lock = filelock.FileLock(path, on_acquired=note)
    with lock, lock:
        assert path.read_bytes() == b"held"

    def fail(fd):
        raise KeyError(fd)

    lock = filelock.FileLock(path, on_acquired=fail)
    with pytest.raises(KeyError):
        lock.acquire()
    assert not lock.is_locked and lock.lock_counter == 0
    with pytest.raises(ValueError):
        filelock.SoftFileLock(path, on_acquired=note)


def test_the_file_of_a_soft_lock_is_there_while_it_is_held(filelock, path):
    with filelock.SoftFileLock(path) as lock:
        assert path.exists() and lock.pid == os.getpid() and lock.is_lock_held_by_us
    assert not path.exists()


AT_EXIT = """
import asyncio, importlib, sys, threading
filelock = importlib.import_module(sys.argv[1])
held = threading.Event()

async def hold():
    lock = filelock.AsyncSoftFileLock(sys.argv[2])
    await lock.acquire()
    held.set()
    await asyncio.Event().wait()

threading.Thread(target=lambda: asyncio.run(hold()), daemon=True).start()
held.wait()
"""


def test_the_file_of_a_soft_lock_goes_with_its_program(path, child):
    assert child(AT_EXIT, NAMES[0], path).end() == 0
    assert not path.exists()


def test_a_release_that_a_signal_handler_stops_at_once_is_done_all_the_same(path, monkeypatch):
    lock = ours.FileLock(path)
    lock.acquire()
    real_current, cut = ours.BaseFileLock._current, []

    def cut_short(self):
        if not cut:
            cut.append(1)
            raise KeyboardInterrupt
        return real_current(self)

    monkeypatch.setattr(ours.BaseFileLock, "_current", cut_short)
    with pytest.raises(KeyboardInterrupt):
        lock.release()
    assert not lock.is_locked and lock.lock_counter == 0


def test_a_descriptor_is_locked_against_the_others(filelock, path, child):
    holder = child(HOLD, NAMES[0], path)
    holder.line()
    with open(path, "r+") as file:
        assert filelock.lock_descriptor(file.fileno(), blocking=False) is False
        holder.tell()
        assert holder.line() == "released" and filelock.lock_descriptor(file.fileno(), poll_interval=0.01)
        with pytest.raises(ours.Timeout):
            ours.FileLock(path).acquire(timeout=0)
        filelock.unlock_descriptor(file.fileno())
    with pytest.raises(ValueError):
        filelock.lock_descriptor(0, poll_interval=-1)


def test_what_is_logged(filelock, path, caplog):
    caplog.set_level("DEBUG", "filelock")
    with filelock.FileLock(path) as lock:
        pass
    words = [
        f"Attempting to acquire lock {id(lock)} on {path}",
        f"Lock {id(lock)} acquired on {path}",
        f"Attempting to release lock {id(lock)} on {path}",
        f"Lock {id(lock)} released on {path}",
    ]
    assert [record.getMessage() for record in caplog.records if record.name == "filelock"] == words


OWN = [dict(timeout="1"), dict(timeout=True), dict(blocking=1), dict(mode=0o4755), dict(mode=0o100), dict(poll_interval=-1)]


@pytest.mark.parametrize("options", [*OWN, dict(context_error_policy="x"), dict(close_error_policy="x"), dict(nonsense=1)], ids=str)
def test_wrong_options_are_refused(filelock, path, options):
    with pytest.raises((ValueError, TypeError)):
        filelock.FileLock(path, **options)


def test_a_subclass_may_take_fewer_options_and_have_its_own_lock(filelock, path):
    class Few(filelock.FileLock):
        def __init__(self, lock_file, timeout=-1):
            super().__init__(lock_file, timeout, thread_local=False)

    with Few(path, timeout=5) as lock:
        assert lock.timeout == 5 and not lock.is_thread_local()
    with pytest.raises(TypeError, match="poll_interval"):
        Few(path, poll_interval=1)

    class Own(filelock.BaseFileLock):
        tries = 0

        def _acquire(self):
            self.tries += 1
            if self.tries == 3:
                self._context.lock_file_fd = 1

        def _release(self):
            self._context.lock_file_fd = None

    with Own(path, poll_interval=0) as lock:
        assert lock.is_locked and lock.tries == 3
    assert not lock.is_locked
    with pytest.raises(TypeError):
        filelock.BaseFileLock(path)


def test_a_release_that_a_signal_handler_has_cut_short_leaves_the_lock_usable(path, monkeypatch):
    lock = ours.FileLock(path)
    lock.acquire()
    real_end, cut = ours.BaseFileLock._end, []

    def cut_short(self, *arguments):
        if not cut:
            cut.append(1)
            raise KeyboardInterrupt
        real_end(self, *arguments)

    monkeypatch.setattr(ours.BaseFileLock, "_end", cut_short)
    with pytest.raises(KeyboardInterrupt):
        lock.release()
    with lock:
        assert lock.is_locked
    assert not lock.is_locked


def test_the_busy_holder_is_named(path, child):
    holder = child(HOLD, NAMES[0], path)
    holder.line()
    with pytest.raises(ours.Timeout, match=f"pid {holder.pid}"):
        ours.FileLock(path).acquire(timeout=0)
    holder = child(HOLDER, str(path) + ".2", f"dict(lock_file={str(path) + '.2'!r})")
    holder.line()
    with pytest.raises(real.Timeout):
        real.FileLock(str(path) + ".2").acquire(timeout=0)


def test_a_lifetime_is_ignored_with_a_warning(path):
    for kind in (ours.FileLock, ours.SoftFileLock, ours.AsyncFileLock):
        with pytest.warns(UserWarning, match="Lease"):
            assert kind(path, lifetime=5).lifetime is None
    for wrong in (-1, float("nan"), "5"):
        with pytest.raises((ValueError, TypeError)):
            ours.SoftFileLock(path, lifetime=wrong)
    assert tenure.Lease(path).show() is None


def test_an_async_lock_of_this_thread_is_released_by_this_thread(path):
    async def take_and_release():
        lock = ours.AsyncFileLock(path, thread_local=True, run_in_executor=False)
        async with lock:
            assert lock.is_locked
        assert not lock.is_locked

    asyncio.run(take_and_release())
    with ours.FileLock(path, timeout=0):
        pass


def test_programs_below_one_hold_exclude_each_other(path, child, monkeypatch):
    with tenure.lock(path) as above:
        below = {"TENURE_TARGET": above.path, "TENURE_FENCE": str(above.fence)}
        holder = child(HOLD, NAMES[0], path, environment=below)
        assert holder.line() == "held"
        for name, value in below.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(ours.Timeout):
            ours.FileLock(path, timeout=0.05).acquire()

        async def late():
            with pytest.raises(ours.Timeout):
                await ours.AsyncFileLock(path, timeout=0.05).acquire()

        asyncio.run(late())
        holder.tell()
        assert holder.line() == "released"
        with ours.FileLock(path, timeout=PATIENCE) as lock:
            assert lock.is_locked
    assert [name for name in os.listdir(path.parent) if not name.startswith(".")] == [path.name]

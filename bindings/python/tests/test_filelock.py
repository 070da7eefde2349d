"""The filelock drop-in. Every behaviour is tested on the real package too: what passes for one and not
for the other is no drop-in."""

import asyncio
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
    return importlib.import_module(request.param)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.lock"


def test_the_interface_is_there():
    for name in ours.__all__:
        if name not in ("AsyncAcquireReturnProxy",):
            assert hasattr(real, name), name
    for name in ("acquire", "release", "is_locked", "lock_counter", "lock_file", "timeout", "mode"):
        assert hasattr(ours.FileLock, name) and hasattr(real.FileLock, name)
    assert ours.FileLock is ours.UnixFileLock and issubclass(ours.FileLock, ours.BaseFileLock)


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


def test_the_busy_holder_is_named(path, child):
    holder = child(HOLD, NAMES[0], path)
    holder.line()
    with pytest.raises(ours.Timeout, match=f"pid {holder.pid}"):
        ours.FileLock(path).acquire(timeout=0)
    holder = child(HOLDER, str(path) + ".2", f"dict(lock_file={str(path) + '.2'!r})")
    holder.line()
    with pytest.raises(real.Timeout):
        real.FileLock(str(path) + ".2").acquire(timeout=0)


def test_a_lock_that_expires_is_refused(path):
    with pytest.raises(ValueError, match="Lease"):
        ours.SoftFileLock(path, lifetime=5)
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

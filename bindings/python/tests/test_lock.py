"""The lock: one holder, freed by death, with a fence, in threads and processes."""

import os
import pickle
import shutil
import threading

import pytest
import tenure
from conftest import HOLDER, PATIENCE


def test_a_lock_is_held_for_the_block_and_has_a_growing_fence(tmp_path):
    target = tmp_path / "state.json"
    with tenure.lock(target) as first:
        assert first.held and first.fence > 0 and first.path == str(target)
        assert tenure.status(target)["kind"] == "lock"
    assert not first.held
    with tenure.lock(target) as second:
        assert second.fence > first.fence
    assert tenure.status(target)["kind"] == "free"
    assert [status["target"] for status in tenure.status_below(tmp_path)] == [str(target)]


def test_busy_names_the_holder_and_is_a_timeout(tmp_path, child):
    holder = child(HOLDER, tmp_path / "t")
    fence = int(holder.line())
    for take in (tenure.try_lock, lambda path: tenure.lock(path, wait=0.05)):
        with pytest.raises(TimeoutError) as caught:
            take(tmp_path / "t")
        error = caught.value
        assert isinstance(error, tenure.BusyError) and error.code == "busy"
        assert error.holder["pid"] == holder.pid and error.holder["fence"] == fence
        assert error.holder["label"] == "holder" and error.path == str(tmp_path / "t")
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.holder) == (type(error), str(error), error.holder)


def test_the_death_of_a_holder_frees_at_once_and_is_told(tmp_path, child):
    holder = child(HOLDER, tmp_path / "t")
    holder.line()
    waiter = child(HOLDER, tmp_path / "t", "dict(wait=None)")
    holder.kill()
    waiter.line()
    waiter.kill()
    with tenure.lock(tmp_path / "t") as guard:
        assert guard.recovered_from["pid"] == waiter.pid


def test_a_thread_that_waits_for_itself_is_told_and_another_thread_waits(tmp_path):
    target = tmp_path / "t"
    guard = tenure.lock(target)
    with pytest.raises(tenure.DeadlockError):
        tenure.lock(target, wait=None)
    order, started = [], threading.Event()

    def wait():
        started.set()
        with tenure.lock(target):
            order.append("second")

    thread = threading.Thread(target=wait)
    thread.start()
    assert started.wait(PATIENCE)
    order.append("first")
    guard.release()
    thread.join(PATIENCE)
    assert order == ["first", "second"]


def test_the_interpreter_runs_on_while_a_thread_waits(tmp_path):
    target, ticks = tmp_path / "t", 0
    guard = tenure.lock(target)
    got = threading.Event()

    def wait():
        tenure.lock(target, wait=None).release()
        got.set()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    # It can have the lock only after this one. A wait that kept the interpreter would hang here for ever.
    while ticks < 1_000_000:
        ticks += 1
    assert not got.is_set()
    guard.release()
    assert got.wait(PATIENCE)
    thread.join(PATIENCE)


def test_release_twice_late_or_by_another_thread_touches_only_its_own(tmp_path):
    target = tmp_path / "t"
    first = tenure.lock(target)
    thread = threading.Thread(target=first.release)
    thread.start()
    thread.join(PATIENCE)
    second = tenure.lock(target)
    first.release()
    assert second.held and not first.held
    second.verify()
    with pytest.raises(tenure.BusyError):
        tenure.try_lock(target)
    for use in (first.verify, first.__enter__):
        with pytest.raises(tenure.InvalidError):
            use()


def test_a_lost_reference_releases(tmp_path):
    guard = tenure.lock(tmp_path / "t")
    del guard
    tenure.try_lock(tmp_path / "t").release()


def test_shared_holders_are_together_and_reentrancy_is_by_owner(tmp_path, child):
    reader = child(HOLDER, tmp_path / "t", "dict(shared=True)")
    assert reader.line() == "0"
    with tenure.lock(tmp_path / "t", shared=True) as guard:
        assert guard.fence == 0
    with pytest.raises(tenure.BusyError):
        tenure.try_lock(tmp_path / "t")
    with tenure.lock(tmp_path / "u", owner="me", reentrant=True) as outer:
        with tenure.lock(tmp_path / "u", owner="me", reentrant=True) as inner:
            assert inner.fence == outer.fence
        with pytest.raises(tenure.BusyError):
            tenure.try_lock(tmp_path / "u")
    with pytest.raises(tenure.InvalidError):
        tenure.lock(tmp_path / "u", reentrant=True)


def test_a_removed_lock_file_is_noticed(tmp_path):
    guard = tenure.lock(tmp_path / "t")
    for name in os.listdir(tmp_path / ".tenure"):
        if name.endswith(".hold"):
            os.unlink(tmp_path / ".tenure" / name)
    with pytest.raises(tenure.CompromisedError):
        guard.verify()
    with pytest.raises(tenure.CompromisedError):
        guard.release()


def test_max_hold_reports_and_ends(tmp_path):
    told = threading.Event()
    paths = []
    guard = tenure.lock(
        tmp_path / "t",
        max_hold=0.05,
        end_on_max_hold=True,
        on_max_hold=lambda path: (paths.append(path), told.set()),
    )
    assert told.wait(PATIENCE) and paths == [str(tmp_path / "t")]
    assert not guard.held and "released" in repr(guard)
    with pytest.raises(tenure.InvalidError):
        guard.__enter__()
    tenure.try_lock(tmp_path / "t").release()
    with pytest.raises(tenure.FencedError, match="max_hold"):
        guard.release()
    guard.release()
    for wrong in (dict(on_max_hold=print), dict(end_on_max_hold=True), dict(max_hold=1, on_max_hold=5)):
        with pytest.raises(tenure.ArgumentError, match="max_hold"):
            tenure.lock(tmp_path / "t", **wrong)


def test_a_hold_that_is_only_reported_goes_on(tmp_path):
    told = threading.Event()
    with tenure.lock(tmp_path / "t", max_hold="1ms", on_max_hold=lambda _: told.set()) as guard:
        assert told.wait(PATIENCE) and guard.held
        guard.verify()


def test_a_cancel_ends_a_wait_of_another_thread(tmp_path):
    guard = tenure.lock(tmp_path / "t")
    cancel, codes = tenure.Cancel(), []

    def wait():
        try:
            tenure.lock(tmp_path / "t", wait=None, cancel=cancel)
        except tenure.TenureError as error:
            codes.append(error.code)

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    cancel.cancel()
    for thread in threads:
        thread.join(PATIENCE)
    assert codes == ["cancelled"] * 8 and cancel.cancelled
    guard.release()


def test_a_fence_proves_a_hold_to_writes_and_nested_locks(tmp_path):
    document = tenure.Document(tmp_path / "t")
    with tenure.lock(tmp_path / "t") as guard:
        document.set({"a": 1}, fence=guard.fence)
        with pytest.raises(tenure.DeadlockError):
            document.set({"a": 2})
        with tenure.lock(tmp_path / "t", fence=guard.fence) as nested:
            assert nested.fence == guard.fence
    with pytest.raises(tenure.FencedError):
        document.set({"a": 3}, fence=guard.fence)
    assert document.read().value == {"a": 1}


TAKES = {
    "lock": tenure.lock,
    "try_lock": tenure.try_lock,
    "Lock.acquire": lambda path: tenure.Lock(path).acquire(),
    "Lock.try_acquire": lambda path: tenure.Lock(path).try_acquire(),
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_a_fence_proves_the_hold_once_it_was_asked_for(tmp_path, take):
    document = tenure.Document(tmp_path / "t")
    with take(tmp_path / "t") as guard:
        repr(guard)  # It tells nothing.
        # Everybody can read the number; it proves nothing before the holder has told it.
        number = tenure.status(tmp_path / "t")["holder"]["fence"]
        with pytest.raises(tenure.FencedError):
            document.set(1, fence=number, wait=0)
        assert guard.fence == number
        document.set(2, fence=number)
    assert guard.fence == number
    with pytest.raises(tenure.FencedError):
        document.set(3, fence=number)
    assert document.read().value == 2


def test_a_fence_that_nobody_asked_for_during_the_hold_proves_nothing(tmp_path):
    guard = tenure.lock(tmp_path / "t")
    number = tenure.status(tmp_path / "t")["holder"]["fence"]
    guard.release()
    assert guard.fence == number
    with pytest.raises(tenure.FencedError):
        tenure.Document(tmp_path / "t").set(1, fence=guard.fence)
    assert tenure.status(tmp_path / "t")["kind"] == "free"


def test_a_lock_that_is_kept_is_taken_again_and_again(tmp_path, child):
    (tmp_path / "x").mkdir()
    target = tenure.Lock(tmp_path / "x" / ".." / "t")
    assert target.path == str(tmp_path / "t") and target.path in repr(target)
    for _ in range(3):
        with target.acquire(label="kept") as guard:
            assert guard.held and guard.path == target.path
            with pytest.raises(tenure.BusyError) as caught:
                tenure.Lock(target.path).try_acquire()
            assert caught.value.holder["label"] == "kept"
            with pytest.raises(tenure.DeadlockError):
                target.acquire()
        assert not guard.held
    holder = child(HOLDER, target.path)
    holder.line()
    with pytest.raises(tenure.BusyError) as caught:
        target.acquire(wait=0.05)
    assert caught.value.holder["pid"] == holder.pid
    holder.kill()
    with target.acquire() as guard:
        assert guard.recovered_from["pid"] == holder.pid
    shutil.rmtree(tmp_path / ".tenure")
    with target.acquire() as guard:
        guard.verify()
        with pytest.raises(tenure.BusyError):
            tenure.try_lock(target.path)
    with pytest.raises(tenure.ArgumentError):
        target.acquire(nonsense=1)


def test_names_that_are_not_text_are_kept(tmp_path):
    name = b"caf\xe9\xff.json"
    as_bytes = os.path.join(os.fsencode(tmp_path), name)
    as_text = os.fsdecode(as_bytes)
    with tenure.lock(as_bytes) as guard:
        assert guard.path == as_text
        with pytest.raises(tenure.BusyError) as caught:
            tenure.try_lock(as_text)
        assert caught.value.path == as_text
    tenure.Document(as_bytes).set([1])
    assert name in os.listdir(os.fsencode(tmp_path))

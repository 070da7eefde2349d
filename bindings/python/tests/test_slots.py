"""Slots, and several locks at once."""

import asyncio
import threading

import pytest
import tenure
from conftest import HOLDER, PATIENCE
from tenure import aio

SLOT = """
import sys, tenure
guard = tenure.lock(sys.argv[1], slots=2)
print("held")
sys.stdin.read()
"""


def test_at_most_so_many_callers_have_a_slot_and_a_slot_excludes_the_lock(tmp_path):
    target = tmp_path / "gpu"
    with tenure.lock(target, slots=2) as first, tenure.lock(target, slots=2):
        assert first.held and first.fence == 0
        for options in ({"slots": 2}, {}):
            with pytest.raises(tenure.BusyError):
                tenure.try_lock(target, **options)
        with pytest.raises(tenure.BusyError):
            tenure.lock(target, slots=2, wait=0.01)
    with tenure.Lock(target).try_acquire():
        pass


def test_the_death_of_a_holder_in_another_process_frees_its_slot(tmp_path, child):
    target = tmp_path / "gpu"
    holder = child(SLOT, target)
    assert holder.line() == "held"
    with tenure.lock(target, slots=2):
        with pytest.raises(tenure.BusyError):
            tenure.try_lock(target, slots=2)
        holder.kill()
        with tenure.lock(target, slots=2) as guard:
            assert guard.held


def test_a_wait_for_a_slot_is_cancelled_from_another_thread_or_by_the_task(tmp_path):
    target = tmp_path / "gpu"
    cancel = tenure.Cancel()

    async def main():
        task = asyncio.ensure_future(aio.lock(target, slots=1, wait=None)._take())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with tenure.lock(target, slots=1):
        threading.Timer(0.01, cancel.cancel).start()
        with pytest.raises(tenure.CancelledError):
            tenure.lock(target, slots=1, wait=None, cancel=cancel)
        asyncio.run(main())
    with tenure.lock(target, slots=1):
        pass


@pytest.mark.parametrize("slots", [0, 65, -1, 300, 1.5, "2"])
def test_a_number_of_slots_that_cannot_be_is_refused(tmp_path, slots):
    with pytest.raises(tenure.InvalidError):
        tenure.lock(tmp_path / "gpu", slots=slots)


def test_several_locks_are_taken_in_one_order_and_released_together(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with tenure.lock_all([b, a, b], label="both") as both:
        assert [guard.path for guard in both.guards] == [str(a), str(b)]
        assert both.held and all(guard.fence > 0 for guard in both.guards)
        both.verify()
        for path in (a, b):
            with pytest.raises(tenure.BusyError):
                tenure.try_lock(path)
    assert not both.held
    both.release()
    tenure.lock_all((a, b), wait=0).release()


def test_if_another_process_holds_one_of_several_none_is_taken_until_it_dies(tmp_path, child):
    a, b = tmp_path / "a", tmp_path / "b"
    holder = child(HOLDER, b)
    holder.line()
    with pytest.raises(tenure.BusyError) as caught:
        tenure.lock_all([a, b], wait=0.01)
    assert caught.value.holder["pid"] == holder.pid
    tenure.try_lock(a).release()
    taken = []
    waiter = threading.Thread(target=lambda: taken.append(tenure.lock_all([a, b])))
    waiter.start()
    holder.kill()
    waiter.join(PATIENCE)
    taken[0].release()


def test_several_locks_for_asyncio(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"

    async def main():
        async with await aio.lock_all([b, a]) as both:
            assert both.held and both.guards[0].fence > 0
            await both.verify()
            task = asyncio.ensure_future(aio.lock_all([a, b], wait=None))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not both.held
        async with aio.lock(a, slots=3) as slot, aio.lock(a, slots=3):
            assert slot.fence == 0

    asyncio.run(main())
    tenure.lock_all([a, b], wait=0).release()


@pytest.mark.parametrize("paths", [[], "ab", b"ab", None, 5, ["a", 5]])
def test_what_cannot_be_several_paths_is_refused(paths):
    with pytest.raises(tenure.ArgumentError):
        tenure.lock_all(paths)


@pytest.mark.parametrize("option", [{"fence": 1}, {"max_hold": 1}, {"lock_file": "x"}, {"slot": 1}])
def test_what_is_said_of_one_hold_does_not_fit_several(tmp_path, option):
    with pytest.raises(tenure.ArgumentError):
        tenure.lock_all([tmp_path / "a"], **option)

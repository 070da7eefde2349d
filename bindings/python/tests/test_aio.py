"""The asyncio twins: no blocked loop, cancelled waits, no lock left behind."""

import asyncio
import contextvars
import functools
import os
import subprocess
import sys
import threading

import pytest
import tenure
from conftest import HOLDER, PATIENCE
from tenure import _waiting, aio
from tenure.compat.filelock import AsyncFileLock


def run(main):
    return asyncio.run(asyncio.wait_for(main, PATIENCE))


def test_a_lock_waits_without_blocking_the_loop(tmp_path, child):
    holder = child(HOLDER, tmp_path / "t")
    holder.line()

    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        with pytest.raises(tenure.BusyError) as caught:
            async with aio.lock(tmp_path / "t", wait=0.05):
                pass
        assert caught.value.holder["pid"] == holder.pid
        waiting = asyncio.ensure_future(aio.lock(tmp_path / "t", wait=None))
        # It cannot end before the holder is told: a wait that blocked the loop would hang here for ever.
        until = ticks + 20
        while ticks < until:
            await asyncio.sleep(0.005)
        assert not waiting.done()
        holder.tell()
        guard = await waiting
        assert guard.held and guard.fence > 0
        await guard.verify()
        await guard.release()
        await guard.release()
        assert not guard.held
        ticking.cancel()

    run(main())


class Thread(Exception):
    """Somebody asked for one."""


def test_a_lock_that_is_free_is_taken_and_given_back_without_a_thread(tmp_path, monkeypatch):
    async def refuse(*_arguments, **_options):
        raise Thread

    # The first time files are made and synced, which is nothing for an event loop.
    for name in ("t", "f.lock"):
        tenure.lock(tmp_path / name).release()
    monkeypatch.setattr(aio, "in_thread", refuse)
    monkeypatch.setattr(_waiting, "in_thread", refuse)

    async def main():
        target = aio.Lock(tmp_path / "t")
        assert target.path == str(tmp_path / "t")
        for _ in range(3):
            async with aio.lock(tmp_path / "t") as guard:
                assert guard.held
            await (await target.acquire(label="kept")).release()
            async with await target.try_acquire(), await aio.try_lock(tmp_path / "f.lock"):
                with pytest.raises(Thread):
                    await target.acquire()
            async with AsyncFileLock(tmp_path / "f.lock"):
                pass
        for refused in (target.try_acquire, functools.partial(aio.try_lock, tmp_path / "t")):
            with pytest.raises(tenure.ArgumentError):
                await refused(wait=1)
        guard = await target.acquire()
        # Writes under a known fence may be under way, so this release may wait.
        assert guard.fence > 0
        with pytest.raises(Thread):
            await guard.release()
        with pytest.raises(Thread):
            await aio.lock(tmp_path / "new")

    run(main())


def test_locks_that_need_no_thread_let_other_tasks_in(tmp_path):
    async def main():
        free, ticks = aio.Lock(tmp_path / "target"), 0

        async def ticking():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        other = asyncio.create_task(ticking())
        ends = asyncio.get_running_loop().time() + 10
        while ticks <= 10 and asyncio.get_running_loop().time() < ends:
            async with free.acquire():
                pass
        other.cancel()
        return ticks

    assert asyncio.run(main()) > 10


def test_tasks_exclude_each_other_in_turn(tmp_path):
    async def main():
        inside, most = 0, 0

        async def work():
            nonlocal inside, most
            async with aio.lock(tmp_path / "t", wait=None):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(40)))
        assert most == 1

    run(main())


def test_a_blocking_call_on_the_loop_that_a_task_of_it_keeps_out_is_told(tmp_path):
    """Race 18: a synchronous caller in the loop's thread would wait for a task that cannot run."""

    async def main():
        async with aio.lock(tmp_path / "t"):
            with pytest.raises(tenure.DeadlockError):
                tenure.lock(tmp_path / "t", wait=None)
            with pytest.raises(tenure.DeadlockError):
                tenure.Document(tmp_path / "t").set([1])
        # The same for a lock that was won on another thread.
        first = await aio.lock(tmp_path / "t")
        second = asyncio.ensure_future(aio.lock(tmp_path / "t", wait=None))
        await asyncio.sleep(0)
        await first.release()
        guard = await second
        with pytest.raises(tenure.DeadlockError):
            tenure.lock(tmp_path / "t", wait=None)
        await guard.release()

    run(main())


def test_a_storm_of_cancelled_waits_leaves_nothing_behind(tmp_path):
    async def main():
        guard = await aio.lock(tmp_path / "t")
        for round in range(4):
            waits = [asyncio.ensure_future(aio.lock(tmp_path / "t", wait=None)) for _ in range(50)]
            for _ in range(round * 10):
                await asyncio.sleep(0)
            if round == 3:
                await guard.release()  # Some of them win while they are being cancelled.
            for wait in waits:
                wait.cancel()
            done = await asyncio.gather(*waits, return_exceptions=True)
            for won in done:
                if isinstance(won, aio.Guard):
                    await won.release()
                else:
                    assert isinstance(won, asyncio.CancelledError), won
        # A thread tells its result before it ends.
        while any(thread.name == "tenure-wait" for thread in threading.enumerate()):
            await asyncio.sleep(0.005)
        async with aio.lock(tmp_path / "t", wait=PATIENCE):
            pass

    run(main())
    tenure.try_lock(tmp_path / "t").release()


def test_a_timeout_of_the_loop_cancels_the_wait(tmp_path, child):
    holder = child(HOLDER, tmp_path / "t")
    holder.line()

    async def main():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aio.lock(tmp_path / "t", wait=None)._take(), 0.1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(aio.Document(tmp_path / "t").set([1], wait=None), 0.1)

    run(main())
    assert tenure.Document(tmp_path / "t").read() is None


@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited")
def test_documents_journals_and_leases(tmp_path):
    name = contextvars.ContextVar("name", default="nobody")

    async def main():
        name.set("me")
        document = aio.Document(tmp_path / "d.json")

        def add(state):
            state["n"] += 1
            state["by"] = name.get()

        await asyncio.gather(*(document.update(add, init={"n": 0}, no_sync=True) for _ in range(20)))
        snapshot = await document.read()
        assert snapshot.value == {"n": 20, "by": "me"}
        await document.compare_and_set(snapshot.version, {"n": 0})
        await document.merge({"m": 1})
        await document.patch([{"op": "remove", "path": "/m"}])
        assert await document.version() and not (await document.restore()).changed
        with pytest.raises(ZeroDivisionError):
            await document.update(lambda state: 1 / 0)
        with pytest.raises(tenure.DeadlockError):
            await document.update(lambda state: document.sync.set([]))
        with pytest.raises(tenure.InvalidError):
            await document.update(asyncio.sleep)
        with pytest.raises(tenure.NotFoundError):
            await aio.Document(tmp_path / "none").update(lambda state: None)
        watch = document.watch()
        await document.set([1])
        async for change in watch:
            assert change.value == [1]
            break
        assert await watch.next(wait=0) is None

        journal = aio.Journal(tmp_path / "j.jsonl")
        await journal.append(["1"])
        await journal.append_json([2])
        assert [entry.text for entry in await journal.read()] == ["1", "2"]
        follow = journal.follow(2)
        async for entry in follow:
            assert entry.seq == 2
            break
        reading = asyncio.ensure_future(follow.next())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert follow.position == 3
        assert (await journal.verify()).sound and (await journal.repair()).sound
        assert (await journal.compact(lambda entry: entry.seq > 1)).dropped == 1
        assert (await journal.repair(accept=True)).sound and await journal.pending() == []
        rotated = await journal.rotate()
        assert rotated.next == 3
        os.unlink(rotated.archive)
        await journal.append("3")
        gaps = []
        assert [entry.seq for entry in await journal.read()] == [3]
        assert [entry.seq for entry in await journal.read(1, on_gap=gaps.append)] == [3]
        assert (await journal.follow(2, on_gap=gaps.append).next(wait=0)).seq == 3
        assert [(gap.first, gap.last) for gap in gaps] == [(1, 2), (2, 2)]

        lease = aio.Lease(tmp_path / "s")
        async with await lease.acquire(ttl=60, owner="me") as leased:
            assert (await lease.show()).owner == "me"
            waiting = asyncio.ensure_future(lease.acquire(ttl=60, wait=None))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await leased.renew(ttl=30)
        assert await lease.show() is None

        sessions = aio.Collection(tmp_path / "c")
        await sessions.document("k").set([1])
        assert await sessions.keys() == ["k"] and await sessions.remove("k")
        written, appended = await aio.update_and_append(document, lambda _: [2], journal, "x")
        assert written.changed and appended.last == 4

    run(main())


def test_a_token_belongs_to_the_task(tmp_path):
    with pytest.raises(tenure.ArgumentError):
        aio.lock(tmp_path / "t", cancel=tenure.Cancel())


def test_a_hold_that_max_hold_ended_says_so_at_its_release(tmp_path):
    async def main():
        told = threading.Event()
        guard = await aio.lock(
            tmp_path / "t", max_hold="1ms", end_on_max_hold=True, on_max_hold=lambda _: told.set()
        )
        assert await asyncio.to_thread(told.wait, PATIENCE) and not guard.held
        with pytest.raises(tenure.FencedError):
            await guard.release()
        await guard.release()

    run(main())


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "1 / 0", "os.kill(os.getpid(), signal.SIGINT)"])
def test_a_program_ends_with_waits_pending(tmp_path, end):
    code = f"""
import asyncio, os, signal, sys, tenure
from tenure import aio
async def main():
    guard = await aio.lock(sys.argv[1])
    waits = [asyncio.ensure_future(aio.lock(sys.argv[1], wait=None)) for _ in range(20)]
    await asyncio.sleep(0)
    {end}
asyncio.run(main())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "t")]
    ended = subprocess.run(command, timeout=PATIENCE, stderr=subprocess.PIPE, text=True)
    assert ended.returncode in (0, 1, -2, 130), ended.stderr
    assert "Fatal" not in ended.stderr and "panicked" not in ended.stderr
    tenure.try_lock(tmp_path / "t").release()


def test_asyncio_is_not_imported_without_need():
    code = "import sys, tenure; sys.exit(any(m in sys.modules for m in ('asyncio', 'typing', 'json')))"
    assert subprocess.run([sys.executable, "-S", "-c", code], timeout=PATIENCE).returncode == 0

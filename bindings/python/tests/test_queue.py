"""Queues: each task goes to one worker at a time, and is completed once."""

import asyncio
import json
import threading
import time

import pytest
import tenure
from conftest import PATIENCE
from tenure import aio

WORKER = """
import json, sys, tenure
claimed = tenure.Queue(sys.argv[1]).next(ttl=float(sys.argv[2]))
print(json.dumps([claimed.id, claimed.token, claimed.target, claimed.fence]))
sys.stdin.read()
"""
TTL = 600


def test_tasks_are_given_out_oldest_first_and_completed_once(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    assert queue.list() == [] and queue.next(ttl=TTL) is None
    first = queue.add({"build": "a"})
    assert first.new
    assert queue.add({"build": "b"}, id="b", max_attempts=1) == tenure.Added("b", True)
    assert queue.add({"build": "other"}, id="b") == tenure.Added("b", False)
    claimed = queue.next(ttl="10m", owner="one")
    assert (claimed.id, claimed.task, claimed.attempt, claimed.ttl) == (first.id, {"build": "a"}, 1, TTL)
    assert claimed.token not in repr(claimed)
    other = queue.next(ttl=TTL)
    assert other.id == "b" and queue.next(ttl=TTL) is None
    assert queue.done(claimed.id, claimed.token) is True
    assert queue.done(claimed.id, claimed.token) is False
    assert queue.fail(other.id, other.token, reason="broken") == "set_aside"
    done, aside = queue.list()
    assert (done.state, done.owner, done.left, done.reason) == ("done", "one", None, None)
    assert (aside.state, aside.attempts, aside.reason) == ("set_aside", 1, "broken")
    assert queue.prune(max_age="1h") == []
    assert sorted(queue.prune()) == sorted([first.id, "b"])
    assert queue.list() == []


def test_a_function_says_which_tasks_are_taken(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    for n in (1, 2, 3, 4):
        queue.add({"n": n})
    seen = []
    claimed = queue.next(ttl=TTL, accepts=lambda task: seen.append(task["n"]) or task["n"] == 3)
    assert claimed.task == {"n": 3} and seen == [1, 2, 3]
    in_a_thread = []
    worker = threading.Thread(
        target=lambda: in_a_thread.append(queue.next(ttl=TTL, accepts=lambda task: task["n"] > 1))
    )
    worker.start()
    worker.join()
    assert in_a_thread[0].task == {"n": 2}
    for nothing in (None, 0, "", [], False):
        assert queue.next(ttl=TTL, accepts=lambda task, nothing=nothing: nothing) is None
    with pytest.raises(KeyError, match="boom"):
        queue.next(ttl=TTL, accepts=lambda task: task["boom"])
    with pytest.raises(tenure.ArgumentError):
        queue.next(ttl=TTL, accepts=5)

    async def main():
        waits = asyncio.ensure_future(
            aio.Queue(queue.path).next(ttl=TTL, wait=None, accepts=lambda task: task["n"] == 7)
        )
        await asyncio.sleep(0)
        queue.add({"n": 7})
        return await waits

    assert asyncio.run(main()).task == {"n": 7}
    assert [task.task for task in queue.list() if task.state == "open"] == [{"n": 1}, {"n": 4}]


def test_a_task_that_failed_comes_back_after_its_delay(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    queue.add(1)
    claimed = queue.next(ttl=TTL)
    assert queue.fail(claimed.id, claimed.token, delay=0.03) == "delayed"
    again = queue.next(ttl=TTL, wait=None)
    assert again.attempt == 2
    assert queue.fail(again.id, again.token) == "open"


def test_the_task_of_a_worker_that_was_killed_goes_to_another_one(tmp_path, child):
    queue = tenure.Queue(tmp_path / "tasks")
    queue.add("x")
    worker = child(WORKER, tmp_path / "tasks", "0.3")
    lost, token, target, fence = json.loads(worker.line())
    worker.kill()
    claimed = queue.next(ttl=TTL, wait=None)
    assert (claimed.id, claimed.attempt) == (lost, 2)
    with pytest.raises(tenure.LeaseLostError):
        queue.done(lost, token)
    with pytest.raises(tenure.LeaseLostError):
        queue.renew(lost, token)
    result = tenure.Document(tmp_path / "result.json")
    with pytest.raises(tenure.FencedError):
        result.set(1, guard={target: fence})
    result.set(2, guard={claimed.target: claimed.fence})
    assert queue.done(claimed.id, claimed.token)


def test_a_renewal_extends_the_claim(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    queue.add("x")
    claimed = queue.next(ttl=60)
    assert 60 < queue.renew(claimed.id, claimed.token, ttl=120) <= 120


def test_a_wait_is_woken_by_another_thread_and_cancelled(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    threading.Timer(0.01, lambda: queue.add("late")).start()
    assert queue.next(ttl=TTL, wait=None).task == "late"
    cancel = tenure.Cancel()
    threading.Timer(0.01, cancel.cancel).start()
    with pytest.raises(tenure.CancelledError):
        queue.next(ttl=TTL, wait=None, cancel=cancel)


def test_a_queue_for_asyncio_waits_beside_other_tasks_and_is_cancelled(tmp_path):
    async def main():
        queue = aio.Queue(tmp_path / "tasks")
        waiting = asyncio.ensure_future(queue.next(ttl=TTL, wait=None))
        await asyncio.sleep(0)
        await queue.add({"n": 1}, id="one")
        claimed = await waiting
        assert claimed.task == {"n": 1}
        assert await queue.renew("one", claimed.token) > 0
        assert await queue.fail("one", claimed.token, reason="again") == "open"
        claimed = await queue.next(ttl=TTL)
        assert await queue.done("one", claimed.token)
        assert [task.state for task in await queue.list()] == ["done"]
        assert await queue.prune() == ["one"]
        waiting = asyncio.ensure_future(queue.next(ttl=TTL, wait=None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())


def test_a_task_that_was_claimed_while_its_caller_was_cancelled_goes_back(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    queue.add("x")

    async def main():
        claiming = asyncio.ensure_future(aio.Queue(queue.path).next(ttl=TTL))
        await asyncio.sleep(0)
        # Without a turn of the event loop, which would see the claim before it is cancelled.
        deadline = time.monotonic() + PATIENCE
        while queue.list()[0].attempts == 0:
            assert time.monotonic() < deadline
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming

    asyncio.run(main())
    assert queue.list()[0].state == "open"


def test_a_caller_that_was_cancelled_is_cancelled_although_its_claim_is_lost(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    queue.add("x")

    async def main():
        claiming = asyncio.ensure_future(aio.Queue(queue.path).next(ttl=TTL))
        await asyncio.sleep(0)
        deadline = time.monotonic() + PATIENCE
        while queue.list()[0].attempts == 0:
            assert time.monotonic() < deadline
        (tmp_path / "tasks" / next(iter(tenure.Collection(queue.path).keys()))).with_suffix(".json").unlink()
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await claiming
        assert isinstance(caught.value.__cause__, tenure.TenureError)

    asyncio.run(main())


def test_wrong_arguments_are_refused(tmp_path):
    queue = tenure.Queue(tmp_path / "tasks")
    for options in ({"ttl": "forever"}, {"ttl": TTL, "wait": "soon"}, {"ttl": TTL, "filter": "x"}):
        with pytest.raises(tenure.InvalidError):
            queue.next(**options)
    with pytest.raises(tenure.InvalidError):
        queue.add(object())
    with pytest.raises(tenure.ArgumentError):
        queue.add(1, fence=1)
    with pytest.raises(tenure.NotFoundError):
        queue.done("none", "x")
    assert queue.list() == []

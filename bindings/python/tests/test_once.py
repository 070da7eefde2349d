"""Once: one caller does it, the others get its result."""

import asyncio
import os
import pickle
import subprocess
import threading
import time

import pytest
import tenure
from conftest import PATIENCE
from tenure import aio

CALLER = """
import sys, tenure

def run():
    print("runs")
    sys.stdin.readline()
    raise SystemError("no network")

try:
    print("got", tenure.once(sys.argv[1], run, ttl=600))
except Exception as error:
    print(type(error).__name__)
"""


def never():
    raise AssertionError("it is fresh")


def waits(target, pid):
    """Until this process waits for the turn."""
    deadline = time.monotonic() + PATIENCE
    while pid not in [one["pid"] for one in tenure.status(f"{target}~once")["waiters"]]:
        assert time.monotonic() < deadline, f"{pid} never waits"


def test_of_many_callers_one_runs_the_function_and_all_get_its_result(tmp_path):
    target, runs, results = tmp_path / "token", [], []

    def refresh():
        runs.append(1)
        return {"token": ("t", 1)}

    callers = [
        threading.Thread(target=lambda: results.append(tenure.once(target, refresh, ttl=600))) for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)
    assert len(runs) == 1 and results == [{"token": ["t", 1]}] * 8
    assert tenure.once(target, never, ttl=600) == {"token": ["t", 1]}


def test_a_result_that_is_not_fresh_any_more_is_made_again(tmp_path):
    assert tenure.once(tmp_path / "t", lambda: 1, ttl=0) == 1
    assert tenure.once(tmp_path / "t", lambda: None, ttl=600) is None
    assert tenure.once(tmp_path / "t", never, ttl=600) is None


def test_a_failure_reaches_those_who_wait_at_that_moment_and_no_later_one(tmp_path, child):
    target = tmp_path / "token"
    first = child(CALLER, target)
    assert first.line() == "runs"
    second = child(CALLER, target)
    waits(target, second.pid)
    first.tell()
    assert first.line() == "SystemError"
    assert second.line() == "OnceFailedError"
    assert tenure.once(target, lambda: 5, ttl=600) == 5


def test_a_process_that_dies_in_its_turn_hands_over_to_the_next(tmp_path, child):
    target = tmp_path / "token"
    first = child(CALLER, target)
    assert first.line() == "runs"
    second = child(CALLER, target)
    waits(target, second.pid)
    first.kill()
    assert second.line() == "runs"


def test_an_interrupted_caller_has_not_failed(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tenure.once(tmp_path / "t", interrupted, ttl=600)
    assert tenure.once(tmp_path / "t", lambda: 1, ttl=600, wait=0) == 1


def test_once_for_asyncio(tmp_path):
    target = tmp_path / "token"

    async def main():
        runs = []

        async def refresh():
            runs.append(1)
            await asyncio.sleep(0)
            return len(runs)

        results = await asyncio.gather(*(aio.once(target, refresh, ttl=600) for _ in range(5)))
        assert results == [1] * 5
        started, end = asyncio.Event(), asyncio.Event()

        async def slow():
            started.set()
            await end.wait()

        running = asyncio.ensure_future(aio.once(tmp_path / "slow", slow, ttl=600))
        await started.wait()
        waiting = asyncio.ensure_future(aio.once(tmp_path / "slow", never, ttl=600, wait=None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await aio.once(tmp_path / "slow", lambda: 2, ttl=600, wait=0) == 2

    asyncio.run(main())


def test_the_command_gets_the_result(tmp_path):
    tenure.once(tmp_path / "t", lambda: {"n": 1}, ttl=600)
    command = [os.environ["TENURE_CLI"], "once", tmp_path / "t", "--ttl", "10m", "--", "false"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b'{"n":1}'


def test_wrong_arguments_are_refused_and_what_is_no_json(tmp_path):
    for function, options in ((5, {"ttl": 1}), (never, {"ttl": "soon"}), (never, {"ttl": 1, "slots": 1})):
        with pytest.raises(tenure.InvalidError):
            tenure.once(tmp_path / "t", function, **options)
    with pytest.raises(tenure.InvalidError):
        tenure.once(tmp_path / "t", object, ttl=600)
    assert tenure.once(tmp_path / "t", lambda: "x" * 2**20, ttl=600) == "x" * 2**20
    assert tenure.once(tmp_path / "t", lambda: "too long before", ttl=600) == "too long before"


def test_the_error_survives_pickle():
    error = pickle.loads(pickle.dumps(tenure.OnceFailedError("m", exit_code=3)))
    assert (error.code, error.exit_code, str(error)) == ("cancelled", 3, "m")

"""The lease and the collection."""

import asyncio
import json
import os
import subprocess
import time

import pytest
import tenure
from tenure import aio
from conftest import HOLDER, PATIENCE


def test_a_lease_outlives_its_process_and_fences(tmp_path, child):
    code = """
import sys, tenure
leased = tenure.Lease(sys.argv[1]).acquire(owner="first", ttl=300)
print(leased.token, leased.fence, flush=True)
"""
    token, fence = child(code, tmp_path / "s").line().split()
    lease = tenure.Lease(tmp_path / "s")
    info = lease.show()
    assert info.owner == "first" and info.ttl == 300 and 0 < info.expires_in <= 300
    with pytest.raises(tenure.BusyError) as caught:
        lease.acquire(owner="second", ttl=10, wait=0.05)
    assert caught.value.holder["owner"] == "first" and caught.value.holder["kind"] == "lease"
    renewed = lease.renew(token, ttl=200)
    assert renewed.fence == int(fence) and renewed.token == token and token not in repr(renewed)
    with lease.take_over(owner="second", ttl=10, reason="test") as taken:
        assert taken.fence > int(fence)
        with pytest.raises(tenure.LeaseLostError):
            lease.renew(token)
        with pytest.raises(tenure.FencedError):
            tenure.Document(tmp_path / "s").set([1], fence=int(fence))
    assert lease.show() is None and any("take" in str(event) for event in lease.events())
    with pytest.raises(tenure.LeaseLostError):
        taken.release()
    with pytest.raises(tenure.InvalidError):
        lease.take_over(ttl=1, reason=" ")


def test_a_waiter_gets_an_expired_lease(tmp_path):
    lease = tenure.Lease(tmp_path / "s")
    first = lease.acquire(owner="a", ttl=0.2)
    second = lease.acquire(owner="b", ttl=60, wait=PATIENCE)
    assert second.fence > first.fence and second.owner == "b"
    assert lease.acquire(owner="b", ttl=60, token=second.token).fence == second.fence
    second.release()


def test_times_are_written_as_on_the_command_line(tmp_path):
    lease = tenure.Lease(tmp_path / "s")
    for words, seconds in (("90000ms", 90), ("30s", 30), ("1m", 60), ("2h", 7200), ("1d", 86400), ("45", 45)):
        with lease.take_over(ttl=words, reason="test") as leased:
            assert leased.ttl == seconds
    with lease.acquire(ttl="1m") as leased:
        assert leased.renew(ttl="2m").ttl == 120 and lease.renew(leased.token, ttl="3m").ttl == 180
    tenure.Collection(tmp_path / "c").prune(max_age="30d")


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e9])
def test_a_lease_has_a_sane_time_to_live(tmp_path, ttl):
    with pytest.raises(ValueError):
        tenure.Lease(tmp_path / "s").acquire(ttl=ttl)


def test_programs_below_a_hold_use_its_fence(tmp_path, cli, child):
    import subprocess
    import sys

    code = """
import sys, tenure
inner, outer = sys.argv[1:]
tenure.Document(inner).set([1], wait=0)
tenure.Document(outer).set([2], wait=0)
with tenure.lock(outer, wait=0):
    pass
tenure.Document(outer + ".index").set({"k": 1})
tenure.Collection.split(outer + ".index", outer + ".all", wait=0)
"""
    inner, outer = tmp_path / "t", tmp_path / "new\nline"
    program = [sys.executable, "-c", code, inner, outer]
    subprocess.run([cli, "run", outer, "--", cli, "run", inner, "--", *program], check=True, timeout=PATIENCE)
    assert tenure.Document(inner).read().value == [1] and tenure.Document(outer).read().value == [2]


def test_programs_below_a_lease_use_its_token(tmp_path, cli):
    import subprocess
    import sys

    code = """
import sys, tenure
lease = tenure.Lease(sys.argv[1])
assert lease.acquire(ttl=60, wait=0).fence == int(sys.argv[2] or lease.show().holder["fence"])
lease.take_over(ttl=60, reason="a new token")
"""
    command = [cli, "lease", "hold", tmp_path / "s", "--ttl", "60s", "--", sys.executable, "-c", code]
    ended = subprocess.run([*command, tmp_path / "s", ""], timeout=PATIENCE, capture_output=True, text=True)
    assert ended.returncode == 4, ended.stderr  # The command lost its lease to the take-over.


def test_a_collection_has_one_file_per_key(tmp_path):
    sessions = tenure.Collection(tmp_path / "s")
    for key in ("a", "B/../c", "d"):
        sessions.document(key).set({"key": key}, no_sync=True)
    assert sorted(sessions.keys()) == ["B/../c", "a", "d"]
    assert os.path.dirname(sessions.path_of("B/../c")) == str(tmp_path / "s")
    pruned = sessions.prune(max_count=1, keep=["a"], dry_run=True)
    assert "a" not in pruned.removed and len(sessions.keys()) == 3
    with tenure.lock(sessions.path_of("d")):
        assert sessions.prune(max_age=0, keep=["a"]).removed == ["B/../c"]
    assert sessions.remove("d") and not sessions.remove("d")
    assert sessions.keys() == ["a"]
    with pytest.raises(tenure.InvalidError):
        sessions.document("")
    logs = tenure.Collection(tmp_path / "l", "journals")
    logs.journal("x").append(["1"])
    assert logs.keys() == ["x"]
    tenure.Document(tmp_path / "index.json").set({"k": [1], "l": [2]})
    assert sorted(tenure.Collection.split(tmp_path / "index.json", tmp_path / "new").created) == ["k", "l"]


def test_a_held_lock_keeps_a_lease_out(tmp_path, child):
    holder = child(HOLDER, tmp_path / "t")
    holder.line()
    with pytest.raises(tenure.BusyError):
        tenure.Lease(tmp_path / "t").acquire(ttl=1, wait=0)
    with pytest.raises(tenure.BusyError):
        tenure.Lease(tmp_path / "t").take_over(ttl=1, reason="no", wait=0)


def test_several_leases_are_acquired_in_one_order_with_one_token(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with tenure.lease_all([b, a, b], ttl="1m", owner="me") as both:
        assert [leased.path for leased in both.leases] == [str(a), str(b)]
        assert all(leased.token == both.token and leased.owner == "me" for leased in both.leases)
        for path in (a, b):
            with pytest.raises(tenure.BusyError):
                tenure.try_lock(path)
        assert [leased.ttl for leased in both.renew(ttl=30).leases] == [30, 30]
        same = tenure.lease_all((a, b), ttl=60, token=both.token)
        assert [one.fence for one in same.leases] == [one.fence for one in both.leases]
    with pytest.raises(tenure.LeaseLostError):
        same.release()
    assert tenure.Lease(a).show() is None and tenure.Lease(b).show() is None


def test_if_another_has_one_of_several_leases_none_is_acquired(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    held = tenure.Lease(b).acquire(ttl=60)
    with pytest.raises(tenure.BusyError):
        tenure.lease_all([a, b], ttl=1, wait=0.01)
    assert tenure.Lease(a).show() is None

    async def main():
        waits = asyncio.ensure_future(aio.lease_all([a, b], ttl=60, wait=None))
        await asyncio.sleep(0)
        held.release()
        async with await waits as both:
            assert both.token and both.leases[0].fence > 0
            assert (await both.renew()).token == both.token

    asyncio.run(main())
    assert tenure.Lease(a).show() is None
    for paths in ([], "ab", None, 5, ["a", 5]):
        with pytest.raises(tenure.ArgumentError):
            tenure.lease_all(paths, ttl=1)
    with pytest.raises(tenure.ArgumentError):
        tenure.lease_all([a], ttl=1, fence=1)


def test_several_leases_are_those_of_the_command(tmp_path, cli):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    made = subprocess.check_output([cli, "lease", "acquire", *paths, "--ttl", "1m", "--json"])
    made = json.loads(made)
    both = tenure.lease_all(paths, ttl=60, token=made["token"])
    shown = [{"target": leased.path, "fence": leased.fence} for leased in both.leases]
    assert shown == made["targets"]
    subprocess.check_call([cli, "lease", "release", *paths, "--token", both.token])
    assert tenure.Lease(paths[0]).show() is None


def test_a_lease_of_a_cancelled_task_is_released_but_for_a_renewal(tmp_path, monkeypatch):
    target = tenure.Lease(tmp_path / "s")

    def ttl():
        info = target.show()
        return info and info.ttl

    async def cancelled(acquire):
        """Cancels a call once it has the lease for 300 s, without a turn of the event loop in between."""
        task = asyncio.ensure_future(acquire)
        await asyncio.sleep(0)
        deadline = time.monotonic() + PATIENCE
        while ttl() != 300:
            assert time.monotonic() < deadline
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def main():
        lease = aio.Lease(target.path)
        await cancelled(lease.acquire(ttl=300))
        assert ttl() is None
        await cancelled(aio.lease_all([target.path], ttl=300))
        assert ttl() is None
        token = target.acquire(ttl=60).token
        await cancelled(lease.acquire(ttl=300, token=token))
        target.renew(token, ttl=60)
        monkeypatch.setenv("TENURE_TARGET", target.path)
        monkeypatch.setenv("TENURE_TOKEN", token)
        await cancelled(lease.acquire(ttl=300))
        assert target.renew(token, ttl=60).token == token

    asyncio.run(main())

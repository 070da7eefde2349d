"""Stores on real servers: the same verbs as on files."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tenure
from conftest import PATIENCE, ROOT

COMMAND = Path(os.environ.get("TENURE_CLI", ROOT / "target/debug/tenure"))


@pytest.fixture(params=["postgres", "etcd"])
def url(request):
    """An empty store. Its server ends with the test."""
    if os.environ.get(f"TENURE_WITHOUT_{request.param.upper()}"):
        pytest.skip(f"without {request.param}")
    with subprocess.Popen(
        [COMMAND.with_name("serve-engine"), request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        server.stdin.write("\n")
        server.stdin.flush()
        found = server.stdout.readline().strip()
        found += ("&" if "?" in found else "?") + "ttl=2s"
        command(found, "store", "init")
        yield found
        server.stdin.close()
        server.wait(PATIENCE)


def command(store, *words):
    environment = {**os.environ, "TENURE_STORE": store}
    return subprocess.run(
        [COMMAND, *words], env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_every_noun_works_in_a_store(url):
    store = tenure.Store.open(url)
    assert "://" in store.name
    assert any(found["what"] == "server" for found in store.check())
    state = tenure.Document("state.json", store=store)
    assert state.read() is None
    state.set({"n": 1})
    state.update(lambda value: value.update(n=value["n"] + 1))
    with state.transaction() as value:
        value["n"] += 1
    assert tenure.Document("state.json", store=url).read().value == {"n": 3}
    log = tenure.Journal("log.jsonl", store=store)
    assert log.append(["a", "b"]).first < 2**53
    tenure.update_and_append(state, lambda value: value.update(n=4), log, "c")
    assert [entry.line for entry in log.read()] == [b"a", b"b", b"c"]
    with pytest.raises(tenure.UnsupportedError):
        log.rotate()
    with tenure.lock("build", store=store) as guard:
        assert guard.held
        with pytest.raises(tenure.BusyError):
            tenure.try_lock("build", store=store)
        assert tenure.status("build", store=store)["holder"]["pid"] == os.getpid()
        assert [found["target"] for found in tenure.status_below("/", store=store)]
        tenure.Document("build", store=store).set(1, fence=guard.fence, wait=0)
        state.set({"n": 5}, guard={"build": guard.fence})
        with pytest.raises(tenure.InvalidError):
            tenure.Document("x.json").set(1, guard={f"{store.name}#/build": guard.fence})
    tenure.Lock("build", store=store).acquire().release()
    with tenure.Lease("session", store=store).acquire(ttl=60, owner="me"):
        with pytest.raises(tenure.BusyError):
            tenure.Document("session", store=store).set(1, wait=0)
    sessions = tenure.Collection("sessions", store=store)
    sessions.document("A").set(1)
    assert sessions.keys() == ["A"]
    assert command(url, "doc", "get", "sessions/%41.json") == "1\n"


def test_slots_several_locks_queues_once_and_files_work_in_a_store(url):
    with tenure.lock("gpu", store=url, slots=2), tenure.lock_all(["b", "a"], store=url) as both:
        assert [guard.path for guard in both.guards] == ["/a", "/b"]
        with pytest.raises(tenure.BusyError):
            tenure.try_lock("a", store=url)
    command(url, "claim", "add", "tasks", '{"n":1}', "--id", "one")
    queue = tenure.Queue("tasks", store=url)
    claimed = queue.next(ttl=60, wait=None)
    assert (claimed.id, claimed.task) == ("one", {"n": 1})
    tenure.Document("result.json", store=url).set(1, guard={claimed.target: claimed.fence})
    assert queue.done("one", claimed.token) and queue.prune() == ["one"]
    for result in (5, 6):
        assert tenure.once("token", lambda: result, ttl=60, store=url) == 5
    file = tenure.Blob("main.rs", store=url)
    version = file.put("1").version
    file.put(b"\x00\xff", if_version=version)
    assert file.get().bytes == b"\x00\xff"
    with pytest.raises(tenure.ConflictError):
        file.put("2", if_version=version)


def test_asyncio_has_the_same_argument(url):
    async def work():
        async with tenure.aio.lock("build", store=url):
            await tenure.aio.Document("a.json", store=url).set([1])
        async with tenure.aio.Document("a.json", store=url).transaction() as value:
            value.append(2)
        await tenure.aio.Collection("c", "journals", store=url).journal("k").append("x")

    asyncio.run(work())
    assert command(url, "doc", "get", "-c", "a.json") == "[1,2]\n"
    assert command(url, "journal", "read", "c/k.jsonl") == "x\n"


def test_a_program_below_run_finds_its_hold(url):
    program = (
        "import os, tenure\n"
        "store = os.environ['TENURE_STORE']\n"
        "tenure.Document('deploy', store=store).set(1, wait=0)\n"
        "tenure.lock('deploy', store=store, wait=0).release()\n"
    )
    command(url, "run", "deploy", "--", sys.executable, "-c", program)
    assert command(url, "doc", "get", "deploy") == "1\n"


def test_a_store_that_is_none_is_refused_and_no_password_is_shown(monkeypatch):
    for given in ["redis://a/b", "postgres://me:geheim/x@host/db", 7, b"etcd://a"]:
        with pytest.raises(tenure.InvalidError) as raised:
            tenure.Document("x", store=given)
        assert "geheim" not in str(raised.value)
    gone = tenure.Store.open("postgres://me:geheim@127.0.0.1:1/db")
    assert "geheim" not in repr(gone)
    with pytest.raises(tenure.IoError) as raised:
        tenure.Document("x", store=gone).read()
    assert "geheim" not in str(raised.value)
    # A program names its store itself.
    monkeypatch.setenv("TENURE_STORE", "postgres://127.0.0.1:1/db")
    assert tenure.Document("/no-such-file.json").read() is None

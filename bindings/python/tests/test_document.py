"""The document: whole, never losing an update, with Python functions under the lock."""

import os
import pickle
import sys
import threading
from pathlib import Path

import pytest
import tenure
from conftest import PATIENCE

ADD = """
import sys, tenure
document = tenure.Document(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
def add(state):
    state["n"] += 1
for _ in range(int(sys.argv[2])):
    document.update(add, init={"n": 0}, no_sync=True, wait=None)
print("done", flush=True)
"""


@pytest.fixture
def document(tmp_path):
    return tenure.Document(tmp_path / "state.json")


def test_what_is_set_is_read_with_its_order_and_bytes(document):
    assert document.read() is None and document.version() is None
    value = {"z": 1, "a": [None, True, "caf\u00e9 \U0001f600"], "m": {"x": -1.5, "b": 10**40}}
    written = document.set(value)
    assert written.changed and not written.replayed
    snapshot = document.read()
    assert snapshot.value == value and list(snapshot.value) == ["z", "a", "m"]
    assert snapshot.bytes == Path(document.path).read_bytes()
    assert snapshot.version == written.version == document.version()
    assert not document.set(value).changed
    assert pickle.loads(pickle.dumps(written)) == written
    assert pickle.loads(pickle.dumps(snapshot)).value == value
    assert os.stat(document.path).st_mode & 0o777 == 0o600


def test_update_returns_or_changes_in_place(document):
    document.update(lambda state: {"n": 1})
    document.update(lambda state: state.update(n=state["n"] + 1))
    assert document.read().value == {"n": 2}
    assert not document.update(lambda state: None).changed


def test_an_update_of_nothing_has_to_make_something(document, tmp_path):
    """As the command line and the Node package do: nothing is never a success."""
    journal = tenure.Journal(tmp_path / "log.jsonl")
    for act in (
        lambda: document.update(lambda state: state),
        lambda: document.update(lambda state: None),
        lambda: tenure.update_and_append(document, lambda state: None, journal, "never"),
    ):
        with pytest.raises(tenure.NotFoundError, match="there is no document") as caught:
            act()
        assert caught.value.path == document.path and caught.value.committed is False
    assert document.read() is None and list(journal.read()) == []
    document.update(lambda state: {"was": state})
    assert document.read().value == {"was": None}
    other = tenure.Document(document.path + ".other")
    other.update(lambda state: state.append(1), init=[])
    assert other.read().value == [1]


def test_a_raise_leaves_everything_as_it_is_and_is_passed_on(document):
    document.set({"n": 1})
    before = Path(document.path).read_bytes()
    for failure in (KeyError("x"), KeyboardInterrupt(), SystemExit(3), tenure.BusyError("mine")):

        def fail(state, failure=failure):
            state["n"] = 99
            raise failure

        with pytest.raises(type(failure)) as caught:
            document.update(fail)
        assert caught.value is failure
    assert Path(document.path).read_bytes() == before
    document.update(lambda state: state.update(n=2), wait=0)


def test_an_update_inside_an_update_of_the_same_document_is_told(document):
    document.set({})
    with pytest.raises(tenure.DeadlockError):
        document.update(lambda state: document.set({"inner": 1}))
    other = tenure.Document(document.path + ".other")
    document.update(lambda state: {"v": other.set([1]).version})
    assert other.read().value == [1]


def test_threads_lose_no_update(document):
    def work():
        for _ in range(25):
            document.update(lambda state: state.update(n=state["n"] + 1), init={"n": 0}, no_sync=True)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert document.read().value == {"n": 200}


def test_processes_lose_no_update_and_a_killed_one_does_no_harm(document, child):
    children = [child(ADD, document.path, 30) for _ in range(4)]
    victim = child(ADD, document.path, 100000)
    for one in [*children, victim]:
        one.line()
    watch = document.watch()
    for one in [*children, victim]:
        one.tell()
    while watch.next(wait=PATIENCE).value["n"] <= 20:
        pass
    victim.kill()
    for one in children:
        assert one.line() == "done"
    after = document.read().value["n"]
    assert after >= 120
    assert document.update(lambda state: state.update(n=state["n"] + 1)).changed
    assert document.read().value["n"] == after + 1


def test_conditions_operations_and_guards(document, tmp_path):
    first = document.set([1])
    document.compare_and_set(first.version, [2])
    for stale in (
        lambda: document.compare_and_set(first.version, [3]),
        lambda: document.set([3], if_version=first.version),
    ):
        with pytest.raises(tenure.ConflictError):
            stale()
    assert not document.set([4], op_id="once").replayed
    document.set([5])
    assert document.set([4], op_id="once").replayed and document.read().value == [5]
    with tenure.Lease(tmp_path / "session").acquire(owner="me", ttl=60) as leased:
        document.set([6], guard={tmp_path / "session": leased.fence})
    with pytest.raises(tenure.TenureError) as caught:
        document.set([7], guard={tmp_path / "session": leased.fence})
    assert caught.value.code in ("fenced", "lease_lost") and document.read().value == [6]


def test_merge_rules_and_patch(document):
    document.set({"seen": ["a"], "n": 5, "keep": 1, "gone": 1})
    document.merge(
        {"seen": ["b", "a"], "n": 3, "gone": None, "total": 2}, union=["/seen"], max=["/n"], sum=["/total"]
    )
    assert document.read().value == {"seen": ["a", "b"], "n": 5, "keep": 1, "total": 2}
    document.patch([{"op": "replace", "path": "/n", "value": 6}])
    assert document.read().value["n"] == 6
    with pytest.raises(tenure.ConflictError):
        document.patch([{"op": "test", "path": "/n", "value": 7}])
    with pytest.raises(tenure.InvalidError):
        document.merge({}, union=["no pointer"])
    with pytest.raises(tenure.NotFoundError) as caught:
        tenure.Document(document.path + ".missing").patch([])
    assert isinstance(caught.value, FileNotFoundError)


def test_damage_is_told_and_restored(document):
    document.set({"n": 1})
    document.set({"n": 2})
    with open(document.path, "w") as file:
        file.write('{"n": ')
    for use in (document.read, lambda: document.set({})):
        with pytest.raises(tenure.DamagedError):
            use()
    document.restore()
    assert document.read().value["n"] in (1, 2)


def test_watch_sees_changes_of_others_and_can_be_closed(document, child):
    document.set({"n": 0})
    with document.watch() as watch:
        assert watch.next(wait=0) is None
        writer = child(ADD, document.path, 1)
        writer.line()
        writer.tell()
        assert next(iter(watch)).value == {"n": 1}
        assert watch.next(wait=0.05) is None
    with pytest.raises(tenure.InvalidError):
        watch.next(wait=0)


def test_together_with_a_journal(document, tmp_path):
    journal = tenure.Journal(tmp_path / "log.jsonl")
    written, appended = tenure.update_and_append(
        document, lambda state: state.update(n=1), journal, ['{"to": 1}'], init={}, op_id="x", json=True
    )
    assert written.changed and appended.first == 1
    with pytest.raises(ZeroDivisionError):
        tenure.update_and_append(document, lambda state: 1 / 0, journal, ["never"])
    assert [entry.json() for entry in journal.read()] == [{"to": 1}]


def test_a_document_of_megabytes(document):
    value = {str(number): "x" * 1000 for number in range(5000)}
    document.set(value, no_sync=True)
    assert document.read().value == value
    assert sys.getsizeof(document.read().bytes) > 5_000_000

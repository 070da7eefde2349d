"""Errors: the same codes as the command line, the right built-in bases, never a crash."""

import errno
import json
import os
import pickle
import subprocess

import pytest
import tenure
from conftest import HOLDER, PATIENCE
from tenure import _errors, _tenure


def test_every_code_has_a_class():
    assert set(_tenure.CODES) == set(_errors._CLASSES)
    for code, kind in _errors._CLASSES.items():
        assert kind.code == code and issubclass(kind, tenure.TenureError)
        words = "".join(word.capitalize() for word in code.split("_"))
        assert kind.__name__ == f"{words}Error" and getattr(tenure, kind.__name__) is kind
        error = _errors.exception(code, "m", path="p", holder={"pid": 1}, errno=5, committed=True)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.path, again.holder, again.committed) == (
            kind,
            "m",
            "p",
            {"pid": 1},
            True,
        )
        if isinstance(error, OSError):
            assert (again.errno, again.filename) == (5, "p")


@pytest.fixture
def compare(cli):
    def compare(arguments, act):
        """The command and the call fail with the same code, message, path and holder."""
        command = [cli, *map(os.fspath, arguments), "--json"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        words = json.loads(said.stderr.strip().splitlines()[-1])
        words = words.get("error", words)
        with pytest.raises(tenure.TenureError) as caught:
            act()
        error = caught.value
        assert error.code == words["code"], (error, words)
        assert error.path == words["path"] and error.committed == words["committed"]
        assert (error.holder or {}).get("pid") == (words["holder"] or {}).get("pid")
        return error

    return compare


def test_codes_are_those_of_the_command_line(tmp_path, compare, child):
    target = tmp_path / "d.json"
    document = tenure.Document(target)
    first = document.set({"n": 1}).version
    document.set({"n": 2})
    lease = tenure.Lease(target)

    compare(["doc", "set", target, "[]", "--if-version", first], lambda: document.set([], if_version=first))
    compare(["doc", "set", target, "[]", "--fence", "1"], lambda: document.set([], fence=1))
    token = "x" * 32
    compare(["lease", "renew", target, "--token", token], lambda: lease.renew(token))
    missing = tmp_path / "missing.json"
    compare(["doc", "patch", missing, "[]"], lambda: tenure.Document(missing).patch([]))
    holder = child(HOLDER, target)
    holder.line()
    busy = ["doc", "set", target, "[]", "--wait", "0"]
    assert compare(busy, lambda: document.set([], wait=0)).holder["pid"] == holder.pid
    holder.tell()
    holder.line()
    link = tmp_path / "link.json"
    os.link(target, link)
    compare(["doc", "set", target, "[]"], lambda: document.set([]))
    os.unlink(link)
    target.write_text("{")
    compare(["doc", "get", target], document.read)


def test_what_the_operating_system_refuses_has_its_errno(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(tenure.TenureError) as caught:
        tenure.lock(tmp_path / "file" / "below")
    assert isinstance(caught.value, OSError) and caught.value.errno == errno.ENOTDIR
    os.symlink(tmp_path / "loop", tmp_path / "loop")
    with pytest.raises(tenure.TenureError):
        tenure.lock(tmp_path / "loop")
    denied = _errors.exception("io", "m", errno=errno.EACCES)
    assert isinstance(denied, PermissionError) and denied.code == "io"


WRONG_TYPES = [
    lambda path: tenure.lock(),
    lambda path: tenure.lock(5),
    lambda path: tenure.lock(None),
    lambda path: tenure.lock(path, wait=[]),
    lambda path: tenure.lock(path, shared="yes"),
    lambda path: tenure.lock(path, label=5),
    lambda path: tenure.lock(path, cancel=5),
    lambda path: tenure.lock(path, nonsense=1),
    lambda path: tenure.try_lock(path, wait=1),
    lambda path: tenure.Document(path).set(),
    lambda path: tenure.Document(path).set(1, fence="x"),
    lambda path: tenure.Document(path).set(1, guard=[1]),
    lambda path: tenure.Document(path).set(1, guard={5: 1}),
    lambda path: tenure.Document(path).update(5),
    lambda path: tenure.Document(path).update(lambda: 1),
    lambda path: tenure.Document(path).merge({}, union="/a", nonsense=1),
    lambda path: tenure.Journal(path).read("x"),
    lambda path: tenure.Journal(path).compact(5),
    lambda path: tenure.Lease(path).acquire(),
    lambda path: tenure.Lease(path).acquire(ttl=[]),
    lambda path: tenure.Collection(path).document(5),
    lambda path: tenure.Cancel(1),
    lambda path: tenure.update_and_append(1, 2, 3, 4),
]


@pytest.mark.parametrize("number", range(len(WRONG_TYPES)))
def test_wrong_types_are_type_errors_of_the_package(tmp_path, number):
    with pytest.raises(TypeError) as caught:
        WRONG_TYPES[number](tmp_path / "t")
    # But for the number of arguments, and what a function of the caller raises.
    if number not in (0, 9, 14, 18, 21, 22):
        error = caught.value
        assert isinstance(error, tenure.ArgumentError) and isinstance(error, tenure.InvalidError)
        assert error.code == "invalid" and str(error).startswith("failed to read ")


QUOTED = [
    (lambda path: tenure.lock(path, wait=["soon"]), "wait: it must be a number of seconds, None", "['soon']"),
    (lambda path: tenure.lock(path, wait="soon"), "wait: it must be", "'soon'"),
    (lambda path: tenure.lock(path, wait=-1), "wait: it must be", "-1"),
    (lambda path: tenure.lock(path, max_hold="long"), "max_hold: it must be a number of seconds", "'long'"),
    (lambda path: tenure.lock(path, max_hold="forever"), "max_hold: it must be", "'forever'"),
    (lambda path: tenure.lock(5), "path: it must be a str, bytes or os.PathLike", "5"),
    (lambda path: tenure.lock(path, lock_file=5), "lock_file: it must be a str", "5"),
    (lambda path: tenure.Lease(path).acquire(ttl=None), "ttl: it must be a number of seconds", "None"),
    (lambda path: tenure.Lease(path).acquire(ttl=True), "ttl: it must be", "True"),
    (lambda path: tenure.Lease(path).take_over(ttl=1, reason=5), "reason: it must be a str", "5"),
    (lambda path: tenure.Document(path).set(1, fence=-1), "fence: it must be a whole number", "-1"),
    (lambda path: tenure.Document(path).set(1, guard={path: "x"}), "the fence of a guard: it", "'x'"),
    (lambda path: tenure.Document(path, numbers="int"), "numbers: it must be one of", "'int'"),
    (lambda path: tenure.Collection(path, "things"), "kind: it must be one of", "'things'"),
    (lambda path: tenure.Journal(path).follow("x"), "from_: it must be a whole number", "'x'"),
    (lambda path: tenure.Document(path).set(1, label="x" * 50, fence="y" * 100), "fence: it", "..."),
]


@pytest.mark.parametrize("number", range(len(QUOTED)))
def test_the_message_says_what_was_expected_and_what_came(tmp_path, number):
    act, expected, came = QUOTED[number]
    with pytest.raises(tenure.InvalidError) as caught:
        act(tmp_path / "t")
    message = str(caught.value)
    assert message.startswith(f"failed to read {expected}") and message.endswith(came), message
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), message)


def test_a_value_that_cannot_be_shown_is_told_all_the_same(tmp_path):
    class Odd:
        def __repr__(self):
            raise KeyError("no words")

    with pytest.raises(tenure.ArgumentError, match="Odd"):
        tenure.lock(tmp_path / "t", label=Odd())


WRONG_VALUES = [
    lambda path: tenure.lock(""),
    lambda path: tenure.lock("/"),
    lambda path: tenure.lock(path, wait=-1),
    lambda path: tenure.lock(path, wait=float("nan")),
    lambda path: tenure.lock(path, wait="soon"),
    lambda path: tenure.Lease(path).acquire(ttl="x"),
    lambda path: tenure.Document(path, numbers="int"),
    lambda path: tenure.Document(path).set(1, if_version="not a version!"),
    lambda path: tenure.Collection(path, "things"),
    lambda path: tenure.Lease(path).renew("short"),
    lambda path: tenure.Entry(1, b"{").json(),
]


@pytest.mark.parametrize("number", range(len(WRONG_VALUES)))
def test_wrong_values_are_value_errors(tmp_path, number):
    with pytest.raises(ValueError):
        WRONG_VALUES[number](tmp_path / "t")


def test_odd_input_never_crashes(tmp_path):
    for act in (
        lambda: tenure.lock("a\0b"),
        lambda: tenure.lock(tmp_path / ("x" * 300)),
        lambda: tenure.Document(tmp_path),
        lambda: tenure.Document(tmp_path).set([1]),
        lambda: tenure.Document(tmp_path).read(),
        lambda: tenure.Document(tmp_path / "d").set(1, fence=-1),
        lambda: tenure.Document(tmp_path / "d").set(1, fence=2**64),
        lambda: tenure.Journal(tmp_path / "j").read(2**64),
        lambda: tenure.Journal(tmp_path / "j").append(["x"], label="l" * 10**6),
        lambda: tenure.Document(tmp_path / "d").set(1, op_id="o" * 10**6),
        lambda: tenure.Document(tmp_path / "d").set(1, wait=1e300),
    ):
        try:
            act()
        except (tenure.TenureError, ValueError, OverflowError, OSError):
            pass


def test_a_panic_inside_is_an_exception():
    error = _errors.exception("internal", "tenure failed inside")
    assert type(error) is tenure.TenureError and error.code == "internal"


def test_the_environment_is_read_and_checked(tmp_path, monkeypatch):
    with tenure.lock(tmp_path / "t"):
        pass
    monkeypatch.setenv("TENURE_WAIT", "soon")
    with pytest.raises(tenure.InvalidError, match="TENURE_WAIT"):
        tenure.lock(tmp_path / "t")
    tenure.lock(tmp_path / "t", wait=1).release()
    monkeypatch.setenv("TENURE_WAIT", "20ms")
    guard = tenure.lock(tmp_path / "t")
    with pytest.raises(tenure.DeadlockError):
        tenure.lock(tmp_path / "t")
    guard.release()
    monkeypatch.setenv("TENURE_TARGET", str(tmp_path / "t"))
    monkeypatch.setenv("TENURE_FENCE", "x")
    with pytest.raises(tenure.InvalidError, match="TENURE_FENCE"):
        tenure.lock(tmp_path / "t")
    monkeypatch.setenv("TENURE_FENCE", "5")
    with pytest.raises(tenure.FencedError):
        tenure.lock(tmp_path / "t")
    monkeypatch.setenv("TENURE_OUTER", f"7 {tmp_path}/back\\\\slash\\n")
    with pytest.raises(tenure.FencedError):
        tenure.lock(f"{tmp_path}/back\\slash\n")

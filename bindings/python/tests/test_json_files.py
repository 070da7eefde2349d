"""`locked_save_json`, `update_json` and `Session`: every behaviour of the function they replace, kept."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import tenure
from conftest import PATIENCE
from tenure.compat import Session, locked_save_json, update_json


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "er" / "project.json"


OPTIONS = [
    {},
    {"indent": 2},
    {"indent": 4, "sort_keys": True},
    {"indent": "\t"},
    {"separators": (",", ":")},
    {"ensure_ascii": False},
    {"indent": 2, "sort_keys": True, "default": str},
]
DATA = {"b": [1, 2.5, None], "a": "caf\u00e9", "c": {"z": True, "y": "\U0001f600"}}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [str, Path])
def test_the_text_is_that_of_json_dumps(path, options, kind):
    assert locked_save_json(kind(path), DATA, **options) is None
    assert path.read_text(encoding="utf-8") == json.dumps(DATA, **options)
    locked_save_json(kind(path), [1], **options)
    assert path.read_text() == json.dumps([1], **options)


def test_default_and_cls_are_honoured(path, tmp_path):
    locked_save_json(path, {"p": tmp_path}, default=str)
    assert json.loads(path.read_text()) == {"p": str(tmp_path)}

    class Encoder(json.JSONEncoder):
        def default(self, value):
            return "encoded"

    locked_save_json(path, {"p": tmp_path}, cls=Encoder)
    assert json.loads(path.read_text()) == {"p": "encoded"}


def test_a_relative_path_and_a_longer_old_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    locked_save_json("p.json", ["x" * 1000])
    locked_save_json("p.json", [1])
    assert json.loads((tmp_path / "p.json").read_text()) == [1]


def test_data_that_cannot_be_saved_leaves_the_file_as_it_was(path):
    locked_save_json(path, {"n": 1})
    with pytest.raises(TypeError):
        locked_save_json(path, {"n": object()})
    with pytest.raises(TypeError):
        update_json(path, lambda data: {"n": object()})
    with pytest.raises(ZeroDivisionError):
        update_json(path, lambda data: 1 / 0)
    assert json.loads(path.read_text()) == {"n": 1}


def test_mode_and_symlink_are_kept(path, tmp_path):
    before = os.umask(0o022)
    try:
        locked_save_json(path, 1)
        assert os.stat(path).st_mode & 0o777 == 0o644
    finally:
        os.umask(before)
    os.chmod(path, 0o640)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    locked_save_json(link, 2)
    assert link.is_symlink() and path.read_text() == "2"
    assert os.stat(path).st_mode & 0o777 == 0o640
    assert os.listdir(path.parent) == [".tenure", "project.json"] or sorted(os.listdir(path.parent)) == [
        ".tenure",
        "project.json",
    ]
    assert not [name for name in os.listdir(path.parent / ".tenure") if ".tmp." in name]


def test_four_threads_of_fifty_writes_leave_valid_json(path):
    def work(name):
        for number in range(50):
            locked_save_json(path, {"by": name, "number": number, "pad": "x" * number * 20}, indent=2)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert json.loads(path.read_text())["number"] == 49


def test_update_closes_the_hole(path):
    assert update_json(path, lambda data: data.append(1), initial=[], indent=2) == [1]
    assert update_json(path, lambda data: [*data, 2], initial=[]) == [1, 2]
    default: list = []
    update_json(path.with_name("other.json"), lambda data: data.append(1), initial=default)
    assert default == []


def test_damaged_files_are_told_and_left(path):
    locked_save_json(path, {})
    for damaged in ("", "{", "\0\0"):
        path.write_text(damaged)
        with pytest.raises(tenure.DamagedError):
            update_json(path, lambda data: data)
        assert path.read_text() == damaged
    locked_save_json(path, {"new": 1})
    assert json.loads(path.read_text()) == {"new": 1}


def test_documents_and_leases_are_kept_out_and_read_it(path, child):
    locked_save_json(path, {"n": 1}, indent=2)
    document = tenure.Document(path)
    document.update(lambda data: data.update(n=2))
    assert update_json(path, lambda data: data.update(n=data["n"] + 1), indent=2) == {"n": 3}
    assert document.read().value == {"n": 3}
    with tenure.lock(path):
        with pytest.raises(tenure.DeadlockError):
            locked_save_json(path, {})
    with tenure.Lease(path).acquire(owner="agent", ttl=60):
        with pytest.raises(tenure.BusyError):
            update_json(path, lambda data: data, wait=0.05)
    document.set({"n": 4})
    assert json.loads(path.read_text()) == {"n": 4}


BELOW = """
import subprocess, sys
from tenure.compat import locked_save_json, update_json
path, name = sys.argv[1:]
if name == "all":
    locked_save_json(path, {}, indent=2)
    children = [subprocess.Popen([sys.executable, __file__, path, one]) for one in "abcd"]
    sys.exit(any([child.wait() for child in children]))
for number in range(20):
    update_json(path, lambda data: data.update({f"{name}{number}": 1}), indent=2, wait=None)
"""


def test_programs_below_one_hold_of_the_file_lose_nothing(path, tmp_path, cli):
    """They all have that hold: what keeps them apart is the lock of each write."""
    program = tmp_path / "program.py"
    program.write_text(BELOW)
    path.parent.mkdir(parents=True)
    subprocess.run([cli, "run", path, "--", sys.executable, program, path, "all"], check=True, timeout=PATIENCE)
    text = path.read_text()
    assert len(json.loads(text)) == 80 and text == json.dumps(json.loads(text), indent=2)
    assert os.stat(path).st_mode & 0o777 == 0o666 & ~current_umask()
    assert not [name for name in os.listdir(path.parent / ".tenure") if ".tmp." in name]


def current_umask():
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_very_long_name(tmp_path):
    path = tmp_path / ("x" * 240 + ".json")
    locked_save_json(path, [1])
    assert update_json(path, lambda data: [2]) == [2]


def test_a_session_has_what_the_harnesses_have(path):
    session = Session()
    assert not session.has_project() and session.list_history() == []
    for call in (session.get_project, session.undo, session.redo, session.save_session):
        with pytest.raises(RuntimeError):
            call()
    session.snapshot("of nothing")
    assert session.status() == {
        "has_project": False,
        "project_path": None,
        "modified": False,
        "undo_count": 0,
        "redo_count": 0,
        "project_name": None,
    }
    session.set_project({"name": "demo", "layers": [], "metadata": {}})
    with pytest.raises(ValueError):
        session.save_session()
    for number in range(60):
        session.snapshot(f"add {number}")
        session.get_project()["layers"].append(number)
    history = session.list_history()
    assert len(history) == Session.MAX_UNDO and history[0]["description"] == "add 59" and history[0]["index"] == 0
    assert session.undo() == "add 59" and session.project["layers"][-1] == 58
    assert session.redo() == "redo point" and session.project["layers"][-1] == 59
    with pytest.raises(RuntimeError):
        session.redo()
    assert session.status()["modified"] and session.status()["undo_count"] == Session.MAX_UNDO
    assert session.save_session(str(path)) == str(path) == session.project_path
    saved = json.loads(path.read_text())
    assert saved["layers"][-1] == 59 and "modified" in saved["metadata"]
    assert path.read_text() == json.dumps(saved, indent=2, sort_keys=True)
    assert not session.status()["modified"] and session.status()["project_name"] == "demo"
    session.undo()
    session.snapshot("new branch")
    with pytest.raises(RuntimeError):
        session.redo()
    session.set_project({}, str(path))
    assert session.list_history() == [] and session.status()["project_path"] == str(path)
    session.save_session()
    assert list(json.loads(path.read_text())) == ["metadata"]


def test_a_session_by_another_name(path):
    class Scenes(Session):
        noun = "scene"

    session = Scenes()
    with pytest.raises(RuntimeError, match="No scene loaded. Use 'scene new'"):
        session.get_project()
    session.set_project({"name": "cube"})
    assert session.status()["scene_name"] == "cube"


def test_owner_and_hard_links(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text("{}")
    if os.geteuid() == 0:
        os.chown(path, 1234, 1234)
    before = path.stat()
    locked_save_json(path, {"n": 1})
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    os.link(path, tmp_path / "other.json")
    with pytest.raises(tenure.UnsupportedError):
        locked_save_json(path, {"n": 2})
    assert json.loads(path.read_text()) == {"n": 1}


def test_a_sticky_directory_like_tmp(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    path = tmp_path / "state.json"
    locked_save_json(path, {"n": 1})
    assert update_json(path, lambda data: {"n": data["n"] + 1}) == {"n": 2}
    assert sorted(os.listdir(tmp_path)) == [f".tenure-{os.getuid()}", "state.json"]


def test_bytes_paths_and_the_default_of_json(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    update_json(os.fsencode(path), lambda data: {"at": tmp_path}, default=str)
    assert json.loads(path.read_text()) == {"at": str(tmp_path)}
    locked_save_json(os.fsencode(path), [1])
    assert json.loads(path.read_text()) == [1]

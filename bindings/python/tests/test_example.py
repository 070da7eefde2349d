"""The example runs, also many times at once."""

import subprocess
import sys

from conftest import PATIENCE, ROOT

HARNESS = ROOT / "examples" / "cli-anything" / "harness.py"


def start(project, *words):
    command = [sys.executable, str(HARNESS), "--project", str(project), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(project, *words):
    process = start(project, *words)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    return output.split()


def test_many_commands_at_once_all_count(tmp_path):
    project = tmp_path / "new" / "demo.json"
    many = [start(project, "add", f"shape{number}") for number in range(12)]
    for one in many:
        one.communicate(timeout=PATIENCE)
        assert one.returncode == 0
    assert sorted(run(project, "list")) == sorted(f"shape{number}" for number in range(12))
    run(project, "clear", "--undo")
    assert len(run(project, "list")) == 12
    run(project, "clear")
    assert run(project, "list") == []
    project.write_text("{")
    assert "is not JSON" in complaint(project, "add", "x")


def complaint(project, *words, flags=(), code=1):
    """The one line that it ends with."""
    command = [sys.executable, *flags, str(HARNESS), "--project", str(project), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == code and ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_what_is_missing_is_told_in_one_line(tmp_path):
    for words in (["list"], ["clear"]):
        said = complaint(tmp_path / "none.json", *words)
        assert said.startswith("harness: ") and said.count("\n") == 1 and "none.json" in said
    (tmp_path / "other.json").write_text("{}")
    assert complaint(tmp_path / "other.json", "list").count("\n") == 1
    assert complaint(tmp_path / "x.json", code=2).startswith("usage: ")
    # Isolated: without PYTHONPATH there is no package, unless it is installed.
    if subprocess.run([sys.executable, "-I", "-c", "import tenure"], capture_output=True).returncode:
        said = complaint(tmp_path / "x.json", "list", flags=["-I"])
        assert said.count("\n") == 1 and "pip install tenure" in said

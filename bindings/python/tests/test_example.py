"""The example runs, also many times at once."""

import subprocess
import sys

from conftest import ROOT

HARNESS = ROOT / "examples" / "cli-anything" / "harness.py"


def start(project, *words):
    command = [sys.executable, str(HARNESS), "--project", str(project), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(project, *words):
    process = start(project, *words)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output.split()


def test_many_commands_at_once_all_count(tmp_path):
    project = tmp_path / "new" / "demo.json"
    many = [start(project, "add", f"shape{number}") for number in range(12)]
    for one in many:
        one.communicate(timeout=60)
        assert one.returncode == 0
    assert sorted(run(project, "list")) == sorted(f"shape{number}" for number in range(12))
    run(project, "clear", "--undo")
    assert len(run(project, "list")) == 12
    run(project, "clear")
    assert run(project, "list") == []
    project.write_text("{")
    failing = start(project, "add", "x")
    assert failing.communicate(timeout=60) and failing.returncode == 1

"""The wheel in a clean virtual environment, and what an import costs there.

`cargo xtask test` builds the wheel, installs it alone into a new environment, and names its interpreter in
TENURE_CLEAN_PYTHON.
"""

import json
import os
import resource
import subprocess

import pytest
from conftest import PATIENCE

#: Milliseconds over an interpreter that does nothing, on a machine where that one takes 13.
IMPORT_GOAL_MS = 8.0
#: The same on a slower or busier machine, as a part of what the interpreter alone takes there.
IMPORT_GOAL_PART = 0.6

USE = """
import asyncio, json, os, sys, tempfile, tenure
assert "site-packages" in tenure.__file__, tenure.__file__
assert os.path.exists(os.path.join(os.path.dirname(tenure.__file__), "py.typed"))
path = os.path.join(tempfile.mkdtemp(), "state.json")
with tenure.lock(path) as guard:
    tenure.Document(path).set({"n": 1}, fence=guard.fence)
tenure.Journal(path + "l").append(["x"])
with tenure.Lease(path).acquire(ttl=5):
    pass
async def main():
    async with tenure.aio.lock(path):
        pass
asyncio.run(main())
from tenure.compat import update_json
from tenure.compat.filelock import FileLock
with FileLock(path + ".lock"):
    print(json.dumps(update_json(path, lambda data: data.update(n=2), indent=2)))
"""


@pytest.fixture
def clean():
    python = os.environ.get("TENURE_CLEAN_PYTHON")
    if not python:
        pytest.skip("TENURE_CLEAN_PYTHON is not set; cargo xtask test builds and installs the wheel")

    def run(*arguments):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = [python, *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=PATIENCE)

    return run


def test_the_installed_wheel_does_everything_alone(clean):
    assert json.loads(clean("-c", USE).stdout) == {"n": 2}


def test_an_import_costs_little(clean, capsys):
    def cost(code):
        # Time of the processor, not of the clock: the machine has other things to do.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        clean("-c", code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000

    pairs = [(cost("0"), cost("import tenure")) for _ in range(40)]
    bare, imported = (min(times) for times in zip(*pairs))
    with capsys.disabled():
        print(f"\nimport tenure: {imported - bare:.1f} ms over a bare interpreter ({bare:.1f} ms)")
    assert imported - bare <= max(IMPORT_GOAL_MS, IMPORT_GOAL_PART * bare)

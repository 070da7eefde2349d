"""The installed wheel: every noun once, asyncio, and the drop-ins."""

import asyncio
import json
import os
import sys
import tempfile
from importlib import metadata

import tenure
from tenure import aio
from tenure.compat import locked_save_json
from tenure.compat.filelock import FileLock

os.chdir(tempfile.mkdtemp(dir=sys.argv[1]))
assert "site-packages" in tenure.__file__, tenure.__file__
with tenure.lock("state.json") as guard:
    tenure.Document("state.json").set({"n": 1}, fence=guard.fence)
assert tenure.Document("state.json").read().value == {"n": 1}
tenure.Journal("log.jsonl").append(["x"])
with tenure.Lease("lease").acquire(ttl=5):
    pass
with FileLock("file.lock"):
    locked_save_json("saved.json", {"n": 2}, indent=2)
with open("saved.json") as saved:
    assert json.load(saved) == {"n": 2}


async def main():
    async with aio.lock("state.json"):
        pass


asyncio.run(main())
files = [str(file) for file in metadata.files("tenure")]
for name in ("LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY-LICENSES.txt"):
    assert any(file.endswith("licenses/" + name) for file in files) or sys.argv[2] == "source", name
print("ok")

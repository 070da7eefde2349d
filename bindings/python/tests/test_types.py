"""The types: the package and a user's program pass `mypy --strict`, and the stubs are those of the module."""

import os
import subprocess
import sys
from pathlib import Path

import tenure

PACKAGE = Path(tenure.__file__).parent

PROGRAM = '''
import asyncio
from pathlib import Path
from typing import Optional
import tenure
from tenure import aio
from tenure.compat import Session, locked_save_json, update_json
from tenure.compat.filelock import AsyncFileLock, FileLock, Timeout
from tenure.types import Holder

with tenure.lock(Path("x"), wait=None, label="l", shared=False) as guard:
    fence: int = guard.fence
with tenure.Lock("x").acquire(wait=5) as again, tenure.Lock(b"x").try_acquire(shared=True):
    fence = again.fence
written: tenure.Written = tenure.Document("d", numbers="decimal").update(lambda v: v, init={}, no_sync=True)
version: str = written.version
try:
    tenure.try_lock(b"x")
except tenure.BusyError as error:
    holder: Optional[Holder] = error.holder
for entry in tenure.Journal("j").read(1, limit=5, on_gap=lambda gap: gap.last - gap.first):
    line: bytes = entry.line
pending: list[bytes] = tenure.Journal("j").pending()
report: tenure.Report = tenure.Journal("j").repair(accept=True)
lost: list[tuple[int, int]] = report.lost
files: list[str] = [damage.file for damage in report.damaged + report.set_aside]
try:
    list(tenure.Journal("j").read(1))
except tenure.JournalGapError as gap:
    print(gap.first, gap.last)
with tenure.Lease("s").acquire(ttl=5, owner="me") as leased:
    token: str = leased.token
with tenure.lock("gpu", slots=3), tenure.lock_all(["a", Path("b")], wait=5) as both:
    fences: list[int] = [guard.fence for guard in both.guards]
with tenure.lease_all(["a", Path("b")], ttl="1m", owner="me") as leases:
    fences = [leased.fence for leased in leases.renew(ttl=5).leases]
tasks = tenure.Queue("tasks", store="postgres://host/db")
added: tenure.Added = tasks.add({"n": 1}, id="x", max_attempts=3)
claimed: Optional[tenure.Claimed] = tasks.next(
    ttl="1m", wait=None, owner="me", accepts=lambda task: task["n"] == 1
)
if claimed is not None and not tasks.done(claimed.id, claimed.token):
    state: str = tasks.fail(claimed.id, claimed.token, delay=5, reason="x")
answer: int = tenure.once("token", lambda: 5, ttl=60)
content: Optional[tenure.Content] = tenure.Blob("main.rs").get()
if content is not None:
    tenure.Blob("main.rs").put(content.bytes, if_version=content.version)

async def main() -> None:
    async with await aio.lock_all(["a", "b"], label="l") as both:
        print(both.held)
    async with await aio.lease_all(["a", "b"], ttl=5) as leases:
        print(leases.token)
    await aio.Queue("tasks").next(ttl=5, wait=None)
    await aio.Blob("main.rs").put("x")
    async with aio.lock("x", wait="5s") as guard:
        await aio.Document("d").set([1], fence=guard.fence)
    async for entry in aio.Journal("j").follow():
        print(entry.text)
    async with AsyncFileLock("x.lock"):
        pass
    async with aio.Lock("x").acquire(wait="5s") as again, await aio.Lock("x").try_acquire():
        print(again.fence)

asyncio.run(main())
try:
    with FileLock("x.lock", timeout=1).acquire(poll_interval=0.1):
        pass
except Timeout as late:
    print(late.lock_file)
locked_save_json("x.json", {}, indent=2)
update_json(Path("x.json"), lambda data: data, initial={})
path: str = Session().save_session("x.json")
'''

MISTAKES = [
    'tenure.lock(5)',
    'tenure.lock("x", nonsense=1)',
    'tenure.Lock("x").try_acquire(wait=1)',
    'tenure.Document("x").set([], fence="one")',
    'tenure.Document("x", numbers="int")',
    'tenure.Journal("x").append([5])',
    'tenure.Lease("x").acquire()',
    'tenure.lock("x").fence + "text"',
]


def mypy(*arguments, module="mypy", cwd):
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=300)
    return done.returncode, done.stdout + done.stderr


def test_the_package_is_typed(tmp_path):
    code, words = mypy("--strict", str(PACKAGE), cwd=tmp_path)
    assert code == 0, words


def test_the_stubs_are_those_of_the_module(tmp_path):
    # It takes an alias of several literals for a union.
    (tmp_path / "known").write_text(r"tenure\.compat\.filelock\._options\.(Close|Context)ErrorPolicy" + "\n")
    code, words = mypy("tenure", "--allowlist=known", "--ignore-unused-allowlist", module="mypy.stubtest", cwd=tmp_path)
    assert code == 0, words


def test_a_program_is_checked_and_its_mistakes_are_found(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    code, words = mypy("--strict", "program.py", cwd=tmp_path)
    assert code == 0, words
    (tmp_path / "wrong.py").write_text("import tenure\n" + "\n".join(MISTAKES))
    code, words = mypy("--strict", "wrong.py", cwd=tmp_path)
    for line in range(2, 2 + len(MISTAKES)):
        assert f"wrong.py:{line}: error" in words, (MISTAKES[line - 2], words)

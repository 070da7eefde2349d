"""What the tests share: real child processes that talk over pipes, and the built command line."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
#: How long anything may take before the test fails: a busy machine is no failure. Nothing is waited for by
#: sleeping.
PATIENCE = 180.0
#: The same for calls, here and in children, that do not say how long they wait.
os.environ["TENURE_WAIT"] = f"{PATIENCE}s"


class Child:
    """A Python process that runs some code; its lines are the synchronisation."""

    def __init__(self, code, *arguments, environment=None):
        command = [sys.executable, "-u", "-c", code, *map(os.fspath, map(str_of, arguments))]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.pid = self.process.pid
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def line(self):
        """The next line; fails if none comes or the child has ended."""
        line = self._lines.get(timeout=PATIENCE)
        assert line is not None, f"the child ended with {self.process.wait()}"
        return line

    def tell(self, text=""):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """Waits for its own end and returns its status."""
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def str_of(argument):
    return argument if isinstance(argument, (str, bytes, os.PathLike)) else str(argument)


@pytest.fixture
def child():
    """Starts children and ends them with the test."""
    started = []

    def start(code, *arguments, environment=None):
        started.append(Child(code, *arguments, environment=environment))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGKILL)
        one.process.wait(PATIENCE)
        one.process.stdin.close()
        one.process.stdout.close()


@pytest.fixture(scope="session")
def cli():
    """The `tenure` command built from this source."""
    path = os.environ.get("TENURE_CLI")
    path = Path(path) if path else ROOT / "target" / "debug" / "tenure"
    assert path.exists(), f"{path} is missing: cargo build -p tenure-cli, or set TENURE_CLI"
    return path


HOLDER = """
import sys, tenure
guard = tenure.lock(sys.argv[1], label="holder", **(eval(sys.argv[2]) if len(sys.argv) > 2 else {}))
print(guard.fence, flush=True)
sys.stdin.readline()
guard.release()
print("released", flush=True)
sys.stdin.readline()
"""


def pytest_terminal_summary(terminalreporter):
    """The line that `cargo xtask test` counts, and what was not run, loudly."""
    counts = {name: len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"NOT RUN: {report.nodeid}: {report.longrepr[2]}")
    failed = counts["failed"] + counts["error"]
    word = "FAILED" if failed else "ok"
    terminalreporter.write_line(
        f"test result: {word}. {counts['passed']} passed; {failed} failed; {counts['skipped']} not run"
    )

"""A repository per test, and the line that `cargo xtask test` counts."""

import pytest


@pytest.fixture
def root(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


def pytest_terminal_summary(terminalreporter):
    passed, failed, broken = (len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error"))
    word = "FAILED" if failed + broken else "ok"
    terminalreporter.write_line(f"test result: {word}. {passed} passed; {failed + broken} failed")

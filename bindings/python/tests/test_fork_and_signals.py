"""Fork, spawn, Ctrl-C: what a process does to its children and a terminal to a process."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest
import tenure
from conftest import PATIENCE


def in_child(act):
    """Runs `act` in a forked child and returns what it returned, as text."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = repr(act())
        except BaseException as error:
            answer = getattr(error, "code", None) or repr(error)
        os.write(writing, str(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    assert os.waitpid(pid, 0)[1] == 0
    return answer


def test_a_forked_child_has_its_parents_guard_and_not_its_lock(tmp_path):
    guard = tenure.lock(tmp_path / "t")
    assert in_child(lambda: guard.held) == "False"
    assert in_child(guard.verify) == "compromised"
    assert in_child(guard.release) == "None"
    assert in_child(lambda: tenure.try_lock(tmp_path / "t")) == "busy"
    assert in_child(lambda: tenure.lock(tmp_path / "t", wait=0.05)) == "busy"
    guard.verify()
    assert in_child(lambda: tenure.lock(tmp_path / "u").held) == "True"
    guard.release()
    tenure.try_lock(tmp_path / "t").release()


def test_a_fence_is_told_by_the_process_that_holds_it(tmp_path):
    document = tenure.Document(tmp_path / "t")
    with tenure.lock(tmp_path / "t") as guard:
        assert in_child(lambda: document.set(1, fence=guard.fence)) == "fenced"
        number = guard.fence
        assert in_child(lambda: guard.fence) == repr(number)
        assert "Written" in in_child(lambda: document.set(2, fence=guard.fence))
    assert document.read().value == 2


def test_a_child_reads_the_fence_whatever_threads_of_its_parent_were_at(tmp_path):
    stopped = threading.Event()
    with tenure.lock(tmp_path / "t") as guard:

        def verifies():
            while not stopped.is_set():
                guard.verify()

        thread = threading.Thread(target=verifies)
        thread.start()
        number = guard.fence
        try:
            assert [in_child(lambda: guard.fence) for _ in range(20)] == [repr(number)] * 20
        finally:
            stopped.set()
            thread.join()


def test_a_kept_lock_is_a_lock_of_its_own_in_a_forked_child(tmp_path):
    target = tenure.Lock(tmp_path / "t")
    target.acquire().release()
    with target.acquire():
        assert in_child(lambda: target.try_acquire().held) == "busy"
    assert in_child(lambda: target.acquire().held) == "True"
    target.acquire().release()


def test_a_fork_while_other_threads_wait_and_write_does_no_harm(tmp_path):
    stop = threading.Event()
    held = tenure.lock(tmp_path / "held")
    cancel = tenure.Cancel()

    def write():
        document = tenure.Document(tmp_path / "d")
        while not stop.is_set():
            document.update(lambda state: state.append(0), init=[], no_sync=True)

    def wait():
        with pytest.raises(tenure.CancelledError):
            tenure.lock(tmp_path / "held", wait=None, cancel=cancel)

    threads = [threading.Thread(target=act) for act in (write, write, wait, wait)]
    for thread in threads:
        thread.start()

    def work():
        tenure.Document(tmp_path / "d").update(lambda state: state.append(1), init=[], no_sync=True)
        with tenure.lock(tmp_path / "other"):
            return "fine"

    for _ in range(20):
        assert in_child(work) == "'fine'"
    stop.set()
    cancel.cancel()
    for thread in threads:
        thread.join(PATIENCE)
    held.release()
    assert tenure.Document(tmp_path / "d").read().value.count(1) == 20


def add(path):
    document = tenure.Document(path)
    for _ in range(20):
        document.update(lambda state: state.update(n=state["n"] + 1), init={"n": 0}, no_sync=True)
    return document.update(lambda state: state)


def fail(path):
    tenure.try_lock(path)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes(tmp_path, method):
    path = str(tmp_path / "d.json")
    with multiprocessing.get_context(method).Pool(3) as pool:
        assert all(not written.changed for written in pool.map(add, [path] * 4))
        assert tenure.Document(path).read().value == {"n": 80}
        with tenure.lock(path):
            with pytest.raises(tenure.BusyError) as caught:
                pool.apply(fail, (path,))
        assert caught.value.holder["pid"] == os.getpid()


WAITS = {
    "lock": "tenure.lock(path, wait=None)",
    "slot": "tenure.lock(path, slots=2, wait=None)",
    "document": "tenure.Document(path).set([1], wait=600)",
    "journal": "tenure.Journal(path).append(['x'], wait=None)",
    "lease": "tenure.Lease(path).acquire(ttl=1, wait=None)",
    "watch": "next(tenure.Document(path + '.w').watch())",
    "follow": "next(tenure.Journal(path + '.j').follow())",
}


@pytest.mark.parametrize("what", WAITS)
def test_ctrl_c_ends_a_wait(tmp_path, child, what):
    code = f"""
import signal, sys, tenure
signal.signal(signal.SIGINT, signal.default_int_handler)  # The tests may run where it is ignored.
path = sys.argv[1]
tenure.Document(path + '.w').set([0])
try:
    print("waiting", flush=True)
    {WAITS[what]}
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
"""
    with tenure.lock(tmp_path / "t"):
        one = child(code, tmp_path / "t")
        assert one.line() == "waiting"
        one.signal(signal.SIGINT)
        assert one.line() == "interrupted"  # Long before any wait here would end.
    tenure.lock(tmp_path / "t", wait=PATIENCE).release()


def test_a_signal_handler_runs_during_a_wait_that_goes_on(tmp_path, child):
    code = """
import signal, sys, tenure
signal.signal(signal.SIGUSR1, lambda *_: print("handled", flush=True))
print("waiting", flush=True)
tenure.lock(sys.argv[1], wait=None)
print("locked", flush=True)
"""
    guard = tenure.lock(tmp_path / "t")
    one = child(code, tmp_path / "t")
    one.line()
    for _ in range(3):
        one.signal(signal.SIGUSR1)
        assert one.line() == "handled"
    guard.release()
    assert one.line() == "locked"


def test_a_program_that_ends_while_its_threads_wait(tmp_path):
    code = """
import sys, threading, tenure
guard = tenure.lock(sys.argv[1])
for _ in range(10):
    threading.Thread(target=tenure.lock, args=(sys.argv[1],), kwargs=dict(wait=None), daemon=True).start()
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "t")], timeout=PATIENCE, capture_output=True)
    assert done.returncode == 0, done.stderr
    tenure.try_lock(tmp_path / "t").release()

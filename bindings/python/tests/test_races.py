"""The races that the drop-ins are for, with the old protocols as controls: a race that they pass is none.

Every contest has a predecessor: one that died with the lock, one whose pid is somebody else's now, and one
that left a lock file without a word in it. A witness file, made with O_EXCL, tells two holders.
"""

import json
import os
import random
import socket

import pytest
import tenure
from conftest import PATIENCE

CONTESTANT = """
import os, sys, time
protocol, lock_path, witness = sys.argv[1:4]

class Stale:
    "Lock by existence, taken over from dead pids: look, remove, create."
    def acquire(self, timeout):
        while True:
            try:
                handle = os.open(lock_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                try:
                    pid = int(open(lock_path).read().split()[0])
                    os.kill(pid, 0)
                except (FileNotFoundError,):
                    pass
                except (ValueError, IndexError, ProcessLookupError):
                    # Unstamped or dead: it is stale. Any scheduler may let us wait here for a moment; and
                    # whose lock is removed then?
                    time.sleep(0.02)
                    try:
                        os.unlink(lock_path)
                    except FileNotFoundError:
                        pass
                os.sched_yield()
                continue
            os.write(handle, str(os.getpid()).encode())
            os.close(handle)
            return
    def release(self):
        try:
            os.unlink(lock_path)
        except FileNotFoundError:
            pass

if protocol == "stale":
    lock = Stale()
elif protocol == "soft":
    import filelock
    lock = filelock.SoftFileLock(lock_path)
else:
    from tenure.compat import filelock
    lock = filelock.FileLock(lock_path)

print("ready", flush=True)
for order in sys.stdin:
    try:
        lock.acquire(timeout=float(order))
    except TimeoutError:
        print("stuck", flush=True)
        continue
    outcome = "held"
    try:
        os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
        # Others are let in here, if they can get in. Each time costs a turn of every busy program.
        for _ in range(10):
            os.sched_yield()
        if protocol == "stale":
            time.sleep(0.05)
        os.unlink(witness)
    except (FileExistsError, FileNotFoundError):
        outcome = "two holders"
    lock.release()
    print(outcome, flush=True)
"""

DIES = """
import sys
from tenure.compat import filelock
filelock.FileLock(sys.argv[1]).acquire()
print("held", flush=True)
sys.stdin.readline()
"""


def dead_pid():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid


PREDECESSORS = {
    "dead": lambda: f"{dead_pid()}\n{socket.gethostname()}\n",
    "recycled": lambda: f"{os.getpid()}\n{socket.gethostname()}\n",
    "unstamped": lambda: "",
}


def contest(child, tmp_path, protocol, predecessor, rounds, timeout, until=None):
    """How often each outcome came."""
    lock, witness = tmp_path / "x.lock", tmp_path / "witness"
    contestants = [child(CONTESTANT, protocol, lock, witness) for _ in range(4)]
    for one in contestants:
        assert one.line() == "ready"
    seen = {"held": 0, "stuck": 0, "two holders": 0}
    for _ in range(rounds):
        if protocol == "tenure" and predecessor == "dead":
            victim = child(DIES, lock)
            victim.line()
            for one in contestants:
                one.tell(str(timeout))
            victim.kill()
        else:
            lock.write_text(PREDECESSORS[predecessor]())
            for one in contestants:
                one.tell(str(timeout))
        for one in contestants:
            seen[one.line()] += 1
        witness.unlink(missing_ok=True)
        if seen.get(until):
            break
    print(protocol, predecessor, seen)
    return seen


@pytest.mark.parametrize("predecessor", PREDECESSORS)
def test_race_01_the_drop_in_has_one_holder_whatever_came_before(child, tmp_path, predecessor):
    rounds = 8 if predecessor == "dead" else 40
    seen = contest(child, tmp_path, "tenure", predecessor, rounds, PATIENCE)
    assert seen == {"held": rounds * 4, "stuck": 0, "two holders": 0}


@pytest.mark.parametrize("predecessor", ["dead", "unstamped"])
def test_control_taking_over_stale_locks_has_two_holders(child, tmp_path, predecessor):
    seen = contest(child, tmp_path, "stale", predecessor, 1000, PATIENCE, until="two holders")
    assert seen["two holders"], "the old protocol passed: the contest proves nothing"


@pytest.mark.parametrize("predecessor", ["recycled", "unstamped"])
def test_control_a_lock_by_existence_is_stuck_for_ever(child, tmp_path, predecessor):
    seen = contest(child, tmp_path, "soft", predecessor, 1, 0.5)
    assert seen["stuck"] == 4


SAVER = """
import json, os, sys
protocol, path, name, times = sys.argv[1:5]

def old_save(path, data, **options):
    "As harnesses copied it: lock the data file, truncate, write in place."
    import fcntl
    try:
        file = open(path, "r+")
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, "w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            file.seek(0)
            file.truncate()
            json.dump(data, file, **options)
            file.flush()
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)

def old_load(path):
    try:
        return json.load(open(path))
    except (FileNotFoundError, ValueError):
        return {}

from tenure.compat import update_json
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(times)):
    key = f"{name}{number}"
    if protocol == "old":
        data = old_load(path)
        data[key] = "x" * 50
        old_save(path, data, indent=2)
    else:
        update_json(path, lambda data: data.update({key: "x" * 50}), initial={}, indent=2)
print("done", flush=True)
"""


def save(child, path, protocol):
    """Four savers of twenty keys each, and a reader. How many keys survived, how often the reader saw half
    a file."""
    savers = [child(SAVER, protocol, path, name, 20) for name in "abcd"]
    for one in savers:
        assert one.line() == "ready"
    for one in savers:
        one.tell()
    half = 0
    while any(one.process.poll() is None for one in savers):
        try:
            json.loads(path.read_text())
        except FileNotFoundError:
            pass
        except ValueError:
            half += 1
    for one in savers:
        assert one.line() == "done"
    try:
        return len(json.loads(path.read_text())), half
    except ValueError:
        return 0, half


@pytest.mark.parametrize("predecessor", ["none", "dead", "recycled", "unstamped"])
def test_race_22_updates_of_json_files_are_never_lost_nor_half_seen(child, tmp_path, predecessor):
    path = tmp_path / "project.json"
    if predecessor == "dead":
        victim = child(SAVER, "tenure", path, "v", 10**6)
        victim.line()
        victim.tell()
        while not path.exists():
            assert victim.process.poll() is None
        victim.kill()
        path.write_text("{}")
    elif predecessor != "none":
        side = tmp_path / ".tenure"
        side.mkdir()
        (side / "project.json.hold").write_text(PREDECESSORS[predecessor]())
    assert save(child, path, "tenure") == (80, 0)


def test_control_lock_truncate_write_loses_updates(child, tmp_path):
    # One after the other they lose nothing, and a busy machine may well run them so: until they meet.
    for attempt in range(50):
        survived, half = save(child, tmp_path / f"project{attempt}.json", "old")
        print("old protocol:", survived, "of 80 keys survived;", half, "half files seen")
        if survived < 80:
            return
    pytest.fail("the old protocol passed: the contest proves nothing")


def killed_while_saving(child, tmp_path, protocol, rounds):
    """How often a kill in the middle of saving left a file that is no JSON."""
    path, broken = tmp_path / "big.json", 0
    code = SAVER.replace('data[key] = "x" * 50', 'data = {str(n): "x" * 100 for n in range(20000)}').replace(
        'lambda data: data.update({key: "x" * 50})', 'lambda data: {str(n): "x" * 100 for n in range(20000)}'
    )
    dice = random.Random(5)
    for _ in range(rounds):
        path.unlink(missing_ok=True)
        one = child(code, protocol, path, "k", 10**6)
        one.line()
        one.tell()
        while not path.exists():
            assert one.process.poll() is None
        for _ in range(dice.randrange(200)):
            os.stat(path)
        one.kill()
        try:
            json.loads(path.read_text())
        except ValueError:
            broken += 1
    leftovers = [name for name in os.listdir(tmp_path) if name not in (".tenure", "big.json")]
    assert not leftovers
    return broken


def test_race_26_a_kill_in_the_middle_leaves_a_whole_file(child, tmp_path):
    assert killed_while_saving(child, tmp_path, "tenure", 8) == 0
    tenure.compat.locked_save_json(tmp_path / "big.json", [1])
    assert not [name for name in os.listdir(tmp_path / ".tenure") if ".tmp." in name]


def test_control_a_kill_in_the_middle_leaves_half_a_file(child, tmp_path):
    assert any(killed_while_saving(child, tmp_path, "old", 1) for _ in range(50))

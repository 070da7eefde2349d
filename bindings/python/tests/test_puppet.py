"""The puppet speaks its protocol. What it does is compared with other languages in the puppets ring."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE

PUPPET = Path(__file__).with_name("puppet.py")


@pytest.fixture
def puppet():
    process = subprocess.Popen(
        [sys.executable, str(PUPPET)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    ready = json.loads(process.stdout.readline())["ready"]
    assert ready["language"] == "python" and ready["pid"] == process.pid

    def tell(op, **fields):
        assert op in ready["ops"] or op == "nonsense"
        process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        return answer.get("ok", answer.get("error"))

    yield tell
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    process.stdout.close()


def test_every_order(puppet, tmp_path):
    path = str(tmp_path / "state.json")
    log = str(tmp_path / "log.jsonl")
    fence = puppet("lock", path=path)["fence"]
    assert puppet("lock", path=path, **{"as": "second"})["code"] == "busy"
    assert puppet("lock", path=path, wait=50, **{"as": "second"})["code"] == "deadlock"
    assert puppet("verify") == {} and puppet("fork") == {"verify": "compromised", "release": "ok"}
    assert puppet("add", path=path, fence=fence, times=3) == {"n": 3}
    assert puppet("storm", path=path, times=20) == {"cancelled": 20}
    assert puppet("release") == {}
    version = puppet("set", path=path, value={"n": 1}, sync=True)["version"]
    assert puppet("read", path=path) == {"value": {"n": 1}, "version": version}
    assert puppet("merge", path=path, value={"m": 1}, if_version=version)["changed"]
    assert puppet("merge", path=path, value={}, if_version=version)["code"] == "conflict"
    assert puppet("append", path=log, lines=["a", "b"])["last"] == 2
    assert puppet("entries", path=log, **{"from": 2}) == {"entries": [{"seq": 2, "line": "b"}]}
    assert puppet("check", path=log) == {"sound": True, "entries": 2}
    assert puppet("follow", path=log, **{"as": "f"}) == {}
    assert puppet("next", **{"as": "f"}) == {"seq": 1, "line": "a"}
    assert puppet("rotate", path=log) == {"next": 3}
    leased = puppet("acquire", path=path, ttl=60000, owner="me")
    assert puppet("show", path=path) == {"owner": "me", "running": True}
    assert puppet("set", path=path, value=1)["holder"]["owner"] == "me"
    assert puppet("renew", path=path, token=leased["token"]) == {"fence": leased["fence"]}
    taken = puppet("take_over", path=path, ttl=60000, owner="you", reason="test")
    assert puppet("end", path=path, token=leased["token"])["code"] == "lease_lost"
    assert puppet("end", path=path, token=taken["token"]) == {}
    pid = puppet("program")["pid"]
    os.kill(pid, 0)
    assert puppet("nonsense")["code"] == "misunderstood"
    assert puppet("read", path=path, typo=1)["code"] == "misunderstood"
    assert puppet("lock")["code"] == "misunderstood"

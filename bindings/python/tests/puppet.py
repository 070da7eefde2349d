"""A child that does what it is told, one order at a time: the protocol is in
`crates/tenure-proof/PUPPETS.md`.

Started as `python3 bindings/python/tests/puppet.py`; uses the package beside it if that is built,
else the installed one.
"""

import asyncio
import json
import os
import queue
import subprocess
import sys
import threading

BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")
if os.path.exists(os.path.join(BESIDE, "tenure", "_tenure.abi3.so")):
    sys.path.insert(0, BESIDE)

import tenure  # noqa: E402



class Kept(threading.local):
    """What an actor has: each of several is a thread."""

    def __init__(self):
        self.by_name = {}


kept = Kept()
programs = []
speaking = threading.Lock()


class Misunderstood(Exception):
    """An order that makes no sense."""


class Order:
    """The fields of one order; each is taken once, and none may be left."""

    def __init__(self, fields):
        self.fields = dict(fields)

    def take(self, name, default=None):
        return self.fields.pop(name, default)

    def need(self, name):
        if name not in self.fields:
            raise Misunderstood(f"{name} is missing")
        return self.fields.pop(name)

    def wait(self):
        wait = self.take("wait", "no")
        return 0 if wait == "no" else None if wait == "forever" else wait / 1000

    def options(self, *names):
        """Those of the named options that were given."""
        return {name: self.fields.pop(name) for name in names if name in self.fields}

    def write(self):
        options = self.options("fence", "if_version", "op_id", "label")
        guards = {guard["target"]: guard["fence"] for guard in self.take("guards", [])}
        return {**options, "guard": guards, "no_sync": not self.take("sync", False), "wait": self.wait()}


def lock(order):
    name, wait = order.take("as", "it"), order.wait()
    options = order.options("shared", "owner", "label", "reentrant", "fence")
    guard = tenure.lock(order.need("path"), wait=wait, **options)
    kept.by_name[name] = guard
    died = guard.recovered_from
    return {"fence": guard.fence, "recovered_from": died and died["pid"]}


def release(order):
    kept.by_name.pop(order.take("as", "it")).release()
    return {}


def verify(order):
    kept.by_name[order.take("as", "it")].verify()
    return {}


def read(order):
    snapshot = tenure.Document(order.need("path")).read()
    if snapshot is None:
        return {"value": None, "version": None}
    return {"value": snapshot.value, "version": snapshot.version}


def written(done):
    return {"version": done.version, "changed": done.changed, "replayed": done.replayed}


def set_(order):
    document, value = tenure.Document(order.need("path")), order.need("value")
    return written(document.set(value, **order.write()))


def merge(order):
    document, patch = tenure.Document(order.need("path")), order.need("value")
    return written(document.merge(patch, **order.write()))


def add(order):
    document, times = tenure.Document(order.need("path")), order.take("times", 1)
    options = order.write()
    number = 0

    def one_more(state):
        nonlocal number
        state["n"] += 1
        number = state["n"]

    for _ in range(times):
        document.update(one_more, init={"n": 0}, **options)
    return {"n": number}


def append(order):
    journal, lines = tenure.Journal(order.need("path")), order.need("lines")
    done = journal.append(lines, **order.write())
    return {
        "first": done.first,
        "last": done.last,
        "replayed": done.replayed,
        "closed_tail": done.closed_tail,
    }


def line_of(entry):
    return {"seq": entry.seq, "line": entry.text}


def entries(order):
    found = tenure.Journal(order.need("path")).read(order.take("from", 1))
    return {"entries": [line_of(entry) for entry in found]}


def check(order):
    report = tenure.Journal(order.need("path")).verify()
    return {"sound": report.sound, "entries": report.entries}


def rotate(order):
    return {"next": tenure.Journal(order.need("path")).rotate(**order.write()).next}


def follow(order):
    follower = tenure.Journal(order.need("path")).follow(order.take("from", 1))
    kept.by_name[order.take("as", "it")] = follower
    return {}


def next_(order):
    entry = kept.by_name[order.take("as", "it")].next(wait=order.wait())
    return {"seq": None} if entry is None else line_of(entry)


def acquire(order):
    lease = tenure.Lease(order.need("path"))
    options = order.options("owner", "token")
    leased = lease.acquire(ttl=order.need("ttl") / 1000, wait=order.wait(), **options)
    return {"token": leased.token, "fence": leased.fence}


def take_over(order):
    lease, reason = tenure.Lease(order.need("path")), order.need("reason")
    ttl, wait = order.need("ttl") / 1000, order.wait()
    leased = lease.take_over(ttl=ttl, reason=reason, wait=wait, **order.options("owner"))
    return {"token": leased.token, "fence": leased.fence}


def renew(order):
    ttl = order.take("ttl")
    lease = tenure.Lease(order.need("path"))
    return {"fence": lease.renew(order.need("token"), ttl=ttl and ttl / 1000).fence}


def end(order):
    tenure.Lease(order.need("path")).release(order.need("token"))
    return {}


def show(order):
    info = tenure.Lease(order.need("path")).show()
    if info is None:
        return {"owner": None, "running": False}
    return {"owner": info.owner, "running": info.expires_in is not None}


def storm(order):
    path, times = order.need("path"), order.need("times")

    async def main():
        waits = [asyncio.ensure_future(tenure.aio.lock(path, wait=None)) for _ in range(times)]
        await asyncio.sleep(0)
        for wait in waits:
            wait.cancel()
        done = await asyncio.gather(*waits, return_exceptions=True)
        for won in done:
            if not isinstance(won, BaseException):
                await won.release()
        return sum(isinstance(outcome, asyncio.CancelledError) for outcome in done)

    return {"cancelled": asyncio.run(main())}


def program(order):
    programs.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
    return {"pid": programs[-1].pid}


def code_of(act):
    try:
        act()
    except tenure.TenureError as error:
        return error.code
    return "ok"


def fork(order):
    guard = kept.by_name[order.take("as", "it")]
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = {"verify": code_of(guard.verify), "release": code_of(guard.release)}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.load(pipe)
    os.waitpid(pid, 0)
    return answer


ORDERS = {
    act.__name__.rstrip("_"): act
    for act in (
        [lock, release, verify, read, set_, add, merge, append, entries, check, rotate, follow, next_]
        + [acquire, renew, end, take_over, show, storm, program]
        + ([fork] if hasattr(os, "fork") else [])
    )
}


def answer(fields):
    try:
        order = Order(fields)
        act = ORDERS.get(order.need("op"))
        if act is None:
            raise Misunderstood("no such order")
        done = act(order)
        if order.fields:
            raise Misunderstood(f"unknown fields: {', '.join(order.fields)}")
        return {"ok": done}
    except tenure.TenureError as error:
        return {"error": {"code": error.code, "message": str(error), "holder": error.holder}}
    except Exception as error:
        return misunderstood(error)


def misunderstood(error):
    return {"error": {"code": "misunderstood", "message": repr(error), "holder": None}}


def play(actor, orders):
    """The orders of one of several actors, in turn."""
    while True:
        say({"actor": actor, **answer(orders.get())})


def main():
    say({"ready": {"language": "python", "pid": os.getpid(), "ops": sorted(ORDERS), "actors": True}})
    actors = {}
    for line in sys.stdin:
        try:
            fields = json.loads(line)
            actor = fields.pop("actor", None)
        except Exception as error:
            say(misunderstood(error))
            continue
        if actor is None:
            say(answer(fields))
            continue
        if actor not in actors:
            actors[actor] = queue.SimpleQueue()
            threading.Thread(target=play, args=(actor, actors[actor]), daemon=True).start()
        actors[actor].put(fields)
    os._exit(0)  # At once, and without releasing anything first.


def say(words):
    with speaking:
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

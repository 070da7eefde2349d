"""The same nouns and verbs for asyncio: nothing here blocks the event loop.

A call that may wait or touch the disk runs on a thread of its own. A task that is cancelled ends its wait
at once, and a lock that it got all the same is released before the task ends.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from . import _once, _several, _tenure, _transaction
from ._errors import ArgumentError, JournalGapError
from ._waiting import in_thread

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import types

_T = TypeVar("_T")

__all__ = [
    "Blob",
    "Collection",
    "Document",
    "Follow",
    "Guard",
    "Guards",
    "Journal",
    "Lease",
    "Leased",
    "Leases",
    "Lock",
    "Queue",
    "Transaction",
    "Watch",
    "lease_all",
    "lock",
    "lock_all",
    "once",
    "try_lock",
    "update_and_append",
]


def lock(
    path: types.Path, *, store: _tenure._Store = None, **options: Unpack[types.LockOptions]
) -> _Acquire:
    """Takes the lock: ``async with lock(path) as guard`` or ``guard = await lock(path)``."""
    now = functools.partial(_tenure._lock_now, path, store=store)
    return _Acquire(now, functools.partial(_tenure.lock, path, store=store), options)


async def try_lock(
    path: types.Path, *, store: _tenure._Store = None, **options: Unpack[types.TryLockOptions]
) -> Guard:
    """Takes the lock if it is free; ``BusyError`` otherwise."""
    _refuse_wait(options)
    now = functools.partial(_tenure._lock_now, path, store=store)
    return await _Acquire(now, functools.partial(_tenure.try_lock, path, store=store), options)


class Lock:
    """A target to be locked again and again: its path is resolved once, and its files stay open."""

    def __init__(self, path: types.Path, *, store: _tenure._Store = None) -> None:
        self.sync = _tenure.Lock(path, store=store)

    @property
    def path(self) -> str:
        """The resolved path."""
        return self.sync.path

    def acquire(self, **options: Unpack[types.LockOptions]) -> _Acquire:
        """Takes the lock: ``async with target.acquire() as guard`` or ``await target.acquire()``."""
        return _Acquire(self.sync._acquire_now, self.sync.acquire, options)

    async def try_acquire(self, **options: Unpack[types.TryLockOptions]) -> Guard:
        """Takes the lock if it is free; ``BusyError`` otherwise."""
        _refuse_wait(options)
        return await _Acquire(self.sync._acquire_now, self.sync.try_acquire, options)


#: How long locks that need no thread may keep an event loop to themselves, in seconds.
_TURN = 0.001
_turns = threading.local()


async def _others() -> None:
    """Lets other tasks in, if this turn of the event loop has lasted: locks alone never end it."""
    now = time.monotonic()
    began: Optional[float] = getattr(_turns, "began", None)
    if began is None:
        _turns.began = now
        asyncio.get_running_loop().call_soon(_turn_over)
    elif now - began > _TURN:
        _turn_over()
        await asyncio.sleep(0)


def _turn_over() -> None:
    _turns.began = None


class _Acquire:
    """A lock that is about to be taken."""

    def __init__(
        self,
        now: Callable[..., Optional[_tenure.Guard]],
        later: Callable[..., _tenure.Guard],
        options: Mapping[str, Any],
    ) -> None:
        _refuse_cancel(options)
        self._now = now
        self._later = later
        self._options = dict(options)
        self._guard: Optional[Guard] = None

    def __await__(self) -> Generator[Any, None, Guard]:
        return self._take().__await__()

    async def __aenter__(self) -> Guard:
        self._guard = await self._take()
        return self._guard

    async def __aexit__(self, *raised: object) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.release()

    async def _take(self) -> Guard:
        # It is free most of the time: then no thread is needed.
        guard = self._now(**self._options)
        if guard is not None:
            try:
                await _others()
            except BaseException:
                guard.release()
                raise
            return Guard(guard)

        def wait(cancel: _tenure.Cancel) -> _tenure.Guard:
            return self._later(**{**self._options, "cancel": cancel})

        # The lock will be this thread's, which goes on meanwhile and can release what it holds.
        token = _tenure.Cancel._on_behalf()
        return Guard(await in_thread(wait, undo=_tenure.Guard.release, cancel=token))


class Guard:
    """A lock that is held. Leaving its ``async with`` block releases it."""

    def __init__(self, guard: _tenure.Guard) -> None:
        self._guard = guard
        self._released = False

    @property
    def fence(self) -> int:
        """The fence of this hold; 0 for a shared one. Pass it to writes of the same target."""
        return self._guard.fence

    @property
    def path(self) -> str:
        """The resolved path of the target."""
        return self._guard.path

    @property
    def recovered_from(self) -> Optional[types.Holder]:
        """Who held it before and died without releasing."""
        return self._guard.recovered_from

    @property
    def held(self) -> bool:
        """Whether this process holds it: it was not released, and ``max_hold`` has not ended it."""
        return self._guard.held

    async def verify(self) -> None:
        """Checks that the lock file was not removed or replaced during the hold."""
        await in_thread(lambda _: self._guard.verify())

    async def release(self) -> None:
        """Releases the lock. Releasing it again does nothing."""
        if not self._released:
            self._released = True
            if self._guard._ends_now:
                self._guard.release()
            else:
                await in_thread(lambda _: self._guard.release())

    async def __aenter__(self) -> Guard:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.release()


async def lock_all(
    paths: Iterable[types.Path],
    *,
    store: _tenure._Store = None,
    **options: Unpack[types.LockAllOptions],
) -> Guards:
    """Takes the locks on several paths, all or none: ``async with await lock_all(paths)``."""
    verb, undo = _several.lock_all, _several.Guards.release
    token = _tenure.Cancel._on_behalf()
    return Guards(await _call(verb, paths, store=store, _undo=undo, _token=token, **options))


class Guards:
    """Several locks that are held. Leaving its ``async with`` block releases all of them."""

    def __init__(self, guards: _several.Guards) -> None:
        self._sync = guards
        #: The guard of each target, in the order of the resolved names.
        self.guards = tuple(Guard(guard) for guard in guards.guards)

    @property
    def held(self) -> bool:
        """Whether this process holds all of them."""
        return self._sync.held

    async def verify(self) -> None:
        """Checks that no lock file was removed or replaced during the hold."""
        await in_thread(lambda _: self._sync.verify())

    async def release(self) -> None:
        """Releases all of them. Releasing them again does nothing."""
        await in_thread(lambda _: self._sync.release())

    async def __aenter__(self) -> Guards:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.release()


class Document:
    """A JSON document in a file. Opening it touches nothing."""

    def __init__(
        self,
        path: types.Path,
        *,
        numbers: _tenure._Numbers = "exact",
        store: _tenure._Store = None,
    ) -> None:
        self.sync = _tenure.Document(path, numbers=numbers, store=store)

    @property
    def path(self) -> str:
        """The resolved path."""
        return self.sync.path

    async def read(self) -> Optional[_tenure.Snapshot]:
        """The document as it is, or ``None`` if there is none."""
        return await in_thread(lambda _: self.sync.read())

    async def version(self) -> Optional[str]:
        """The version of the document, or ``None`` if there is none."""
        return await in_thread(lambda _: self.sync.version())

    async def set(
        self, value: types.JSON, **options: Unpack[types.WriteOptions]
    ) -> _tenure.Written:
        """Replaces the whole document."""
        return await _call(self.sync.set, value, **options)

    async def update(
        self, function: Callable[[Any], types.JSON], **options: Unpack[types.UpdateOptions]
    ) -> _tenure.Written:
        """Changes the document by a plain function, which runs on another thread, under the lock.

        A function that changes its argument and returns something else is an ``InvalidError``: for a
        result use ``transaction``.
        """
        return await _call(self.sync.update, function, **options)

    def transaction(self, **options: Unpack[types.TransactionOptions]) -> Transaction:
        """A change in place, with a result: ``async with document.transaction() as value:``."""
        return Transaction(self.sync, options)

    async def merge(
        self, patch: types.JSON, **options: Unpack[types.MergeOptions]
    ) -> _tenure.Written:
        """Merges a patch (RFC 7396)."""
        return await _call(self.sync.merge, patch, **options)

    async def patch(
        self, operations: types.JSON, **options: Unpack[types.WriteOptions]
    ) -> _tenure.Written:
        """Applies a JSON Patch (RFC 6902), whole or not at all."""
        return await _call(self.sync.patch, operations, **options)

    async def compare_and_set(
        self, version_is: str, value: types.JSON, **options: Unpack[types.WriteOptions]
    ) -> _tenure.Written:
        """Replaces the document if it still has this version; ``ConflictError`` otherwise."""
        return await _call(self.sync.compare_and_set, version_is, value, **options)

    async def restore(self, **options: Unpack[types.WriteOptions]) -> _tenure.Written:
        """Brings back the last good version of a document that cannot be parsed."""
        return await _call(self.sync.restore, **options)

    def watch(self) -> Watch:
        """Changes that come after now: ``async for snapshot in document.watch()``."""
        return Watch(self.sync.watch())


class Transaction:
    """A change that is made in place and saved at the end of its ``async with`` block."""

    def __init__(self, document: _tenure.Document, options: Mapping[str, Any]) -> None:
        _refuse_cancel(options)
        self._sync = _transaction.Transaction(document, **options)
        self._document = document
        self._options = options
        self._guard: Optional[Guard] = None

    @property
    def written(self) -> Optional[_tenure.Written]:
        """What was done, once the block has ended."""
        return self._sync.written

    async def __aenter__(self) -> Any:
        # Found out before anything is locked.
        self._document._check_update(**self._options)
        self._guard = await lock(self._document.path, **self._sync.lock_options())
        try:
            return await in_thread(lambda _: self._sync.begin())
        except BaseException:
            await self._release()
            raise

    async def __aexit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        guard = self._guard
        try:
            if kind is None and guard is not None:
                fence = guard.fence
                self._sync.written = await in_thread(lambda _: self._sync.save(fence))
        finally:
            await self._release()

    async def _release(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.release()


class Watch:
    """The changes of a document."""

    def __init__(self, watch: _tenure.Watch) -> None:
        self._watch = watch

    async def next(self, wait: types.Wait = None) -> Optional[_tenure.Snapshot]:
        """The document after its next change, or ``None`` when the wait is over."""
        return await _call(self._watch.next, wait=wait)

    def close(self) -> None:
        """Ends the watch."""
        self._watch.close()

    async def __aiter__(self) -> AsyncIterator[_tenure.Snapshot]:
        while True:
            snapshot = await self.next()
            if snapshot is not None:
                yield snapshot


class Journal:
    """A file of lines that many processes append to. Opening it touches nothing."""

    def __init__(self, path: types.Path, *, store: _tenure._Store = None) -> None:
        self.sync = _tenure.Journal(path, store=store)

    @property
    def path(self) -> str:
        """The resolved path."""
        return self.sync.path

    async def append(
        self, lines: types.Lines, **options: Unpack[types.AppendOptions]
    ) -> _tenure.Appended:
        """Appends a line, or any number of lines as one batch."""
        return await _call(self.sync.append, lines, **options)

    async def append_json(
        self, values: types.JSON, **options: Unpack[types.AppendJsonOptions]
    ) -> _tenure.Appended:
        """Appends a value, or any number of values as one batch, each as one line of JSON."""
        return await _call(self.sync.append_json, values, **options)

    async def read(
        self,
        from_: Optional[int] = None,
        limit: Optional[int] = None,
        *,
        on_gap: Optional[Callable[[JournalGapError], object]] = None,
    ) -> list[_tenure.Entry]:
        """The entries with number ``from_`` and above, at most ``limit`` of them.

        Without a number they begin with the oldest that is there. Entries that are gone raise
        ``JournalGapError``; with ``on_gap`` that is called instead, on another thread.
        """
        return await in_thread(lambda _: list(self.sync.read(from_, limit, on_gap=on_gap)))

    def follow(
        self,
        from_: Optional[int] = None,
        *,
        on_gap: Optional[Callable[[JournalGapError], object]] = None,
    ) -> Follow:
        """Entries as they appear: ``async for entry in journal.follow()``. For the options see ``read``."""
        return Follow(self.sync.follow(from_, on_gap=on_gap))

    async def pending(self) -> list[bytes]:
        """Lines of other tools that have no number yet, an unterminated one included."""
        return await in_thread(lambda _: self.sync.pending())

    async def verify(self) -> _tenure.Report:
        """Checks every byte against what was written, in the archives too."""
        return await in_thread(lambda _: self.sync.verify())

    async def repair(self, **options: Unpack[types.RepairOptions]) -> _tenure.Report:
        """Finishes what crashes have left, and verifies; ``accept=True`` takes damage as it is."""
        return await _call(self.sync.repair, **options)

    async def rotate(self, **options: Unpack[types.WriteOptions]) -> _tenure.Rotated:
        """Moves the entries so far to a file of their own and starts an empty one."""
        return await _call(self.sync.rotate, **options)

    async def compact(
        self, keep: Callable[[_tenure.Entry], object], **options: Unpack[types.WriteOptions]
    ) -> _tenure.Compacted:
        """Writes the journal anew with the entries that ``keep`` wants."""
        return await _call(self.sync.compact, keep, **options)


class Follow:
    """The entries of a journal as they appear."""

    def __init__(self, follow: _tenure.Follow) -> None:
        self._follow = follow

    @property
    def position(self) -> int:
        """The number to resume from later."""
        return self._follow.position

    async def next(self, wait: types.Wait = None) -> Optional[_tenure.Entry]:
        """The next entry, or ``None`` when the wait is over."""
        return await _call(self._follow.next, wait=wait)

    def close(self) -> None:
        """Ends it."""
        self._follow.close()

    async def __aiter__(self) -> AsyncIterator[_tenure.Entry]:
        while True:
            entry = await self.next()
            if entry is not None:
                yield entry


class Lease:
    """A target that can be leased. Opening it touches nothing."""

    def __init__(self, path: types.Path, *, store: _tenure._Store = None) -> None:
        self.sync = _tenure.Lease(path, store=store)

    @property
    def path(self) -> str:
        """The resolved path."""
        return self.sync.path

    async def acquire(
        self, *, ttl: types.Duration, **options: Unpack[types.LeaseOptions]
    ) -> Leased:
        """Acquires the lease for ``ttl``: seconds, or a text like ``"1m"``."""
        undo = _release_unless_renewed(options)
        return Leased(await _call(self.sync.acquire, ttl=ttl, _undo=undo, **options))

    async def take_over(
        self, *, ttl: types.Duration, reason: str, **options: Unpack[types.LeaseOptions]
    ) -> Leased:
        """Takes the lease from its holder, for a reason that is recorded first."""
        undo = _tenure.Leased.release
        leased = _call(self.sync.take_over, ttl=ttl, reason=reason, _undo=undo, **options)
        return Leased(await leased)

    async def renew(self, token: str, *, ttl: Optional[types.Duration] = None) -> Leased:
        """Extends the lease by its time to live, or by a new one, from now."""
        return Leased(await in_thread(lambda _: self.sync.renew(token, ttl=ttl)))

    async def release(self, token: str) -> None:
        """Ends the lease."""
        await in_thread(lambda _: self.sync.release(token))

    async def show(self) -> Optional[_tenure.LeaseInfo]:
        """Who has the lease, running or expired; ``None`` if there is none."""
        return await in_thread(lambda _: self.sync.show())


class Leased:
    """A lease that we have. Leaving its ``async with`` block releases it."""

    def __init__(self, leased: _tenure.Leased) -> None:
        self.sync = leased

    @property
    def token(self) -> str:
        """Names the lease to ``renew`` and ``release``. Keep it secret."""
        return self.sync.token

    @property
    def fence(self) -> int:
        """Pass it to writes, which are refused once the lease is lost."""
        return self.sync.fence

    async def renew(self, *, ttl: Optional[types.Duration] = None) -> Leased:
        """Extends it from now on. The fence and the token stay."""
        return Leased(await in_thread(lambda _: self.sync.renew(ttl=ttl)))

    async def release(self) -> None:
        """Ends it."""
        await in_thread(lambda _: self.sync.release())

    async def __aenter__(self) -> Leased:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.release()


async def lease_all(
    paths: Iterable[types.Path],
    *,
    ttl: types.Duration,
    store: _tenure._Store = None,
    **options: Unpack[types.LeaseOptions],
) -> Leases:
    """Acquires the leases on several paths, all or none: ``async with await lease_all(paths, ttl=60)``."""
    undo, verb = _release_unless_renewed(options), _several.lease_all
    return Leases(await _call(verb, paths, ttl=ttl, store=store, _undo=undo, **options))


def _release_unless_renewed(
    options: Mapping[str, Any],
) -> Callable[[Union[_tenure.Leased, _several.Leases]], None]:
    """What a cancelled task does with what it got. With a token, its own or that of ``tenure lease hold``, it may be a
    renewal: that is not the task's to end."""
    before = options.get("token") or os.environ.get("TENURE_TOKEN")

    def undo(leased: Union[_tenure.Leased, _several.Leases]) -> None:
        if leased.token != before:
            leased.release()

    return undo


class Leases:
    """Several leases that we have, all with one token. Leaving its ``async with`` block releases all of them."""

    def __init__(self, leases: _several.Leases) -> None:
        self.sync = leases
        #: The lease of each target, in the order of the resolved names.
        self.leases = tuple(Leased(leased) for leased in leases.leases)

    @property
    def token(self) -> str:
        """Names all of them to ``renew`` and ``release``. Keep it secret."""
        return self.sync.token

    async def renew(self, *, ttl: Optional[types.Duration] = None) -> Leases:
        """Extends all of them from now on. The fences and the token stay."""
        return Leases(await in_thread(lambda _: self.sync.renew(ttl=ttl)))

    async def release(self) -> None:
        """Releases all of them."""
        await in_thread(lambda _: self.sync.release())

    async def __aenter__(self) -> Leases:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.release()


class Collection:
    """A directory with one document or journal per key. Opening it touches nothing."""

    def __init__(
        self, dir: types.Path, kind: Any = "documents", *, store: _tenure._Store = None
    ) -> None:
        self.sync = _tenure.Collection(dir, kind, store=store)
        self._store = store

    def document(self, key: str) -> Document:
        """The document of a key."""
        return Document(self.sync.path_of(key), store=self._store)

    def journal(self, key: str) -> Journal:
        """The journal of a key."""
        return Journal(self.sync.path_of(key), store=self._store)

    async def keys(self) -> list[str]:
        """The keys that have a file, in no order."""
        return await in_thread(lambda _: self.sync.keys())

    async def prune(self, **options: Unpack[types.PruneOptions]) -> _tenure.Pruned:
        """Removes what is due."""
        return await _call(self.sync.prune, **options)

    async def remove(self, key: str, **options: Unpack[types.WriteOptions]) -> bool:
        """Removes one key with everything that belongs to it."""
        return await _call(self.sync.remove, key, **options)


class Queue:
    """Tasks for many workers. Opening it touches nothing."""

    def __init__(
        self,
        dir: types.Path,
        *,
        numbers: _tenure._Numbers = "exact",
        store: _tenure._Store = None,
    ) -> None:
        self.sync = _tenure.Queue(dir, numbers=numbers, store=store)

    @property
    def path(self) -> str:
        """The resolved directory."""
        return self.sync.path

    async def add(self, task: types.JSON, **options: Unpack[types.AddOptions]) -> _tenure.Added:
        """Adds a task. With an ``id`` it is idempotent."""
        return await _call(self.sync.add, task, **options)

    async def next(
        self, *, ttl: types.Duration, **options: Unpack[types.ClaimOptions]
    ) -> Optional[_tenure.Claimed]:
        """Claims the oldest open task; ``None`` if there is none before the wait is over."""

        def undo(claimed: Optional[_tenure.Claimed]) -> None:
            if claimed is not None:
                self.sync.fail(claimed.id, claimed.token)

        return await _call(self.sync.next, ttl=ttl, _undo=undo, **options)

    async def done(self, id: str, token: str) -> bool:
        """Completes a task; ``False`` if this claim had completed it before."""
        return await in_thread(lambda _: self.sync.done(id, token))

    async def fail(self, id: str, token: str, **options: Unpack[types.FailOptions]) -> str:
        """Returns a task to the queue, or sets it aside; says which."""
        return await in_thread(lambda _: self.sync.fail(id, token, **options))

    async def renew(self, id: str, token: str, *, ttl: Optional[types.Duration] = None) -> float:
        """Extends a claim from now; how many seconds it has."""
        return await in_thread(lambda _: self.sync.renew(id, token, ttl=ttl))

    async def list(self) -> _tenure._Tasks:
        """Every task, the oldest first."""
        return await in_thread(lambda _: self.sync.list())

    async def prune(self, **options: Unpack[types.QueuePruneOptions]) -> _tenure._Ids:
        """Removes tasks that are done or set aside; their ids."""
        return await _call(self.sync.prune, **options)


class Blob:
    """A file with any content. Opening it touches nothing."""

    def __init__(self, path: types.Path, *, store: _tenure._Store = None) -> None:
        self.sync = _tenure.Blob(path, store=store)

    @property
    def path(self) -> str:
        """The resolved path."""
        return self.sync.path

    async def get(self) -> Optional[_tenure.Content]:
        """The content, or ``None`` if there is no file."""
        return await in_thread(lambda _: self.sync.get())

    async def version(self) -> Optional[str]:
        """Its version, or ``None`` if there is no file."""
        return await in_thread(lambda _: self.sync.version())

    async def put(
        self, content: Union[str, bytes], **options: Unpack[types.BlobOptions]
    ) -> _tenure.Written:
        """Replaces the whole content."""
        return await _call(self.sync.put, content, **options)

    async def undo(self, **options: Unpack[types.BlobOptions]) -> _tenure.Written:
        """Publishes the content from before the last change."""
        return await _call(self.sync.undo, **options)


async def once(
    target: types.Path,
    function: Callable[[], Union[_T, Awaitable[_T]]],
    *,
    ttl: types.Duration,
    numbers: _tenure._Numbers = "exact",
    store: _tenure._Store = None,
    **options: Unpack[types.OnceOptions],
) -> _T:
    """Calls ``function``, plain or async, in one of many processes; the others wait for its result."""
    _once.check(function)
    action = _tenure._Once(target, ttl=ttl, numbers=numbers, store=store)

    def give_back(asked: _tenure._Asked) -> None:
        turn = asked[-1]
        if turn is not None:
            turn.release()

    token = _tenure.Cancel._on_behalf()
    asked = await _call(action.ask, _undo=give_back, _token=token, **options)
    turn, value = _once.answer(action, asked)
    if turn is None:
        return value  # type: ignore[no-any-return]
    ended = turn
    try:
        result = function()
        text, value = turn.render(await result if inspect.isawaitable(result) else result)
    except BaseException as error:
        _once.failed(turn, error)
        raise
    await in_thread(lambda _: _once.store_result(ended, text))
    return value  # type: ignore[no-any-return]


async def update_and_append(
    document: Document,
    function: Callable[[Any], types.JSON],
    journal: Journal,
    lines: types.Lines,
    **options: Unpack[types.UpdateAndAppendOptions],
) -> tuple[_tenure.Written, _tenure.Appended]:
    """Changes a document and appends a batch to a journal, both or (checks failing) neither."""
    verb = _tenure.update_and_append
    return await _call(verb, document.sync, function, journal.sync, lines, **options)


async def _call(
    verb: Callable[..., _T],
    *arguments: Any,
    _undo: Optional[Callable[[_T], object]] = None,
    _token: Optional[_tenure.Cancel] = None,
    **options: Any,
) -> _T:
    """Calls a verb on another thread, with a token that the task's cancellation cancels."""
    _refuse_cancel(options)
    call = functools.partial(verb, *arguments, **options)
    return await in_thread(lambda cancel: call(cancel=cancel), undo=_undo, cancel=_token)


def _refuse_wait(options: Mapping[str, Any]) -> None:
    if "wait" in options:
        message = "failed to read the arguments: there is no 'wait' here"
        raise ArgumentError(message, action="read the arguments")


def _refuse_cancel(options: Mapping[str, Any]) -> None:
    if "cancel" in options:
        message = "failed to read cancel: cancel the task instead of passing a Cancel"
        raise ArgumentError(message, action="read cancel")

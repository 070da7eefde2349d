from collections.abc import Callable, Iterable
from typing import Any, Literal, Optional, Union, final

from typing_extensions import Self, Unpack

from ._errors import JournalGapError
from ._mapping import Mapping
from ._transaction import Transaction
from .types import (
    JSON,
    AddOptions,
    AppendJsonOptions,
    AppendOptions,
    BlobOptions,
    ClaimOptions,
    Duration,
    FailOptions,
    Holder,
    LeaseOptions,
    Lines,
    LockAllOptions,
    LockOptions,
    MappingOptions,
    MergeOptions,
    NewsOptions,
    OnceOptions,
    Path,
    PruneOptions,
    QueuePruneOptions,
    RepairOptions,
    Status,
    StoreFinding,
    TransactionOptions,
    TryLockOptions,
    UpdateAndAppendOptions,
    UpdateOptions,
    WriteOptions,
)

__all__ = [
    "Added",
    "Appended",
    "Blob",
    "CODES",
    "Cancel",
    "Claimed",
    "Collection",
    "Compacted",
    "Content",
    "Damage",
    "Document",
    "Entries",
    "Entry",
    "Follow",
    "Guard",
    "Journal",
    "Lease",
    "LeaseInfo",
    "Leased",
    "Lock",
    "Pruned",
    "Queue",
    "Report",
    "Rotated",
    "Snapshot",
    "Split",
    "Store",
    "Task",
    "Watch",
    "Written",
    "_Once",
    "_Turn",
    "__version__",
    "_lease_all",
    "_lock_all",
    "_lock_now",
    "lock",
    "status",
    "status_below",
    "try_lock",
    "update_and_append",
]

_Numbers = Literal["exact", "float", "decimal"]
_Store = Union[Store, str, None]
# `list` is a verb of a queue.
_Ids = list[str]
_Tasks = list[Task]
_Asked = tuple[JSON, Optional[int], Optional[_Turn]]

CODES: tuple[str, ...]
__version__: str

def lock(path: Path, *, store: _Store = ..., **options: Unpack[LockOptions]) -> Guard:
    """Takes the lock on `path`, exclusively unless `shared=True`.

    Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `shared`, `label` (shown to those
    who wait), `owner`, `reentrant`, `slots` (at most so many holders at once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds),
    `on_max_hold` (called then), `end_on_max_hold`, `lock_file` (locked as well), `allow_network`,
    `cancel` (a `tenure.Cancel`), `store` (a `tenure.Store` or its URL; `path` is a name there then).
    """

def try_lock(
    path: Path, *, store: _Store = ..., **options: Unpack[TryLockOptions]
) -> Guard:
    """Takes the lock on `path` if it is free; `BusyError` otherwise.

    Options: `shared`, `label` (shown to those who wait), `owner`, `reentrant`, `slots` (at most so many holders at
    once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds), `on_max_hold` (called then),
    `end_on_max_hold`, `lock_file` (locked as well), `allow_network`, `cancel` (a `tenure.Cancel`), `store` (a
    `tenure.Store` or its URL; `path` is a name there then).
    """

def _lock_all(
    paths: Iterable[Path], *, store: _Store = ..., **options: Unpack[LockAllOptions]
) -> list[Guard]: ...
def _lease_all(
    paths: Iterable[Path],
    *,
    ttl: Duration,
    store: _Store = ...,
    **options: Unpack[LeaseOptions],
) -> list[Leased]: ...
def _lock_now(
    path: Path, *, store: _Store = ..., **options: Unpack[LockOptions]
) -> Optional[Guard]: ...
def status(path: Path, *, store: _Store = ...) -> Status:
    """What the target `path` is doing, as a dict with the fields of `tenure who --json`."""

def status_below(dir: Path, *, store: _Store = ...) -> list[Status]:
    """What every target below a directory is doing."""

def update_and_append(
    document: Document,
    function: Callable[[Any], JSON],
    journal: Journal,
    lines: Lines,
    **options: Unpack[UpdateAndAppendOptions],
) -> tuple[Written, Appended]:
    """Changes a document and appends a batch to a journal, both or (checks failing) neither.

    Options: `init` (the document to start from where there is none), `json` (each line must be JSON), `header` (the
    first line of a new journal), `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on
    this target), `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`,
    `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
    """

@final
class Store:
    """A store on PostgreSQL or etcd that several machines share. It is opened once, and passed as `store=`."""

    @staticmethod
    def open(url: str) -> Store:
        """The store at a URL, `postgres://user:password@host/database` or `etcd://host:2379/prefix`. In one process the
        same URL is the same connection.
        """
    @property
    def name(self) -> str:
        """Its URL, without the password."""
    def check(self) -> list[StoreFinding]:
        """The health of the server: a list of dicts with `what` was looked at, what was `found`, and the `problem` if it
        endangers a guarantee.
        """

@final
class Cancel:
    """Ends waits from another thread. Once cancelled it stays cancelled."""

    def __new__(cls) -> Self: ...
    @staticmethod
    def _on_behalf() -> Cancel: ...
    def cancel(self) -> None:
        """Makes every wait with this token end with `CancelledError`, now and later."""
    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""

@final
class Guard:
    """A lock that is held. Leaving its `with` block releases it; so does losing the last reference."""

    @property
    def fence(self) -> int:
        """The fence of this hold; 0 for a shared one. Pass it to writes of the same target. Asking for it
        makes it known, which a forked child cannot do; a hold whose fence is not known ends faster. After
        the hold it is the same number, and writes with it are refused.
        """
    @property
    def path(self) -> str:
        """The resolved path of the target."""
    @property
    def recovered_from(self) -> Optional[Holder]:
        """Who held it before and died without releasing: what it protects may be half done."""
    @property
    def held(self) -> bool:
        """Whether this process holds it: it was not released, `max_hold` has not ended it, and in a store it was renewed in
        time.
        """
    @property
    def _nested(self) -> bool: ...
    @property
    def _ends_now(self) -> bool: ...
    def verify(self) -> None:
        """Checks that the lock file was not removed or replaced during the hold."""
    def release(self) -> None:
        """Releases the lock. Releasing it again does nothing, and so does a forked child's release."""
    def __enter__(self) -> Guard: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Lock:
    """A target to be locked again and again: its path is resolved once, and its files stay open."""

    def __new__(cls, path: Path, *, store: _Store = ...) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved path."""
    def acquire(self, **options: Unpack[LockOptions]) -> Guard:
        """Takes the lock, exclusively unless `shared=True`.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `shared`, `label` (shown to those
        who wait), `owner`, `reentrant`, `slots` (at most so many holders at once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds),
        `on_max_hold` (called then), `end_on_max_hold`, `lock_file` (locked as well), `allow_network`,
        `cancel` (a `tenure.Cancel`).
        """
    def try_acquire(self, **options: Unpack[TryLockOptions]) -> Guard:
        """Takes the lock if it is free; `BusyError` otherwise.

        Options: `shared`, `label` (shown to those who wait), `owner`, `reentrant`, `slots` (at most so many holders
        at once, 1 to 64), `fence` (of a hold that this one nests in), `max_hold` (seconds), `on_max_hold` (called
        then), `end_on_max_hold`, `lock_file` (locked as well), `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def _acquire_now(self, **options: Unpack[LockOptions]) -> Optional[Guard]: ...

@final
class Document:
    """A JSON document in a file, or in a store. Opening it touches nothing."""

    def __new__(cls, path: Path, *, numbers: _Numbers = ..., store: _Store = ...) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved path."""
    @property
    def _store(self) -> Optional[Store]: ...
    def read(self) -> Optional[Snapshot]:
        """The document as it is, or `None` if there is none. Takes no lock and creates nothing."""
    def version(self) -> Optional[str]:
        """The version of the document, or `None` if there is none."""
    def set(self, value: JSON, **options: Unpack[WriteOptions]) -> Written:
        """Replaces the whole document.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id` (done once,
        however often it is called), `label` (shown to those who wait), `new_mode` (of a new file),
        `break_link`, `lock_file` (locked as well), `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def update(
        self, function: Callable[[Any], JSON], **options: Unpack[UpdateOptions]
    ) -> Written:
        """Calls `function` with the fresh document, under the lock, and writes what it returns, or what
        it made of its argument if it returns `None`. If it raises, nothing changes. It may be called
        again if a tool that does not use tenure replaced the file meanwhile. Where there is no document
        and no `init` it is called with `None`, and has to return one: else it is `NotFoundError`. A
        function that changes its argument and returns something else is an `InvalidError`: for a result
        use `transaction`.

        Options: `init` (the document to start from where there is none), `wait`,
        `fence`, `guard`, `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`, `lock_file`,
        `allow_network`, `cancel`.
        """
    def transaction(self, **options: Unpack[TransactionOptions]) -> Transaction:
        """A change in place, with a result: `with document.transaction() as value: job = value["queue"].pop()`.

        The block has the lock and the fresh document, an object or an array. It is saved when the block
        ends, and stays as it was if the block raises. If a tool that does not use tenure replaced the file
        meanwhile, it is a `ConflictError`. It has no `op_id`: a repetition would run the block and save nothing.

        Options: `init` (the document to start from where there is none), `wait` (seconds, `None` for ever, or a
        text like `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of other targets and their
        fences), `if_version`, `no_sync`, `label`, `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`
        (a `tenure.Cancel`).
        """
    def mapping(self, **options: Unpack[MappingOptions]) -> Mapping:
        """The document as a mapping of its members: every call reads the file, or changes it under the lock.
        It has no `op_id`: that names one change, and this makes many.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def _check_update(self, **options: Unpack[TransactionOptions]) -> None: ...
    def _update_text(
        self, function: Callable[[Optional[str]], str], **options: Unpack[WriteOptions]
    ) -> Written: ...
    def merge(self, patch: JSON, **options: Unpack[MergeOptions]) -> Written:
        """Merges a patch (RFC 7396). `union`, `max`, `min`, `sum` and `last` are lists of JSON Pointers.

        Options: those, and `wait`, `fence`, `guard`, `if_version`, `no_sync`, `op_id`, `label`,
        `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`.
        """
    def patch(self, operations: JSON, **options: Unpack[WriteOptions]) -> Written:
        """Applies a JSON Patch (RFC 6902), whole or not at all.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def compare_and_set(
        self, version_is: str, value: JSON, **options: Unpack[WriteOptions]
    ) -> Written:
        """Replaces the document if it still has this version; `ConflictError` otherwise.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `no_sync`, `op_id`, `label`, `new_mode`, `break_link`,
        `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def restore(self, **options: Unpack[WriteOptions]) -> Written:
        """Brings back the last good version of a document that cannot be parsed.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def watch(self) -> Watch:
        """Changes that come after now, one snapshot each; quick ones may be passed over."""

@final
class Snapshot:
    """A document as it was at one moment."""

    def __new__(cls, value: JSON, bytes: bytes, version: str, repaired: bool) -> Self: ...
    @property
    def value(self) -> JSON:
        """The document."""
    @property
    def bytes(self) -> bytes:
        """What the file says."""
    @property
    def version(self) -> str:
        """Names this content: for `if_version` and `compare_and_set`."""
    @property
    def repaired(self) -> bool:
        """The file was cut by a power loss; this is its last synced version."""
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Written:
    """What a change did."""

    def __new__(cls, version: str, changed: bool, replayed: bool) -> Self: ...
    @property
    def version(self) -> str:
        """The version that is there now."""
    @property
    def changed(self) -> bool:
        """False if the content was that already."""
    @property
    def replayed(self) -> bool:
        """The operation id was known: it had been done before."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Watch:
    """The changes of a document. Iterating waits for ever; `next(wait=...)` does not."""

    def next(self, **options: Unpack[NewsOptions]) -> Optional[Snapshot]:
        """The document after its next change, or `None` when the wait is over.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `cancel` (a `tenure.Cancel`).
        """
    def close(self) -> None:
        """Ends the watch. A wait of another thread goes on, and is the last."""
    def __iter__(self) -> Watch: ...
    def __next__(self) -> Snapshot: ...
    def __enter__(self) -> Watch: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Journal:
    """A file of lines that many processes append to. Opening it touches nothing."""

    def __new__(cls, path: Path, *, store: _Store = ...) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved path."""
    def append(
        self, lines: Lines, **options: Unpack[AppendOptions]
    ) -> Appended:
        """Appends a line, or any number of lines as one batch: readers see all of them or none, with nothing in between.

        Options: `json` (each line must be JSON), `header` (the first line of a new file), `wait`, `fence`,
        `guard`, `if_version`, `no_sync`, `op_id` (done once, however often it is called), `label`,
        `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`.
        """
    def append_json(
        self, values: JSON, **options: Unpack[AppendJsonOptions]
    ) -> Appended:
        """Appends a value, or any number of values as one batch, each as one line of JSON.

        Options: `header` (the first line of a new file), `wait` (seconds, `None` for ever, or a text like
        `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of other targets and their fences),
        `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel`
        (a `tenure.Cancel`).
        """
    def read(
        self,
        from_: Optional[int] = None,
        limit: Optional[int] = None,
        *,
        on_gap: Optional[Callable[[JournalGapError], object]] = None,
    ) -> Entries:
        """The entries with number `from_` and above, at most `limit` of them. Takes no lock. Without a number they
        begin with the oldest that is there. Entries that are gone raise `JournalGapError`, and the next call goes on
        behind them; with `on_gap` that is called instead.
        """
    def follow(
        self,
        from_: Optional[int] = None,
        *,
        on_gap: Optional[Callable[[JournalGapError], object]] = None,
    ) -> Follow:
        """Entries as they appear, from number `from_` on. For that and `on_gap` see `read`."""
    def pending(self) -> list[bytes]:
        """Lines of other tools that have no number yet, an unterminated one included. The next write adopts them."""
    def verify(self) -> Report:
        """Checks every byte against what was written, in the archives too. Takes no lock."""
    def repair(self, **options: Unpack[RepairOptions]) -> Report:
        """Finishes what crashes have left, writes back what the log still holds of damaged batches, and verifies.
        With `accept=True` it takes the rest of the damage as it is.

        Options: `accept`, `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this
        target), `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`,
        `new_mode`, `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def rotate(self, **options: Unpack[WriteOptions]) -> Rotated:
        """Moves the entries so far to a file of their own and starts an empty one.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def compact(
        self, keep: Callable[[Entry], object], **options: Unpack[WriteOptions]
    ) -> Compacted:
        """Writes the journal anew with the entries that `keep` wants. They keep their numbers. If it
        raises, nothing changes.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """

@final
class Entry:
    """One line of a journal."""

    def __new__(cls, seq: int, line: bytes) -> Self: ...
    @property
    def seq(self) -> int:
        """Its number: grows over the life of the journal."""
    @property
    def line(self) -> bytes:
        """Its bytes, without the newline."""
    @property
    def text(self) -> str:
        """Its text. Bytes that are not UTF-8 are replaced."""
    def json(self, *, numbers: _Numbers = ...) -> JSON:
        """Its value, read as JSON."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Entries:
    """The entries of a journal, oldest first; later appends are not part of it."""

    def __iter__(self) -> Entries: ...
    def __next__(self) -> Entry: ...

@final
class Follow:
    """The entries of a journal as they appear. Iterating waits for ever; `next(wait=...)` does not."""

    @property
    def position(self) -> int:
        """The number to resume from later."""
    def next(self, **options: Unpack[NewsOptions]) -> Optional[Entry]:
        """The next entry, or `None` when the wait is over.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `cancel` (a `tenure.Cancel`).
        """
    def close(self) -> None:
        """Ends it. A wait of another thread goes on, and is the last."""
    def __iter__(self) -> Follow: ...
    def __next__(self) -> Entry: ...
    def __enter__(self) -> Follow: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class Appended:
    """What an append did."""

    def __new__(
        cls,
        first: int,
        last: int,
        adopted: int,
        closed_tail: bool,
        rolled_forward: int,
        replayed: bool,
    ) -> Self: ...
    @property
    def first(self) -> int:
        """The number of the batch's first entry."""
    @property
    def last(self) -> int:
        """The number of its last entry."""
    @property
    def adopted(self) -> int:
        """Lines of other tools that got a number on the way."""
    @property
    def closed_tail(self) -> bool:
        """An unterminated line of another tool was closed with a newline."""
    @property
    def rolled_forward(self) -> int:
        """Batches that a crash had left unfinished, finished on the way."""
    @property
    def replayed(self) -> bool:
        """The operation was done before; these are its entries."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Rotated:
    """What a rotation did."""

    def __new__(cls, archive: Optional[str], next: int) -> Self: ...
    @property
    def archive(self) -> Optional[str]:
        """Where the entries so far are now; `None` if there were none."""
    @property
    def next(self) -> int:
        """The number that the next entry gets."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Compacted:
    """What a compaction did."""

    def __new__(
        cls,
        kept: int,
        dropped: int,
        bytes_before: int,
        bytes_after: int,
        replaced: Optional[str],
    ) -> Self: ...
    @property
    def kept(self) -> int:
        """Entries that stayed, with their numbers."""
    @property
    def dropped(self) -> int:
        """Entries that went."""
    @property
    def bytes_before(self) -> int:
        """The file's length before."""
    @property
    def bytes_after(self) -> int:
        """The file's length now."""
    @property
    def replaced(self) -> Optional[str]:
        """Where the file from before is kept until the next compaction or header."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Damage:
    """A range of a file that is not what it was."""

    def __new__(cls, file: str, start: int, end: int, why: str) -> Self: ...
    @property
    def file(self) -> str:
        """The journal, or one of its archives."""
    @property
    def start(self) -> int:
        """First byte."""
    @property
    def end(self) -> int:
        """Behind the last byte."""
    @property
    def why(self) -> str:
        """What is wrong."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Report:
    """What a verification found."""

    def __new__(
        cls,
        sound: bool,
        entries: int,
        foreign_entries: int,
        segments: int,
        bytes: int,
        next: int,
        damaged: list[Damage],
        lost: list[tuple[int, int]],
        skipped: list[tuple[int, int]],
        archives: int,
        torn_tail: bool,
        unadopted: int,
        nul_bytes: int,
        pending: int,
        rolled_forward: int,
        unbound: bool,
        set_aside: list[Damage],
        quarantine: Optional[str],
    ) -> Self: ...
    @property
    def sound(self) -> bool:
        """Nothing is damaged."""
    @property
    def entries(self) -> int:
        """Entries in the file now."""
    @property
    def foreign_entries(self) -> int:
        """How many of them other tools have written."""
    @property
    def segments(self) -> int:
        """Ranges that were compared with their checksum."""
    @property
    def bytes(self) -> int:
        """The file's length."""
    @property
    def next(self) -> int:
        """The number that the next entry gets; 0 if tenure has not written to it yet."""
    @property
    def damaged(self) -> list[Damage]:
        """What is not as it was, in the archives too."""
    @property
    def lost(self) -> list[tuple[int, int]]:
        """Entries that are gone: the first and the last of each gap."""
    @property
    def skipped(self) -> list[tuple[int, int]]:
        """Numbers that were reserved when the machine restarted; entries without a sync may have had them."""
    @property
    def archives(self) -> int:
        """Archives that were checked."""
    @property
    def torn_tail(self) -> bool:
        """The file ends in an unterminated line of another tool."""
    @property
    def unadopted(self) -> int:
        """Complete lines of other tools that the next write gives a number."""
    @property
    def nul_bytes(self) -> int:
        """NULs in the file: lost to a power loss before they were synced."""
    @property
    def pending(self) -> int:
        """Logged batches that are not in the file yet; the next write finishes them."""
    @property
    def rolled_forward(self) -> int:
        """Batches that a repair has finished."""
    @property
    def unbound(self) -> bool:
        """The sidecars do not belong to this file; the next write adopts it."""
    @property
    def set_aside(self) -> list[Damage]:
        """Damage that a repair has written over or accepted."""
    @property
    def quarantine(self) -> Optional[str]:
        """Where a copy of those bytes is, one range behind the other."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Lease:
    """A target that can be leased. Opening it touches nothing."""

    def __new__(cls, path: Path, *, store: _Store = ...) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved path."""
    def acquire(self, *, ttl: Duration, **options: Unpack[LeaseOptions]) -> Leased:
        """Acquires the lease for `ttl` seconds. With the token of a lease that can still be renewed it
        is a renewal: the fence stays.

        Options: `owner`, `wait` (seconds, `None` for ever, or a text like `"500ms"`), `token`, `label`,
        `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def take_over(
        self, *, ttl: Duration, reason: str, **options: Unpack[LeaseOptions]
    ) -> Leased:
        """Takes the lease from its holder, for a reason that is recorded first.

        Options: `owner`, `wait` (seconds, `None` for ever, or a text like `"500ms"`), `token`, `label`,
        `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def renew(self, token: str, *, ttl: Optional[Duration] = None) -> Leased:
        """Extends the lease by its time to live, or by a new one, from now. The fence stays."""
    def release(self, token: str) -> None:
        """Ends the lease."""
    def show(self) -> Optional[LeaseInfo]:
        """Who has the lease, running or expired; `None` if there is none."""
    def events(self) -> list[dict[str, Any]]:
        """The recorded events of this target, oldest first: take-overs among them."""

@final
class Leased:
    """A lease that we have. As a context manager it is released at the end of the block."""

    @property
    def token(self) -> str:
        """Names the lease to `renew` and `release`. Keep it secret."""
    @property
    def fence(self) -> int:
        """Pass it to writes, which are refused once the lease is lost."""
    @property
    def owner(self) -> str:
        """Who it is for."""
    @property
    def ttl(self) -> float:
        """How long it lasts without a renewal, in seconds."""
    @property
    def expires_in(self) -> float:
        """What was left of it when the call returned, in seconds."""
    @property
    def path(self) -> str:
        """The resolved path."""
    def renew(self, *, ttl: Optional[Duration] = None) -> Leased:
        """Extends it from now on. The fence and the token stay."""
    def release(self) -> None:
        """Ends it. Ending one that is over already is `LeaseLostError`."""
    def __enter__(self) -> Leased: ...
    def __exit__(self, *_raised: object) -> None: ...

@final
class LeaseInfo:
    """What every caller may know about a lease."""

    @property
    def holder(self) -> Holder:
        """Who has it, as they wrote it down themselves."""
    @property
    def owner(self) -> str:
        """The label of its owner."""
    @property
    def ttl(self) -> float:
        """How long it lasts without a renewal, in seconds."""
    @property
    def expires_in(self) -> Optional[float]:
        """What is left of it, in seconds; `None` if it has expired."""

@final
class Collection:
    """A directory with one document or journal per key. Opening it touches nothing."""

    def __new__(
        cls,
        dir: Path,
        kind: Literal["documents", "journals"] = ...,
        *,
        numbers: _Numbers = ...,
        store: _Store = ...,
    ) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved directory."""
    def path_of(self, key: str) -> str:
        """The file of a key."""
    def document(self, key: str) -> Document:
        """The document of a key."""
    def journal(self, key: str) -> Journal:
        """The journal of a key."""
    def keys(self) -> list[str]:
        """The keys that have a file, in no order."""
    def prune(self, **options: Unpack[PruneOptions]) -> Pruned:
        """Removes what is due, each key under its own lock; a key that is held is skipped.

        Options: `max_age` (seconds, or a text like `"30d"`), `max_count`, `keep` (keys), `dry_run`, `wait`
        (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of
        other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`,
        `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def remove(self, key: str, **options: Unpack[WriteOptions]) -> bool:
        """Removes one key with everything that belongs to it. `False` if there was none.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    @staticmethod
    def split(
        index: Path, dir: Path, *, store: _Store = ..., **options: Unpack[WriteOptions]
    ) -> Split:
        """Writes every member of the JSON object in `index` as a document of its own into `dir`.

        Options: `store` (a `tenure.Store` or its URL; both paths are names there then), `wait` (seconds, `None` for
        ever, or a text like `"500ms"`), `fence` (of a hold on this target), `guard` (a dict of other targets and
        their fences), `if_version`, `no_sync`, `op_id`, `label`, `new_mode`, `break_link`, `lock_file`,
        `allow_network`, `cancel` (a `tenure.Cancel`).
        """

@final
class Pruned:
    """What a prune removed."""

    def __new__(cls, removed: list[str], skipped: list[str], remaining: int) -> Self: ...
    @property
    def removed(self) -> list[str]:
        """Keys that are gone (or would be)."""
    @property
    def skipped(self) -> list[str]:
        """Keys that were due but are held, leased, or were changed just now."""
    @property
    def remaining(self) -> int:
        """How many keys remain."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Split:
    """What a split did."""

    def __new__(
        cls, created: list[str], present: list[str], differing: list[str]
    ) -> Self: ...
    @property
    def created(self) -> list[str]:
        """Keys that were written."""
    @property
    def present(self) -> list[str]:
        """Keys that were there with the same content already."""
    @property
    def differing(self) -> list[str]:
        """Keys that were there with other content; they were left as they are."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Blob:
    """A file with any content, with the versions, guards and history of a document. Opening it touches nothing."""

    def __new__(cls, path: Path, *, store: _Store = ...) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved path."""
    def get(self) -> Optional[Content]:
        """The content, or `None` if there is no file. Takes no lock."""
    def version(self) -> Optional[str]:
        """Its version, or `None` if there is no file."""
    def put(self, content: Union[str, bytes], **options: Unpack[BlobOptions]) -> Written:
        """Replaces the whole content. It is always synced.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `op_id`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def undo(self, **options: Unpack[BlobOptions]) -> Written:
        """Publishes the content from before the last change. A second undo redoes.

        Options: `wait` (seconds, `None` for ever, or a text like `"500ms"`), `fence` (of a hold on this target),
        `guard` (a dict of other targets and their fences), `if_version`, `op_id`, `label`, `new_mode`,
        `break_link`, `lock_file`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """

@final
class Content:
    """The content of a file at one moment."""

    @property
    def bytes(self) -> bytes:
        """What the file has in it."""
    @property
    def version(self) -> str:
        """Names this content: for `if_version`."""

@final
class _Once:
    """The result of an action that is done once for many callers."""

    def __new__(
        cls, path: Path, *, ttl: Duration, numbers: _Numbers = ..., store: _Store = ...
    ) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved path."""
    def ask(self, **options: Unpack[OnceOptions]) -> _Asked:
        """Asks for the result, or for the turn."""

@final
class _Turn:
    """The right to do the action."""

    def render(self, value: JSON) -> tuple[str, JSON]:
        """A result as text, and as every caller gets it."""
    def succeed(self, text: str) -> bool:
        """Stores the result for its time; `False` if it is too long for that."""
    def fail(self) -> None:
        """Passes a failure on to those who wait."""
    def release(self) -> None:
        """Gives the turn to the next caller."""

@final
class Queue:
    """Tasks for many workers. Each runs at least once and is completed exactly once. Opening it touches nothing."""

    def __new__(cls, dir: Path, *, numbers: _Numbers = ..., store: _Store = ...) -> Self: ...
    @property
    def path(self) -> str:
        """The resolved directory."""
    def add(self, task: JSON, **options: Unpack[AddOptions]) -> Added:
        """Adds a task. With an `id` it is idempotent; after `max_attempts` that failed or expired it is set aside.

        More options: `wait`, `no_sync`, `label`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """
    def next(self, *, ttl: Duration, **options: Unpack[ClaimOptions]) -> Optional[Claimed]:
        """Claims the oldest open task for `ttl` seconds; `None` if there is none before the wait is over.

        Options: `owner`, `wait` (default 0), `accepts` (a function that says of an open task whether to claim it; no lock
        is held meanwhile), `cancel` (a `tenure.Cancel`).
        """
    def done(self, id: str, token: str) -> bool:
        """Completes a task; `False` if this claim had completed it before."""
    def fail(self, id: str, token: str, **options: Unpack[FailOptions]) -> str:
        """Returns a task to the queue, or sets it aside; says which: `open`, `delayed` or `set_aside`.

        Options: `delay` (seconds), `max_attempts`, `reason`.
        """
    def renew(self, id: str, token: str, *, ttl: Optional[Duration] = None) -> float:
        """Extends a claim by its time to live, or by a new one, from now; how many seconds it has."""
    def list(self) -> _Tasks:
        """Every task, the oldest first."""
    def prune(self, **options: Unpack[QueuePruneOptions]) -> _Ids:
        """Removes tasks that are done or set aside, and were added longer ago than `max_age` (default 0); their ids.

        More options: `wait`, `no_sync`, `label`, `allow_network`, `cancel` (a `tenure.Cancel`).
        """

@final
class Added:
    """A task that was added."""

    def __new__(cls, id: str, new: bool) -> Self: ...
    @property
    def id(self) -> str:
        """Its id. Ids that the queue gives sort by time."""
    @property
    def new(self) -> bool:
        """False if there was a task with this id."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __getnewargs__(self) -> tuple[Any, ...]: ...

@final
class Claimed:
    """A task that the caller has claimed."""

    @property
    def id(self) -> str:
        """Its id."""
    @property
    def task(self) -> JSON:
        """What was added."""
    @property
    def target(self) -> str:
        """The document of the task: with the fence, it guards other writes."""
    @property
    def token(self) -> str:
        """Names the claim to `done`, `fail` and `renew`. Keep it secret."""
    @property
    def fence(self) -> int:
        """Pass it to writes as a guard with `target`: they are refused once the claim is lost."""
    @property
    def attempt(self) -> int:
        """Which attempt it is, from 1 on."""
    @property
    def ttl(self) -> float:
        """How long the claim lasts without a renewal, in seconds."""

@final
class Task:
    """A task as it is now."""

    @property
    def id(self) -> str:
        """Its id."""
    @property
    def task(self) -> JSON:
        """What was added."""
    @property
    def state(self) -> str:
        """`open`, `delayed`, `claimed`, `done`, `set_aside` or `damaged`."""
    @property
    def attempts(self) -> int:
        """How often it was claimed."""
    @property
    def added_us(self) -> int:
        """When it was added, in microseconds of the wall clock."""
    @property
    def owner(self) -> Optional[str]:
        """The last worker that claimed it."""
    @property
    def left(self) -> Optional[float]:
        """What is left of its claim, or of its delay, in seconds."""
    @property
    def reason(self) -> Optional[str]:
        """Why it failed last."""

"""Types for annotations: what dicts of tenure contain, and which options its verbs take.

Nothing in tenure imports this at run time.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional, TypedDict, Union

from ._tenure import Cancel

#: A path: ``str``, ``bytes`` or ``os.PathLike``.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
#: Seconds, ``None`` for ever, or as the command line writes it: ``"500ms"``, ``"10s"``, ``"forever"``.
Wait = Union[float, str, None]
#: Seconds, or as the command line writes it: ``"500ms"``, ``"10s"``, ``"2m"``, ``"1h"``, ``"7d"``.
Duration = Union[float, str]
#: One line, or any number of them as one batch.
Lines = Union[str, bytes, Iterable[Union[str, bytes]]]
#: What a document says. Numbers that are not integers are floats, or ``decimal.Decimal``.
JSON = Any


class Holder(TypedDict):
    """Who holds (or last held) a target, as they wrote it down themselves."""

    pid: int
    host: str
    command: str
    label: str
    owner: str
    fence: int
    since_us: int
    kind: str
    pid_namespace: int
    start: int


class Process(TypedDict):
    """A process that has a lock file open."""

    pid: int
    command: str


class Status(TypedDict):
    """What can be seen of one target."""

    target: str
    sidecars: str
    kind: str
    holder: Optional[Holder]
    fence: int
    expires_in_ms: Optional[int]
    ttl_ms: Optional[int]
    processes: list[Process]
    waiters: list[Process]
    compromised: bool


class StoreFinding(TypedDict):
    """One line about the health of a store."""

    what: str
    found: str
    problem: Optional[str]


class CommonOptions(TypedDict, total=False):
    """What locks and writes have in common."""

    fence: Optional[int]
    label: Optional[str]
    lock_file: Optional[Path]
    allow_network: Optional[bool]
    cancel: Optional[Cancel]


class TryLockOptions(CommonOptions, total=False):
    """How a lock is taken."""

    shared: Optional[bool]
    owner: Optional[str]
    reentrant: Optional[bool]
    slots: Optional[int]
    max_hold: Optional[Duration]
    on_max_hold: Optional[Callable[[str], object]]
    end_on_max_hold: Optional[bool]


class LockOptions(TryLockOptions, total=False):
    """The same, with a wait."""

    wait: Wait


class LockAllOptions(TypedDict, total=False):
    """How several locks are taken."""

    shared: Optional[bool]
    label: Optional[str]
    owner: Optional[str]
    reentrant: Optional[bool]
    slots: Optional[int]
    allow_network: Optional[bool]
    wait: Wait
    cancel: Optional[Cancel]


class MappingOptions(CommonOptions, total=False):
    """How a document is written many times, by the same options."""

    wait: Wait
    guard: Optional[Mapping[Path, int]]
    if_version: Optional[str]
    no_sync: Optional[bool]
    new_mode: Optional[int]
    break_link: Optional[bool]


class TransactionOptions(MappingOptions, total=False):
    """The same, with a document to start from where there is none."""

    init: JSON


class WriteOptions(MappingOptions, total=False):
    """How a document or journal is written."""

    op_id: Optional[str]


class UpdateOptions(WriteOptions, total=False):
    """The same, with a document to start from where there is none."""

    init: JSON


class MergeOptions(WriteOptions, total=False):
    """The same, with rules: lists of JSON Pointers."""

    union: Optional[Sequence[str]]
    max: Optional[Sequence[str]]
    min: Optional[Sequence[str]]
    sum: Optional[Sequence[str]]
    last: Optional[Sequence[str]]


class RepairOptions(WriteOptions, total=False):
    """How a journal is repaired."""

    accept: Optional[bool]


class AppendOptions(WriteOptions, total=False):
    """How a batch is appended."""

    json: Optional[bool]
    header: Union[str, bytes, None]


class AppendJsonOptions(WriteOptions, total=False):
    """How values are appended."""

    header: Union[str, bytes, None]


class UpdateAndAppendOptions(AppendOptions, total=False):
    """How a document and a journal are changed together."""

    init: JSON


class LeaseOptions(TypedDict, total=False):
    """How a lease is acquired."""

    owner: Optional[str]
    wait: Wait
    token: Optional[str]
    label: Optional[str]
    allow_network: Optional[bool]
    cancel: Optional[Cancel]


class PruneOptions(WriteOptions, total=False):
    """What a prune removes."""

    max_age: Optional[Duration]
    max_count: Optional[int]
    keep: Optional[Sequence[str]]
    dry_run: Optional[bool]


class OnceOptions(TypedDict, total=False):
    """How the result of an action is waited for."""

    label: Optional[str]
    owner: Optional[str]
    allow_network: Optional[bool]
    wait: Wait
    cancel: Optional[Cancel]


class BlobOptions(CommonOptions, total=False):
    """How a file that is not JSON is written."""

    wait: Wait
    guard: Optional[Mapping[Path, int]]
    if_version: Optional[str]
    op_id: Optional[str]
    new_mode: Optional[int]
    break_link: Optional[bool]


class QueueOptions(TypedDict, total=False):
    """How the documents of tasks are written."""

    wait: Wait
    no_sync: Optional[bool]
    label: Optional[str]
    allow_network: Optional[bool]
    cancel: Optional[Cancel]


class AddOptions(QueueOptions, total=False):
    """How a task is added."""

    id: Optional[str]
    max_attempts: Optional[int]


class ClaimOptions(TypedDict, total=False):
    """How a task is claimed: without ``wait`` the call does not wait."""

    owner: Optional[str]
    wait: Wait
    #: Says of an open task whether to claim it. No lock is held meanwhile, and it may be asked about a task again.
    accepts: Optional[Callable[[Any], object]]
    cancel: Optional[Cancel]


class FailOptions(TypedDict, total=False):
    """What becomes of a task whose attempt failed."""

    delay: Optional[Duration]
    max_attempts: Optional[int]
    reason: Optional[str]


class QueuePruneOptions(QueueOptions, total=False):
    """Which tasks that are over are removed."""

    max_age: Optional[Duration]


class NewsOptions(TypedDict, total=False):
    """How news is waited for: for ever unless told otherwise."""

    wait: Wait
    cancel: Optional[Cancel]

"""Locks, documents, journals and leases on plain files that many processes can share.

    import tenure

    with tenure.lock("state.json"):
        ...

    tenure.Document("state.json").update(lambda state: state["seen"].append(1), init={"seen": []})

``tenure.aio`` has the same verbs for asyncio; ``tenure.compat`` has drop-ins for other packages. Both are
imported when they are first used.
"""

from ._errors import (
    AccessError,
    ArgumentError,
    BusyError,
    CancelledError,
    CompromisedError,
    ConflictError,
    DamagedError,
    DeadlockError,
    FencedError,
    InvalidError,
    IoError,
    JournalGapError,
    LeaseLostError,
    NewerFormatError,
    NotDurableError,
    NotFoundError,
    OnceFailedError,
    TenureError,
    UnsupportedError,
)
from ._once import once
from ._several import Guards, Leases, lease_all, lock_all
from ._tenure import (
    Added,
    Appended,
    Blob,
    Cancel,
    Claimed,
    Collection,
    Compacted,
    Content,
    Damage,
    Document,
    Entries,
    Entry,
    Follow,
    Guard,
    Journal,
    Lease,
    Leased,
    LeaseInfo,
    Lock,
    Pruned,
    Queue,
    Report,
    Rotated,
    Snapshot,
    Split,
    Store,
    Task,
    Watch,
    Written,
    __version__,
    lock,
    status,
    status_below,
    try_lock,
    update_and_append,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import aio as aio
    from . import compat as compat

__all__ = [
    "AccessError",
    "Added",
    "Appended",
    "ArgumentError",
    "Blob",
    "BusyError",
    "Cancel",
    "CancelledError",
    "Claimed",
    "Collection",
    "Compacted",
    "CompromisedError",
    "ConflictError",
    "Content",
    "Damage",
    "DamagedError",
    "DeadlockError",
    "Document",
    "Entries",
    "Entry",
    "FencedError",
    "Follow",
    "Guard",
    "Guards",
    "InvalidError",
    "IoError",
    "Journal",
    "JournalGapError",
    "Lease",
    "LeaseInfo",
    "LeaseLostError",
    "Leased",
    "Leases",
    "Lock",
    "NewerFormatError",
    "NotDurableError",
    "NotFoundError",
    "OnceFailedError",
    "Pruned",
    "Queue",
    "Report",
    "Rotated",
    "Snapshot",
    "Split",
    "Store",
    "Task",
    "TenureError",
    "UnsupportedError",
    "Watch",
    "Written",
    "__version__",
    "lease_all",
    "lock",
    "lock_all",
    "once",
    "status",
    "status_below",
    "try_lock",
    "update_and_append",
]


def __getattr__(name: str) -> object:
    # asyncio alone takes longer to import than all of tenure; a hook that needs none pays for none.
    if name in ("aio", "compat"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> "list[str]":
    return [*__all__, "aio", "compat"]

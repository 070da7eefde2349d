"""The filelock package's interface on tenure's locks.

The very file is locked as well, as filelock does it, so that both exclude each other. What differs: waiting
is done by the kernel and not by polling, and a forked child never unlocks what its parent holds. There is no
lock by existence: ``SoftFileLock`` is the same kernel lock, which the death of its holder releases. It and a
soft lock of filelock itself do not keep each other out; replace both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._descriptor import lock_descriptor, unlock_descriptor
from ._error import (
    LeaseSettingsMismatch,
    SoftFileLockLifetimeWarning,
    SoftFileLockProtocolError,
    Timeout,
)
from ._lock import AcquireReturnProxy, BaseFileLock, SoftFileLock, UnixFileLock, WindowsFileLock
from ._options import CloseErrorPolicy, ContextErrorPolicy, LockOptions
from .version import version

if TYPE_CHECKING:
    from .asyncio import (
        AsyncAcquireReturnProxy,
        AsyncFileLock,
        AsyncSoftFileLock,
        AsyncUnixFileLock,
        AsyncWindowsFileLock,
        BaseAsyncFileLock,
    )

__all__ = [
    "AcquireReturnProxy",
    "AsyncAcquireReturnProxy",
    "AsyncFileLock",
    "AsyncSoftFileLock",
    "AsyncUnixFileLock",
    "AsyncWindowsFileLock",
    "BaseAsyncFileLock",
    "BaseFileLock",
    "CloseErrorPolicy",
    "ContextErrorPolicy",
    "FileLock",
    "LeaseSettingsMismatch",
    "LockOptions",
    "SoftFileLock",
    "SoftFileLockLifetimeWarning",
    "SoftFileLockProtocolError",
    "Timeout",
    "UnixFileLock",
    "WindowsFileLock",
    "__version__",
    "has_fcntl",
    "lock_descriptor",
    "unlock_descriptor",
]

#: The release of filelock whose interface this is.
__version__ = version
has_fcntl = True

FileLock = UnixFileLock

#: Names that need asyncio, which takes longer to import than the rest.
_LATER = frozenset(name for name in __all__ if name.startswith(("Async", "BaseAsync")))


def __getattr__(name: str) -> Any:
    if name in _LATER or name == "asyncio":
        import importlib

        module = importlib.import_module(f"{__name__}.asyncio")
        return module if name == "asyncio" else getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "asyncio"})

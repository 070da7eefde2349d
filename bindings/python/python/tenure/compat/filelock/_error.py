"""What the drop-in raises and warns of, beside the ``OSError`` of the system."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from ..._errors import TenureError

if TYPE_CHECKING:
    from ..._errors import BusyError

__all__ = [
    "LeaseSettingsMismatch",
    "SoftFileLockLifetimeWarning",
    "SoftFileLockProtocolError",
    "Timeout",
]


class Timeout(TimeoutError):
    """The lock could not be acquired in time."""

    def __init__(self, lock_file: str, holder: Optional[str] = None) -> None:
        super().__init__()
        self._lock_file = lock_file
        self._holder = holder
        self._found: Optional[str] = None

    @classmethod
    def _of(cls, lock_file: str, busy: Optional[BusyError]) -> Timeout:
        """The same, with what is known of the holder."""
        made = cls(lock_file)
        holder = None if busy is None else busy.holder
        if holder is not None:
            command = f" ({holder['command']})" if holder.get("command") else ""
            made._found = f"pid {holder['pid']}{command}"
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__class__, (self._lock_file,), self.__dict__

    def __str__(self) -> str:
        message = f"The file lock '{self._lock_file}' could not be acquired."
        if self._holder is not None:
            return f"{message} It is held by {self._holder}, which this host cannot probe."
        return message if self._found is None else f"{message} It is held by {self._found}."

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.lock_file!r})"

    @property
    def lock_file(self) -> str:
        """The path of the file lock."""
        return self._lock_file


class SoftFileLockLifetimeWarning(FutureWarning):
    """Kept for ``warnings.filterwarnings``: a ``lifetime`` is ignored here, so it is never given."""


class LeaseSettingsMismatch(ValueError):
    """Kept for ``except``: filelock's leases are not here, so it is never raised."""


class SoftFileLockProtocolError(OSError):
    """Kept for ``except``: filelock's strict soft locks are not here, so it is never raised."""

    def __init__(self, lock_file: str, claim_name: Optional[str], reason: str) -> None:
        place = lock_file if claim_name is None else f"{lock_file}: claim {claim_name!r}"
        super().__init__(f"Invalid strict soft-lock state at {place}: {reason}")
        self._fields = (lock_file, claim_name, reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__class__, self._fields, self.__dict__

    @property
    def lock_file(self) -> str:
        """The path of the lock."""
        return self._fields[0]

    @property
    def claim_name(self) -> Optional[str]:
        """The claim that it is about."""
        return self._fields[1]

    @property
    def reason(self) -> str:
        """What is wrong."""
        return self._fields[2]


def raise_both(body: BaseException, release: BaseException) -> NoReturn:
    """Raises two failures side by side, where this Python can."""
    try:
        group = BaseExceptionGroup  # type: ignore[name-defined,unused-ignore]
    except NameError:  # Before 3.11.
        raise release from body
    release.__context__ = None
    raise group("lock body and release both failed", (body, release)) from None


def as_os_error(error: TenureError, path: str) -> OSError:
    """What callers of filelock catch."""
    if isinstance(error, OSError):
        return error
    number = errno.ENOTSUP if error.code == "unsupported" else errno.EIO
    return OSError(number, error.message, path)

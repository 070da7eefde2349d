"""The exceptions: one class per error code of tenure, and what each of them tells.

The codes are those of the command line's ``--json`` errors. Some classes have a second base, so that code
which knows nothing of tenure still understands them: a ``BusyError`` is a ``TimeoutError`` too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

    from .types import Holder


class TenureError(Exception):
    """Everything that tenure raises, except for a call with too few or too many arguments."""

    #: The stable name of what happened, the same in every language.
    code = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        action: Optional[str] = None,
        path: Optional[str] = None,
        holder: Optional[Holder] = None,
        hint: Optional[str] = None,
        committed: Optional[bool] = None,
        errno: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        #: One line for people: what failed, where, why, and what to do.
        self.message = message
        #: What was being done.
        self.action = action
        #: The file it was done to.
        self.path = path
        #: Who is in the way: pid, host, command, label, owner, fence, since_us, kind.
        self.holder = holder
        #: What to do next.
        self.hint = hint
        #: Whether readers can see the change, where that could be in doubt.
        self.committed = committed
        if isinstance(self, OSError):
            _fill(self, errno, message, path)

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword arguments survive `pickle` only as state: exceptions travel between processes.
        return (type(self), (self.message,), self._state())

    def _state(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if isinstance(self, OSError):
            state.update(errno=self.errno, strerror=self.strerror, filename=self.filename)
        return state


def _fill(error: OSError, errno: Optional[int], message: str, path: Optional[str]) -> None:
    """The fields of an ``OSError``."""
    error.errno = errno
    error.strerror = message
    error.filename = path


class BusyError(TenureError, TimeoutError):
    """Another caller has it. Wait longer, come back, or look at ``holder``."""

    code = "busy"


class DeadlockError(TenureError, RuntimeError):
    """This thread waits for itself. Release the first hold, or pass its fence."""

    code = "deadlock"


class CancelledError(TenureError):
    """The wait was cancelled by its own ``Cancel``."""

    code = "cancelled"


class OnceFailedError(CancelledError):
    """The function of ``once`` failed in the call that this one waited for. Its code is ``cancelled`` as well."""

    def __init__(self, message: str = "", *, exit_code: int = 1, **fields: Any) -> None:
        super().__init__(message, **fields)
        #: 1, or the exit code of a command that failed.
        self.exit_code = exit_code


class ConflictError(TenureError):
    """The condition of the call does not hold (the version differs). Read again and decide."""

    code = "conflict"


class FencedError(TenureError):
    """The fence is not the current hold's. Stop: another holder has taken over."""

    code = "fenced"


class LeaseLostError(TenureError):
    """The lease has expired or was ended. Acquire it again before writing."""

    code = "lease_lost"


class CompromisedError(TenureError):
    """The lock file was removed or replaced by another process during the hold. Stop and find the cause."""

    code = "compromised"


class DamagedError(TenureError, ValueError):
    """The data cannot be read as what it should be. Nothing was changed; restore or repair it."""

    code = "damaged"


class JournalGapError(DamagedError):
    """Entries of a journal that cannot be read any more. Its code is ``damaged`` as well.

    Reading can go on behind them: ask the same iterator for its next entry.
    """

    def __init__(
        self, message: str = "", *, gap: Optional[tuple[int, int]] = None, **fields: Any
    ) -> None:
        super().__init__(message, **fields)
        #: The first and the last entry that is gone.
        self.first, self.last = gap or (0, 0)


class UnsupportedError(TenureError):
    """The file system, platform or target cannot give the guarantee. Move the target."""

    code = "unsupported"


class NewerFormatError(TenureError):
    """Written by a newer version of tenure. Upgrade; nothing was changed."""

    code = "newer_format"


class NotDurableError(TenureError, OSError):
    """The change is visible but may not survive a power loss. Check the disk."""

    code = "not_durable"


class InvalidError(TenureError, ValueError):
    """The input is wrong. Fix the argument; nothing was changed."""

    code = "invalid"


class ArgumentError(InvalidError, TypeError):
    """An argument of a wrong type, or an unknown one. Its code is ``invalid`` as well."""


class NotFoundError(TenureError, FileNotFoundError):
    """The thing does not exist."""

    code = "not_found"


class IoError(TenureError, OSError):
    """The operating system refused; ``errno`` tells why."""

    code = "io"


class AccessError(IoError, PermissionError):
    """The operating system refused for want of permission. Its code is ``io`` as well."""


_CLASSES = {
    kind.code: kind
    for kind in (
        BusyError,
        DeadlockError,
        CancelledError,
        ConflictError,
        FencedError,
        LeaseLostError,
        CompromisedError,
        DamagedError,
        UnsupportedError,
        NewerFormatError,
        NotDurableError,
        InvalidError,
        NotFoundError,
        IoError,
    )
}
_NO_PERMISSION = (1, 13)  # EPERM and EACCES, without the cost of importing `errno`.


def argument_error(action: str, message: str) -> ArgumentError:
    """The exception for an argument of a wrong type. Called by the native module."""
    return ArgumentError(message, action=action)


def exception(code: str, message: str, **fields: Any) -> TenureError:
    """The exception for a code. Called by the native module."""
    kind: type[TenureError] = _CLASSES.get(code, TenureError)
    if kind is IoError and fields.get("errno") in _NO_PERMISSION:
        kind = AccessError
    if "gap" in fields:
        kind = JournalGapError
    return kind(message, **fields)

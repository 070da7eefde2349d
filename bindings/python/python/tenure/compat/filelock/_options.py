"""The options of a lock: their checks, and the classes that take only some of them."""

from __future__ import annotations

import inspect
import math
import numbers
import stat
import threading
import warnings
import weakref
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Optional, TypedDict

if TYPE_CHECKING:
    from ._lock import BaseFileLock

__all__ = ["CloseErrorPolicy", "ContextErrorPolicy", "LockOptions", "UNSET_MODE"]

#: What becomes of a failure in the block if the release fails as well.
ContextErrorPolicy = Literal["chain", "group"]
#: What becomes of a failure to close the lock file.
CloseErrorPolicy = Literal["default", "raise", "suppress"]

#: No mode was given: the umask decides.
UNSET_MODE = -1


class LockOptions(TypedDict, total=False):
    """The options of every lock."""

    timeout: float
    mode: int
    thread_local: bool
    blocking: bool
    is_singleton: bool
    poll_interval: float
    lifetime: Optional[float]
    context_error_policy: ContextErrorPolicy
    close_error_policy: CloseErrorPolicy
    fallback_to_soft: bool
    preserve_lock_file: bool
    on_acquired: Optional[Callable[[int], None]]


#: Their defaults.
DEFAULTS: dict[str, Any] = {
    "timeout": -1,
    "mode": UNSET_MODE,
    "thread_local": True,
    "blocking": True,
    "is_singleton": False,
    "poll_interval": 0.05,
    "lifetime": None,
    "context_error_policy": "chain",
    "close_error_policy": "default",
    "fallback_to_soft": True,
    "preserve_lock_file": False,
    "on_acquired": None,
}
#: Those that may be given by position, behind the path.
POSITIONS = ("timeout", "mode", "thread_local")


def seconds(name: str, value: Any) -> float:
    """A number of seconds, of any numeric type but ``bool``."""
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if isinstance(value, Decimal) and value.is_nan():
        return math.nan
    try:
        made = float(value)
    except OverflowError:
        message = f"{name} is too large to be a number of seconds: {value!r}"
        raise ValueError(message) from None
    # A negative number that is too small for a float is still a negative number.
    return -5e-324 if made == 0 and value < 0 else made


def timeout_of_call(value: Any, blocking: bool) -> float:
    """The timeout of one call: below zero, for ever."""
    timeout = seconds("timeout", value)
    if math.isnan(timeout) and blocking:
        raise ValueError("timeout must be a number of seconds, not nan")
    return -1.0 if timeout == math.inf else timeout


def check_blocking(value: Any) -> None:
    """A truthy text would be taken for a wait."""
    if not isinstance(value, bool):
        raise TypeError(f"blocking must be a bool, not {type(value).__name__}")


def poll_interval_of(value: Any) -> float:
    """The time between two questions to ``cancel_check``."""
    interval = seconds("poll_interval", value)
    if interval < 0 or not math.isfinite(interval):
        raise ValueError(f"poll_interval must be finite and non-negative, not {interval!r}")
    if interval > threading.TIMEOUT_MAX:
        bound = f"threading.TIMEOUT_MAX ({threading.TIMEOUT_MAX})"
        raise ValueError(f"poll_interval must not exceed {bound}, got {interval!r}")
    return interval


def lifetime_of(value: Any, kind: type, stacklevel: int) -> None:
    """Always none: a lock that expires has two holders. A lifetime is checked, then ignored with a warning."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        value = seconds("lifetime", value)
    if value < 0 or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"lifetime must be finite and non-negative, not {value!r}")
    why = "a kernel lock does not expire, and ends with its holder; use tenure.Lease for one that expires"
    warnings.warn(f"lifetime is ignored for {kind.__name__}: {why}", stacklevel=stacklevel)


def check_mode(mode: Any, kind: type[BaseFileLock]) -> None:
    """The bits of a mode that lets the owner open the file again."""
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise TypeError(f"mode must be an int, not {type(mode).__name__}")
    if mode == UNSET_MODE:
        return
    if not 0 <= mode <= 0o777:
        raise ValueError(f"mode={mode:#o} must be within 0o000-0o777 for {kind.__name__}")
    if ~mode & (stat.S_IRUSR | stat.S_IWUSR):
        raise ValueError(f"mode={mode:#o} must grant the owner read and write for {kind.__name__}")


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        *first, last = map(repr, choices)
        comma = "," if len(first) > 1 else ""
        raise ValueError(f"{name} must be {', '.join(first)}{comma} or {last}, got {value!r}")


def checked(kind: type[BaseFileLock], given: dict[str, Any], stacklevel: int) -> dict[str, Any]:
    """All options of a new lock, checked."""
    options = {**DEFAULTS, **given}
    lifetime_of(options["lifetime"], kind, stacklevel + 1)
    options["lifetime"] = None
    options["poll_interval"] = poll_interval_of(options["poll_interval"])
    check_blocking(options["blocking"])
    options["timeout"] = seconds("timeout", options["timeout"])
    check_mode(options["mode"], kind)
    _check_choice("context_error_policy", options["context_error_policy"], ("chain", "group"))
    _check_choice("close_error_policy", options["close_error_policy"], ("default", "raise", "suppress"))
    if options["preserve_lock_file"] and not kind._keeps_file:
        why = "unlinking its marker is how it releases"
        raise ValueError(f"preserve_lock_file=True is not supported by {kind.__name__}: {why}")
    if options["on_acquired"] is not None and not kind._lends_descriptor:
        why = "only native locks expose the lock descriptor"
        raise ValueError(f"on_acquired is not supported by {kind.__name__}: {why}")
    return options


#: The names that a class takes; none if it takes all.
_taken: weakref.WeakKeyDictionary[type[BaseFileLock], Optional[frozenset[str]]] = (
    weakref.WeakKeyDictionary()
)


def for_class(
    kind: type[BaseFileLock], options: dict[str, Any], defaults: dict[str, Any]
) -> dict[str, Any]:
    """What the ``__init__`` of a subclass is called with: one that takes fewer options gets no defaults."""
    if kind not in _taken:
        parameters = inspect.signature(kind.__init__).parameters.values()
        every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        _taken[kind] = None if every else frozenset(one.name for one in parameters if one.kind in named)
    names = _taken[kind]
    if names is None:
        return options
    missing = object()
    unknown = sorted(
        name
        for name, value in options.items()
        if name not in names and value != defaults.get(name, missing)
    )
    if unknown:
        message = f"{kind.__name__} does not support non-default lock options: {', '.join(unknown)}"
        raise TypeError(message)
    return {name: value for name, value in options.items() if name in names}

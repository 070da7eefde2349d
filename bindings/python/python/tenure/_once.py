"""An action that one caller does for many."""

from __future__ import annotations

from . import _tenure
from ._errors import ArgumentError, OnceFailedError, TenureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Optional, TypeVar

    from typing_extensions import Unpack

    from . import types

    _T = TypeVar("_T")


def once(
    target: types.Path,
    function: Callable[[], _T],
    *,
    ttl: types.Duration,
    numbers: _tenure._Numbers = "exact",
    store: _tenure._Store = None,
    **options: Unpack[types.OnceOptions],
) -> _T:
    """Calls ``function`` in one of many processes; the others wait, and get its result while it is fresh.

    The result is JSON, of at most 1 MiB, and fresh for ``ttl``. What the function raises is raised to its own
    caller; callers that wait at that moment get ``OnceFailedError``. A process that dies in its turn hands over to
    the next.
    """
    check(function)
    action = _tenure._Once(target, ttl=ttl, numbers=numbers, store=store)
    turn, value = answer(action, action.ask(**options))
    if turn is None:
        return value  # type: ignore[no-any-return]
    try:
        text, value = turn.render(function())
    except BaseException as error:
        failed(turn, error)
        raise
    store_result(turn, text)
    return value  # type: ignore[no-any-return]


def check(function: Any) -> None:
    """Found out before anything is locked."""
    if not callable(function):
        message = f"failed to read function: it must be a function, not {function!r}"
        raise ArgumentError(message, action="read function")


def answer(action: _tenure._Once, asked: _tenure._Asked) -> tuple[Optional[_tenure._Turn], Any]:
    """The turn, or the result."""
    value, code, turn = asked
    if code is None:
        return turn, value
    hint = "ask again, and it is run again"
    message = f"failed to run once for `{action.path}`: it failed in the call that this one waited for; {hint}"
    raise OnceFailedError(message, exit_code=code, action="run once for", path=action.path, hint=hint)


def failed(turn: _tenure._Turn, error: BaseException) -> None:
    """Ends the turn. A caller that was interrupted has not failed: the next one tries."""
    try:
        if isinstance(error, Exception):
            turn.fail()
        else:
            turn.release()
    except TenureError as trouble:
        warn(trouble)


def store_result(turn: _tenure._Turn, text: str) -> None:
    """The function did its work: that its result cannot be stored is no failure of it."""
    try:
        turn.succeed(text)
    except TenureError as trouble:
        warn(trouble)


def warn(trouble: TenureError) -> None:
    """Reports what keeps the others from the outcome."""
    import warnings

    warnings.warn(str(trouble), RuntimeWarning, stacklevel=4)


__all__ = ["once"]

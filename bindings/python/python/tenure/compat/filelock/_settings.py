"""What a lock is: its settings, which are those of the thread or of the object, and its hold."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _options
from ._options import CloseErrorPolicy, ContextErrorPolicy

if TYPE_CHECKING:
    from ._hold import Context

__all__ = ["Settings"]


class Settings(contextlib.ContextDecorator):
    """The properties of every lock."""

    _is_thread_local: bool
    _is_singleton: bool
    _context_error_policy: ContextErrorPolicy
    _close_error_policy: CloseErrorPolicy
    _fallback_to_soft: bool
    _preserve_lock_file: bool
    _on_acquired: Optional[Callable[[int], None]]

    @property
    def _context(self) -> Context:
        raise NotImplementedError

    def is_thread_local(self) -> bool:
        """Whether every thread has a hold of its own."""
        return self._is_thread_local

    @property
    def is_singleton(self) -> bool:
        """Whether this object is the only one for its path."""
        return self._is_singleton

    @property
    def context_error_policy(self) -> ContextErrorPolicy:
        """What becomes of a failure in the block if the release fails as well."""
        return self._context_error_policy

    @property
    def close_error_policy(self) -> CloseErrorPolicy:
        """What becomes of a failure to close the lock file."""
        return self._close_error_policy

    @property
    def fallback_to_soft(self) -> bool:
        """Kept for callers: there is no other lock to fall back to."""
        return self._fallback_to_soft

    @property
    def preserve_lock_file(self) -> bool:
        """Whether the file was asked to stay."""
        return self._preserve_lock_file

    @property
    def on_acquired(self) -> Optional[Callable[[int], None]]:
        """What is called with the descriptor of the lock file when the lock is taken."""
        return self._on_acquired

    @property
    def lock_file(self) -> str:
        """The path of the lock file."""
        return self._context.lock_file

    @property
    def timeout(self) -> float:
        """The default timeout in seconds; below zero, for ever."""
        return self._context.timeout

    @timeout.setter
    def timeout(self, value: Union[float, str]) -> None:
        if isinstance(value, (str, bytes, bytearray)):
            message = "setting timeout from a string is deprecated and will be removed; pass a number"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            value = float(value)
        self._context.timeout = _options.seconds("timeout", value)

    @property
    def blocking(self) -> bool:
        """Whether an acquire waits."""
        return self._context.blocking

    @blocking.setter
    def blocking(self, value: bool) -> None:
        _options.check_blocking(value)
        self._context.blocking = value

    @property
    def poll_interval(self) -> float:
        """How often ``cancel_check`` is asked, in seconds."""
        return self._context.poll_interval

    @poll_interval.setter
    def poll_interval(self, value: float) -> None:
        self._context.poll_interval = _options.poll_interval_of(value)

    @property
    def lifetime(self) -> Optional[float]:
        """Always ``None``: locks do not expire."""
        return self._context.lifetime

    @lifetime.setter
    def lifetime(self, value: Optional[float]) -> None:
        _options.lifetime_of(value, type(self), stacklevel=3)

    @property
    def mode(self) -> int:
        """The mode of a new lock file."""
        mode = self._context.mode
        return 0o644 if mode == _options.UNSET_MODE else mode

    @property
    def has_explicit_mode(self) -> bool:
        """Whether a mode was given."""
        return self._context.mode != _options.UNSET_MODE

    def _changeable(self) -> dict[str, Any]:
        context = self._context
        return {name: getattr(context, name) for name in ("timeout", "blocking", "poll_interval")}

    @property
    def is_locked(self) -> bool:
        """Whether this object (in this thread) holds the lock."""
        return self._context.lock_file_fd is not None

    @property
    def lock_counter(self) -> int:
        """How often it was acquired without being released."""
        return self._context.lock_counter

"""The filelock package's interface on tenure's locks.

The very file is locked as well, as filelock does it, so that both exclude each other. What differs: waiting
is done by the kernel and not by polling, and a forked child never unlocks what its parent holds. There is no
lock by existence: ``SoftFileLock`` is the same kernel lock, which the death of its holder releases. It and a
soft lock of filelock itself do not keep each other out; replace both.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Optional, Union

from .. import _tenure
from .._errors import BusyError, DeadlockError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = [
    "AcquireReturnProxy",
    "AsyncAcquireReturnProxy",
    "AsyncFileLock",
    "AsyncSoftFileLock",
    "AsyncUnixFileLock",
    "BaseFileLock",
    "FileLock",
    "SoftFileLock",
    "Timeout",
    "UnixFileLock",
]

_Path = Union[str, "os.PathLike[str]"]

#: Of our holds, shown to those who wait.
_LABEL = "filelock"
#: Ends the name of the target that the programs below one hold lock among themselves. No such file is made.
_BELOW = ".tenure-below"


class Timeout(TimeoutError):
    """The lock could not be acquired in time."""

    def __init__(self, lock_file: str, holder: Optional[str] = None) -> None:
        super().__init__()
        self._lock_file = lock_file
        self._holder = holder

    def __reduce__(self) -> tuple[Any, ...]:
        return self.__class__, (self._lock_file, self._holder)

    def __str__(self) -> str:
        message = f"The file lock '{self._lock_file}' could not be acquired."
        return message if self._holder is None else f"{message} {self._holder}"

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.lock_file!r})"

    @property
    def lock_file(self) -> str:
        """The path of the file lock."""
        return self._lock_file


class AcquireReturnProxy:
    """What ``acquire`` returns: a context manager that releases, but does not acquire again."""

    def __init__(self, lock: BaseFileLock) -> None:
        self.lock = lock

    def __enter__(self) -> BaseFileLock:
        return self.lock

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.lock.release()


class _Hold:
    """What one thread (or, without ``thread_local``, one object) has."""

    def __init__(self) -> None:
        self.guard: Optional[_tenure.Guard] = None
        self.counter = 0

    def is_ours(self) -> bool:
        # A forked child starts with nothing: the lock is its parent's.
        if self.guard is not None and not self.guard.held:
            self.guard, self.counter = None, 0
        return self.guard is not None


class _ThreadHold(_Hold, threading.local):
    """The same, one per thread."""


class _Singletons(type):
    """With ``is_singleton``, one object per path and class."""

    _instances: weakref.WeakValueDictionary[str, Any]

    def __init__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any]) -> None:
        super().__init__(name, bases, names)
        cls._instances = weakref.WeakValueDictionary()

    def __call__(cls, lock_file: _Path, *arguments: Any, **options: Any) -> Any:
        if not options.get("is_singleton", False):
            return super().__call__(lock_file, *arguments, **options)
        key = os.path.abspath(os.fspath(lock_file))
        known = cls._instances.get(key)
        made = super().__call__(lock_file, *arguments, **options)
        if known is None:
            cls._instances[key] = made
            return made
        if known._settings() != made._settings():
            raise ValueError("a singleton lock was made before with other settings")
        return known


class BaseFileLock(contextlib.ContextDecorator, metaclass=_Singletons):
    """A lock on a file, re-entrant for the object (and its thread) that holds it."""

    _instances: ClassVar[weakref.WeakValueDictionary[str, Any]]

    def __init__(
        self,
        lock_file: _Path,
        timeout: float = -1,
        mode: int = -1,
        thread_local: bool = True,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
        lifetime: Optional[float] = None,
    ) -> None:
        if lifetime is not None:
            raise ValueError("a lock that expires has two holders; use tenure.Lease")
        self._lock_file = os.fspath(lock_file)
        self._thread_local = thread_local
        self._is_singleton = is_singleton
        self._mode = mode
        self._hold: _Hold = _ThreadHold() if thread_local else _Hold()
        self.timeout = timeout
        self.blocking = blocking
        self.poll_interval = poll_interval

    def _settings(self) -> tuple[object, ...]:
        return (self._timeout, self._mode, self._thread_local, self.blocking, self.poll_interval)

    def is_thread_local(self) -> bool:
        """Whether every thread has a hold of its own."""
        return self._thread_local

    @property
    def is_singleton(self) -> bool:
        """Whether this object is the only one for its path."""
        return self._is_singleton

    @property
    def lock_file(self) -> str:
        """The path of the lock file."""
        return self._lock_file

    @property
    def timeout(self) -> float:
        """The default timeout in seconds; below zero, for ever."""
        return self._timeout

    @timeout.setter
    def timeout(self, value: Union[float, str]) -> None:
        self._timeout = float(value)

    @property
    def mode(self) -> int:
        """The mode of a new lock file."""
        return 0o644 if self._mode == -1 else self._mode

    @property
    def has_explicit_mode(self) -> bool:
        """Whether a mode was given."""
        return self._mode != -1

    @property
    def lifetime(self) -> None:
        """Locks do not expire."""
        return None

    @property
    def is_locked(self) -> bool:
        """Whether this object (in this thread) holds the lock."""
        return self._hold.is_ours()

    @property
    def lock_counter(self) -> int:
        """How often it was acquired without being released."""
        return self._hold.counter if self._hold.is_ours() else 0

    def _wait_of(self, timeout: Optional[float], blocking: Optional[bool]) -> Optional[float]:
        """What a timeout means to tenure: seconds, or ``None`` for ever."""
        timeout = self.timeout if timeout is None else timeout
        blocking = self.blocking if blocking is None else blocking
        if not blocking:
            return 0.0
        return None if timeout < 0 else timeout

    def _create(self) -> None:
        """A new lock file gets the mode that filelock would give it, not tenure's 0600."""
        parent = os.path.dirname(self._lock_file)
        if parent:
            os.makedirs(parent, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(self._lock_file, flags, 0o666 if self._mode == -1 else self._mode)
        except FileExistsError:
            return
        try:
            if self._mode != -1:
                os.fchmod(handle, self._mode)
        finally:
            os.close(handle)

    def _failed(self, error: Exception) -> Timeout:
        return Timeout(self._lock_file, str(error))

    def _try(self, wait: Optional[float], **options: Any) -> _tenure.Guard:
        self._create()
        path = self._lock_file
        began = time.monotonic()
        guard = _tenure.lock(path, lock_file=path, wait=wait, label=_LABEL, **options)
        if not guard._nested:
            return guard
        # Below `tenure run` on this very file its other programs have that hold as well. They take turns by a
        # lock of their own, which only they ask for.
        guard.release()
        left = None if wait is None else max(wait - (time.monotonic() - began), 0)
        return _tenure.lock(f"{guard.path}{_BELOW}", wait=left, label=_LABEL, **options)

    def acquire(
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        poll_intervall: Optional[float] = None,
        blocking: Optional[bool] = None,
        cancel_check: Optional[Callable[[], bool]] = None,
    ) -> AcquireReturnProxy:
        """Acquires the lock, or raises :class:`Timeout`. The poll interval is how often
        ``cancel_check`` is asked; the lock itself is not polled for."""
        wait = self._wait_of(timeout, blocking)
        if not self._hold.is_ours():
            piece = poll_intervall if poll_interval is None else poll_interval
            piece = self.poll_interval if piece is None else piece
            try:
                self._hold.guard = self._take(wait, piece, cancel_check)
            except BusyError as error:
                raise self._failed(error) from None
            except DeadlockError as error:
                if wait is None:
                    raise  # A RuntimeError, as filelock's own.
                raise self._failed(error) from None
        self._hold.counter += 1
        return AcquireReturnProxy(self)

    def _take(
        self, wait: Optional[float], piece: float, cancel_check: Optional[Callable[[], bool]]
    ) -> _tenure.Guard:
        if cancel_check is None:
            return self._try(wait)
        end = None if wait is None else time.monotonic() + wait
        while True:
            left = piece if end is None else min(piece, max(end - time.monotonic(), 0))
            try:
                return self._try(left)
            except BusyError:
                over = end is not None and time.monotonic() >= end
                if over or cancel_check():
                    raise

    def release(self, force: bool = False) -> None:
        """Releases the lock once it was released as often as it was acquired, or at once."""
        guard = self._let_go(force)
        if guard is not None:
            guard.release()

    def _let_go(self, force: bool) -> Optional[_tenure.Guard]:
        """Counts one release; the guard, if it was the last."""
        hold = self._hold
        if not hold.is_ours():
            return None
        hold.counter -= 1
        if hold.counter > 0 and not force:
            return None
        guard, hold.guard, hold.counter = hold.guard, None, 0
        return guard

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()

    def __del__(self) -> None:
        # An object whose making failed has no hold.
        if "_hold" in self.__dict__:
            with contextlib.suppress(Exception):
                self.release(force=True)


class UnixFileLock(BaseFileLock):
    """A lock on the file itself."""


class SoftFileLock(BaseFileLock):
    """The same lock. One whose sign is that a file exists cannot survive a crash."""


FileLock = UnixFileLock


class AsyncAcquireReturnProxy:
    """What ``await acquire()`` returns."""

    def __init__(self, lock: AsyncFileLock) -> None:
        self.lock = lock

    async def __aenter__(self) -> AsyncFileLock:
        return self.lock

    async def __aexit__(self, *raised: object) -> None:
        await self.lock.release()


class AsyncFileLock(BaseFileLock):
    """The lock for asyncio: waiting blocks no event loop. All tasks of its object share the hold."""

    def __init__(
        self,
        lock_file: _Path,
        timeout: float = -1,
        mode: int = -1,
        thread_local: bool = False,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
        lifetime: Optional[float] = None,
        loop: object = None,
        run_in_executor: bool = True,
        executor: object = None,
    ) -> None:
        if thread_local and run_in_executor:
            raise ValueError("run_in_executor is not supported when thread_local is True")
        super().__init__(
            lock_file,
            timeout,
            mode,
            thread_local,
            blocking=blocking,
            is_singleton=is_singleton,
            poll_interval=poll_interval,
            lifetime=lifetime,
        )

    async def acquire(  # type: ignore[override]
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        blocking: Optional[bool] = None,
        cancel_check: Optional[Callable[[], bool]] = None,
    ) -> AsyncAcquireReturnProxy:
        """Acquires the lock, or raises :class:`Timeout`."""
        from .._waiting import in_thread

        wait = self._wait_of(timeout, blocking)
        piece = self.poll_interval if poll_interval is None else poll_interval
        if not self._hold.is_ours():

            def take(cancel: _tenure.Cancel) -> _tenure.Guard:
                def asked() -> bool:
                    return cancel.cancelled or (cancel_check is not None and cancel_check())

                if cancel_check is None:
                    return self._try(wait, cancel=cancel)
                return self._take(wait, piece, asked)

            token = _tenure.Cancel._on_behalf()
            try:
                # Nobody has it, most of the time: then no thread is needed.
                self._create()
                path = self._lock_file
                guard = _tenure._lock_now(path, lock_file=path, label=_LABEL)
                if guard is None:
                    guard = await in_thread(take, undo=_tenure.Guard.release, cancel=token)
            except BusyError as error:
                raise self._failed(error) from None
            self._hold.guard = guard
        self._hold.counter += 1
        return AsyncAcquireReturnProxy(self)

    async def release(self, force: bool = False) -> None:  # type: ignore[override]
        """Releases the lock once it was released as often as it was acquired, or at once."""
        from .._waiting import in_thread

        # Here, not there: a hold may belong to this thread.
        guard = self._let_go(force)
        if guard is None:
            return
        if guard._ends_now:
            guard.release()
        else:
            await in_thread(lambda _: guard.release())

    def __enter__(self) -> Self:
        raise NotImplementedError("Do not use `with` for asyncio locks, use `async with` instead.")

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.release()

    def __del__(self) -> None:
        if "_hold" in self.__dict__:
            with contextlib.suppress(Exception):
                BaseFileLock.release(self, force=True)


AsyncUnixFileLock = AsyncFileLock
AsyncSoftFileLock = AsyncFileLock

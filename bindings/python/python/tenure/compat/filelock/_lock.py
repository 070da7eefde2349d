"""The locks that block a thread.

1. A lock is tenure's lock of the path, and the lock of the very file, as filelock takes it: both exclude each other.
2. Waiting is done by the kernel. Only a class that has its own ``_acquire`` is polled.
3. A release raises nothing that filelock's does not: a lock file that was removed is no reason.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import os
import socket
import sys
import threading
import time
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Optional, TypeVar, Union

from ... import _tenure
from ..._errors import BusyError, CompromisedError, DeadlockError, NotFoundError, TenureError
from . import _options
from ._error import Timeout, as_os_error, raise_both
from ._hold import (
    Asked,
    Context,
    ThreadContexts,
    Transition,
    end_guard,
    held_at_exit,
    log,
)
from ._meta import FileLockMeta
from ._options import CloseErrorPolicy, ContextErrorPolicy
from ._settings import Settings

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from typing_extensions import Self

__all__ = [
    "AcquireReturnProxy",
    "BaseFileLock",
    "SoftFileLock",
    "UnixFileLock",
    "WindowsFileLock",
]

_Path = Union[str, "os.PathLike[str]"]

#: Of our holds, shown to those who wait.
_LABEL = "filelock"
#: Ends the name of the target that the programs below one hold lock among themselves. No such file is made.
_BELOW = ".tenure-below"
#: How often a lock file may be removed or replaced while one attempt is made.
_REPLACED_MAX = 20
#: Seconds of a wait that is none.
_A_MOMENT = 1e-6


class BaseFileLock(Settings, metaclass=FileLockMeta):
    """A lock on a file, re-entrant for the object (and its thread) that holds it.

    A class of your own has ``_acquire``, which tries once and sets ``self._context.lock_file_fd`` if it has the lock,
    and ``_release``, which sets it to ``None``.
    """

    _instances: ClassVar[weakref.WeakValueDictionary[str, Any]]
    #: Whether the file stays when the lock is released.
    _keeps_file = True
    #: Whether ``on_acquired`` gets the descriptor.
    _lends_descriptor = True

    def __init__(
        self,
        lock_file: _Path,
        timeout: float = -1,
        mode: int = _options.UNSET_MODE,
        thread_local: bool = True,
        *,
        blocking: bool = True,
        is_singleton: bool = False,
        poll_interval: float = 0.05,
        lifetime: Optional[float] = None,
        context_error_policy: ContextErrorPolicy = "chain",
        close_error_policy: CloseErrorPolicy = "default",
        fallback_to_soft: bool = True,
        preserve_lock_file: bool = False,
        on_acquired: Optional[Callable[[int], None]] = None,
    ) -> None:
        settings = {
            "lock_file": os.fspath(lock_file),
            "timeout": timeout,
            "mode": mode,
            "blocking": blocking,
            "poll_interval": poll_interval,
            "lifetime": lifetime,
        }
        self._is_thread_local = thread_local
        self._is_singleton = is_singleton
        self._context_error_policy = context_error_policy
        self._close_error_policy = close_error_policy
        self._fallback_to_soft = fallback_to_soft
        self._preserve_lock_file = preserve_lock_file
        self._on_acquired = on_acquired
        self._settings = settings
        #: What a singleton was made with.
        self._named: dict[str, Any] = {}
        self._start()

    def _start(self) -> None:
        """Holds nothing, in this process."""
        self._pid = os.getpid()
        self._mutex = threading.RLock()
        settings: Any = self._settings
        self._contexts: Union[ThreadContexts, None] = (
            ThreadContexts(settings) if self._is_thread_local else None
        )
        self._shared = None if self._is_thread_local else Context(**settings)
        #: The holds of threads, which outlive them: a thread that ends does not release.
        self._holds: dict[int, tuple[Context, threading.Thread]] = {}

    @property
    def _context(self) -> Context:
        """The hold of this thread, or of this object."""
        if self._pid != os.getpid():
            # A forked child starts with nothing: the lock is its parent's.
            settings = self._context_of_parent()
            self._start()
            for name in ("timeout", "blocking", "poll_interval"):
                setattr(self._current(), name, getattr(settings, name))
        return self._current()

    def _current(self) -> Context:
        if self._contexts is not None:
            return self._contexts.current
        assert self._shared is not None
        return self._shared

    _context_of_parent = _current

    @property
    def _path(self) -> str:
        """The lock file, whatever the directory is by now."""
        context = self._context
        return context.path or context.lock_file

    # Acquiring.

    def acquire(
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        poll_intervall: Optional[float] = None,
        blocking: Optional[bool] = None,
        cancel_check: Optional[Callable[[], bool]] = None,
    ) -> AcquireReturnProxy[Self]:
        """Acquires the lock, or raises :class:`Timeout`. The poll interval is how often
        ``cancel_check`` is asked; the lock itself is not polled for."""
        if poll_intervall is not None:
            message = "use poll_interval instead of poll_intervall"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            poll_interval = poll_intervall
        context = self._context
        asked = Asked(context, timeout, poll_interval, blocking, cancel_check)
        frame = sys._getframe()
        try:
            while True:
                state = self._begin(context, frame)
                if isinstance(state, Other):
                    self._wait_for(state, asked)
                    continue
                if state is not None:
                    self._take(context, asked)
                return AcquireReturnProxy(self)
        finally:
            self._end(context, frame)
            del frame  # It refers to itself.

    def _begin(
        self, context: Context, frame: Optional[FrameType] = None
    ) -> Union[Transition, None, Other]:
        """Joins the hold (``None``), or is the one that takes the lock, or waits for the one that does."""
        with self._mutex:
            self._mend(context)
            there = context.transition
            if there is None or (not there.releases and there.thread == threading.get_ident()):
                if context.lock_file_fd is not None:
                    context.lock_counter += 1
                    return None
            if there is None:
                context.transition = Transition(frame)
                return context.transition
        return Other(there)

    def _mend(self, context: Context) -> None:
        """What a signal handler has cut short is over."""
        there = context.transition
        if there is not None and there.was_cut_short():
            context.transition = None
            there.end()

    def _end(self, context: Context, frame: FrameType) -> None:
        """The change that this call has begun, if it has begun one, is over."""
        with self._mutex:
            mine = context.transition
            if mine is None or mine.frame is not frame:
                return
            context.transition = None
        mine.end()

    def _wait_for(self, other: Other, asked: Asked) -> None:
        """Waits for another thread that takes or releases the lock for this object."""
        change = other.change
        if change.thread == threading.get_ident():
            # A signal handler, above the call that it has interrupted.
            what = "release of it runs" if change.releases else "acquire of it waits"
            start = "" if change.releases else "Deadlock: "
            message = f"{start}lock '{self.lock_file}' is acquired again while this thread's {what}"
            raise RuntimeError(message)
        while not _is_over(change, asked.piece()):
            self._check_end(asked)

    def _check_end(self, asked: Asked) -> None:
        why = asked.gives_up()
        if why is not None:
            log.debug(why, id(self), self.lock_file)
            raise Timeout._of(self.lock_file, asked.busy)

    def _take(self, context: Context, asked: Asked) -> None:
        context.path = _absolute(context.lock_file)
        try:
            _make_parent(context.path)
            attempt = self._attempt if self._waits_in_kernel() else self._attempt_own
            # One who waits for ever should be told at once that it waits for itself.
            wait: Optional[float] = _A_MOMENT if asked.for_ever else 0.0
            while True:
                log.debug("Attempting to acquire lock %s on %s", id(self), self.lock_file)
                attempt(context, asked, wait)
                if context.lock_file_fd is not None:
                    break
                self._check_end(asked)
                wait = asked.piece()
            log.debug("Lock %s acquired on %s", id(self), self.lock_file)
            context.lock_counter += 1
            self._remember(context)
        except BaseException as error:
            if context.lock_file_fd is not None:
                self._undo(context, error)
            self._forget(context)
            raise
        self._call_hook(context)

    def _waits_in_kernel(self) -> bool:
        """Whether the lock is our own, and no method of a subclass."""
        return getattr(self._acquire, "__func__", None) is _kernel_acquire

    def _attempt_own(self, context: Context, asked: Asked, wait: Optional[float]) -> None:
        """One try of a class that has its own lock; what it does not wait is waited before."""
        if wait is None or wait > _A_MOMENT:
            pause = asked.pause()
            message = "Lock %s not acquired on %s, waiting %s seconds ..."
            log.debug(message, id(self), self.lock_file, pause)
            time.sleep(pause)
        self._acquire()

    def _attempt(self, context: Context, asked: Asked, wait: Optional[float]) -> None:
        """One try of the kernel's lock, which waits."""
        if wait is None or wait > _A_MOMENT:
            message = "Lock %s not acquired on %s, waiting %s seconds ..."
            log.debug(message, id(self), self.lock_file, wait)
        try:
            self._take_guard(context, wait)
        except BusyError as error:
            asked.busy = error
        except DeadlockError as error:
            # This thread has it by another object. With a timeout another thread may release that in time.
            if asked.for_ever:
                raise self._deadlock() from error
            if wait != 0:
                time.sleep(asked.pause())
        except BlockingIOError:
            # The kernel is asking the holder of a file lease to give it up.
            if wait != 0:
                time.sleep(asked.pause())

    def _deadlock(self, holder: str = "FileLock instance in this thread") -> RuntimeError:
        return RuntimeError(
            f"Deadlock: lock '{self.lock_file}' is already held by a different {holder}. "
            "Use is_singleton=True to enable reentrant locking across instances."
        )

    def _take_guard(
        self, context: Context, wait: Optional[float], now: bool = False, **options: Any
    ) -> None:
        """Opens the file and locks it. A file that is removed or replaced meanwhile is opened again."""
        path = context.path or _absolute(context.lock_file)
        for _ in range(_REPLACED_MAX):
            opened = self._open(path, context.mode)
            if opened is None:
                continue
            fd, created = opened
            guard: Optional[_tenure.Guard] = None
            kept = False
            try:
                guard = _lock_now(path, options) if now else _lock(path, wait, options)
                # Of a file that was removed meanwhile others have another one by now.
                if guard is not None and os.fstat(fd).st_nlink > 0:
                    context.guard, context.created = guard, created or context.created
                    context.removes = not self._keeps_file
                    context.lock_file_fd = fd
                    kept = True
                    return
                context.created = guard is None and created  # It comes again, on another thread.
                if guard is None:
                    return
            except (CompromisedError, NotFoundError):
                continue  # Replaced or removed between the open and the lock.
            except (BusyError, DeadlockError):
                context.created = False
                raise
            except TenureError as error:
                raise as_os_error(error, path) from error
            finally:
                if not kept:
                    os.close(fd)
                    if guard is not None:
                        end_guard(guard)

    def _open(self, path: str, mode: int) -> Optional[tuple[int, bool]]:
        """The lock file, and whether it is new; ``None`` if it went away meanwhile."""
        # Not through a symlink, and without waiting for the kernel lease of another process.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags), False
        except FileNotFoundError:
            pass
        new = 0o666 if mode == _options.UNSET_MODE else mode
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, new)
        except FileExistsError:
            return None
        if mode != _options.UNSET_MODE:
            # The mode that was asked for, not what the umask leaves of it.
            try:
                with contextlib.suppress(PermissionError):
                    os.fchmod(fd, mode)
            except BaseException:
                os.close(fd)
                raise
        return fd, True

    def _remember(self, context: Context) -> None:
        if self._is_thread_local:
            self._holds[id(context)] = (context, threading.current_thread())

    def _call_hook(self, context: Context) -> None:
        if self._on_acquired is None or context.lock_file_fd is None:
            return
        try:
            self._on_acquired(context.lock_file_fd)
        except BaseException as error:
            self._undo(context, error)
            raise

    def _undo(self, context: Context, error: BaseException) -> None:
        """The lock goes back, since ``on_acquired`` has failed."""
        try:
            self._release()
        except BaseException as release:
            raise_both(error, release)
        finally:
            if context.lock_file_fd is None:
                self._forget(context)

    @abstractmethod
    def _acquire(self) -> None:
        """Tries once to take the lock."""
        raise NotImplementedError

    # Releasing.

    def release(self, force: bool = False) -> None:
        """Releases the lock once it was released as often as it was acquired, or at once.

        With ``force`` the holds of threads that have ended are released as well.
        """
        counted: list[bool] = []
        try:
            self._release_hold(self._context, force, counted)
        except BaseException as error:
            # A signal handler that raised has come before anything was done.
            if not counted and not _is_refused(error):
                with contextlib.suppress(Exception):
                    self._release_hold(self._context, force, counted)
            raise
        if force and self._is_thread_local:
            self._release_threads(ended_only=True)

    def _release_hold(self, context: Context, force: bool, counted: list[bool]) -> None:
        frame = sys._getframe()
        counter = context.lock_counter
        try:
            mine = self._begin_release(context, force, frame)
            counted.append(True)
            if mine is not None:
                log.debug("Attempting to release lock %s on %s", id(self), self.lock_file)
                self._release()
                log.debug("Lock %s released on %s", id(self), self.lock_file)
        except BaseException as error:
            # A signal handler that raised has come between. What the system refuses can be tried again by the caller.
            cut_short = counter == context.lock_counter and not _is_refused(error)
            if counted and cut_short and context.lock_file_fd is not None:
                with contextlib.suppress(Exception):
                    self._release_once_more(context, force)
            raise
        finally:
            # If it is still held, a later release can try again.
            if context.lock_file_fd is None:
                self._forget(context)
            self._end(context, frame)
            del frame  # It refers to itself.

    def _release_once_more(self, context: Context, force: bool) -> None:
        if force or context.lock_counter <= 1:
            self._release()
        else:
            context.lock_counter -= 1

    def _begin_release(
        self, context: Context, force: bool, frame: FrameType
    ) -> Optional[Transition]:
        """Counts one release. If it was the last one, the caller ends the hold."""
        while True:
            with self._mutex:
                self._mend(context)
                if context.lock_file_fd is None:
                    return None
                there = context.transition
                inside = there is not None and there.thread == threading.get_ident()
                if there is None or (inside and not there.releases):
                    if not force and context.lock_counter > 1:
                        context.lock_counter -= 1
                        return None
                    if there is None:
                        context.transition = Transition(frame, releases=True)
                        return context.transition
                if inside:
                    return None  # A signal handler, above the release or acquire that it has interrupted.
            assert there is not None
            _is_over(there, None)

    def _forget(self, context: Context) -> None:
        context.leave_task()
        context.lock_counter, context.path, context.created = 0, None, False
        self._holds.pop(id(context), None)

    def _release_threads(self, ended_only: bool) -> None:
        """Releases what threads hold through this object."""
        assert self._contexts is not None
        for context, thread in list(self._holds.values()):
            if ended_only and thread.is_alive():
                continue
            own, self._contexts.current = self._contexts.current, context
            try:
                self._release_hold(context, True, [])
            finally:
                self._contexts.current = own

    @abstractmethod
    def _release(self) -> None:
        """Ends the hold."""
        raise NotImplementedError

    def _release_after(self, failure: Optional[BaseException]) -> None:
        """Releases at the end of a block that may have failed."""
        try:
            self.release()
        except BaseException as error:
            if failure is None or self._context_error_policy == "chain":
                raise
            raise_both(failure, error)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self._release_after(exc_value)

    def __del__(self) -> None:
        # An object whose making failed has no hold; what a child has inherited is its parent's.
        if self.__dict__.get("_pid") != os.getpid() or "_holds" not in self.__dict__:
            return
        with contextlib.suppress(Exception):
            # Another thread may be given a singleton at this very moment. If it is not, its holds end with it.
            if not self._is_singleton or not self._waits_in_kernel():
                self._release_all()

    def _release_all(self) -> None:
        BaseFileLock.release(self, force=True)
        if self._is_thread_local:
            self._release_threads(ended_only=False)


class Other:
    """Another caller that takes or releases the lock of the same object."""

    def __init__(self, change: Transition) -> None:
        self.change = change


def _is_refused(error: BaseException) -> bool:
    """Whether a system call has failed. A signal handler may raise a ``TimeoutError`` that has no number."""
    return isinstance(error, OSError) and error.errno is not None


def _is_over(change: Transition, seconds: Optional[float]) -> bool:
    """Waits for the end of a change, for so long."""
    patience = None if seconds is None else min(seconds, threading.TIMEOUT_MAX)
    return bool(concurrent.futures.wait([change.over], patience).done)


def _absolute(path: str) -> str:
    # An empty path names no file, and its error should say so.
    return os.path.abspath(path) if path and not path.endswith(os.sep) else path


def _make_parent(path: str) -> None:
    parent = os.path.dirname(path)
    if parent:
        os.makedirs(parent, exist_ok=True)


def _lock(path: str, wait: Optional[float], options: dict[str, Any]) -> _tenure.Guard:
    began = time.monotonic()
    guard = _tenure.lock(path, lock_file=path, wait=wait, label=_LABEL, **options)
    if not guard._nested:
        return guard
    # Below `tenure run` on this very file its other programs have that hold as well. They take turns by a
    # lock of their own, which only they ask for.
    guard.release()
    left = None if wait is None else max(wait - (time.monotonic() - began), 0)
    return _tenure.lock(f"{guard.path}{_BELOW}", wait=left, label=_LABEL, **options)


def _lock_now(path: str, options: dict[str, Any]) -> Optional[_tenure.Guard]:
    return _tenure._lock_now(path, lock_file=path, label=_LABEL, **options)


class KernelLock(BaseFileLock):
    """The lock that the kernel keeps, on tenure's file and on the file itself."""

    def _acquire(self) -> None:
        with contextlib.suppress(BusyError, DeadlockError):
            self._take_guard(self._context, 0.0)

    def _release(self) -> None:
        context = self._context
        try:
            context.end()
        except OSError:
            if self._close_error_policy == "raise":
                raise


_kernel_acquire = KernelLock._acquire


class UnixFileLock(KernelLock):
    """A lock on the file itself."""


class SoftFileLock(KernelLock):
    """The same lock, whose file is there while it is held. The file alone locks no one out: it cannot survive a crash."""

    _keeps_file = False
    _lends_descriptor = False

    @property
    def pid(self) -> Optional[int]:
        """The process that holds the lock, or ``None``."""
        try:
            holder = _tenure.status(_absolute(self._path))["holder"]
        except TenureError:
            return None
        return None if holder is None else holder["pid"]

    @property
    def is_lock_held_by_us(self) -> bool:
        """Whether this process holds the lock, by this object or another one."""
        return self.pid == os.getpid()

    def break_lock(self) -> NoReturn:
        """Not possible: the kernel's lock is its holder's, and ends with it."""
        raise OSError(errno.ENOTSUP, "a kernel lock cannot be broken; end its holder", self.lock_file)

    def _remember(self, context: Context) -> None:
        super()._remember(context)
        held_at_exit.add(context)
        if context.created and context.lock_file_fd is not None:
            # As filelock writes it, for those who look into the file.
            with contextlib.suppress(OSError):
                os.pwrite(context.lock_file_fd, f"{os.getpid()}\n{socket.gethostname()}\n".encode(), 0)


class WindowsFileLock(BaseFileLock):
    """Only there to be named: this package has no locks for Windows."""

    def _acquire(self) -> None:
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError


_Lock = TypeVar("_Lock", bound=BaseFileLock)


class AcquireReturnProxy(Generic[_Lock]):
    """What ``acquire`` returns: a context manager that releases, but does not acquire again."""

    def __init__(self, lock: _Lock) -> None:
        self.lock = lock

    def __enter__(self) -> _Lock:
        return self.lock

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.lock._release_after(exc_value)

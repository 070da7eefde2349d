"""What an object has of its lock, one per thread or one for all, and who is about to change it.

1. One thread or task at a time takes or releases the lock of a hold: the others wait for it, and then join the
   hold or try themselves. So two that ask for one object at once are one holder, counted twice.
2. Nothing here waits for the lock itself.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Optional

from ..._errors import CompromisedError, TenureError
from . import _options

if TYPE_CHECKING:
    from types import FrameType

    from ..._errors import BusyError
    from ..._tenure import Guard

__all__ = ["Asked", "Context", "ThreadContexts", "Transition", "end_guard", "log"]

log = logging.getLogger("filelock")
#: The files that tasks hold, by another object: a task that waits for itself waits for ever.
held_by_tasks: dict[tuple[object, str], int] = {}


class Transition:
    """A change of a hold that is under way."""

    def __init__(self, frame: Optional[FrameType] = None, releases: bool = False) -> None:
        self.thread = threading.get_ident()
        #: The call that makes the change, if it is not a coroutine.
        self.frame = frame
        self.releases = releases
        #: Ends with the change. Others wait for it, in threads and in event loops.
        self.over: concurrent.futures.Future[None] = concurrent.futures.Future()

    def was_cut_short(self) -> bool:
        """Whether it is this thread's, and a signal handler that raised has ended it at a bad moment."""
        if self.frame is None or self.thread != threading.get_ident():
            return False
        frame: Optional[FrameType] = sys._getframe()
        while frame is not None and frame is not self.frame:
            frame = frame.f_back
        return frame is None

    def end(self) -> None:
        """Lets the others go on."""
        self.frame = None
        if not self.over.done():
            self.over.set_result(None)


def end_guard(guard: Guard) -> None:
    """Ends a hold. The kernel's lock is gone in any case; what tenure has to say is for the log."""
    try:
        guard.release()
    except CompromisedError as error:
        # The file was removed or replaced during the hold, which filelock allows.
        log.debug("Lock file removed or replaced during the hold: %s", error)
    except TenureError as error:
        log.warning("%s", error)


class Context:
    """The settings and the hold of one thread, or of one object."""

    def __init__(
        self,
        *,
        lock_file: str,
        timeout: float,
        mode: int,
        blocking: bool,
        poll_interval: float,
        lifetime: Optional[float] = None,
    ) -> None:
        self.lock_file = lock_file
        self.timeout = timeout
        self.mode = mode
        self.blocking = blocking
        self.poll_interval = poll_interval
        self.lifetime = lifetime
        #: The lock file, open as long as the lock is held.
        self.lock_file_fd: Optional[int] = None
        self.lock_counter = 0
        self.guard: Optional[Guard] = None
        #: This hold has made the file.
        self.created = False
        #: It removes what it has made.
        self.removes = False
        #: The absolute path, from the begin of an acquire to the end of its hold: a program may change directories.
        self.path: Optional[str] = None
        self.transition: Optional[Transition] = None
        #: The task that has taken it, and the file: it would wait for itself if it asked by another object.
        self.task: Optional[tuple[object, str]] = None

    def end(self) -> None:
        """Ends the hold; the caller has set nothing yet."""
        guard, fd = self.guard, self.lock_file_fd
        # A forked child has a copy of the guard, and the file is its parent's.
        removes = self.removes and self.created and guard is not None and guard.held
        if removes:
            self._remove()
        if guard is not None:
            if removes:
                with contextlib.suppress(TenureError):
                    guard.release()  # It would tell that the file is gone.
            else:
                end_guard(guard)
        self.guard = self.lock_file_fd = None
        if fd is not None:
            os.close(fd)

    def _remove(self) -> None:
        # Under the lock, and only what this hold has made: a file that was there before belongs to another process.
        if self.lock_file_fd is None or self.path is None:
            return
        with contextlib.suppress(OSError):
            found = os.fstat(self.lock_file_fd)
            for path in (self.path, f"/proc/self/fd/{self.lock_file_fd}"):
                with contextlib.suppress(OSError):
                    # Where it is by now, if a directory above it was renamed.
                    name = path if path == self.path else os.readlink(path)
                    if os.path.samestat(found, os.lstat(name)):
                        os.unlink(name)
                        return

    def leave_task(self) -> None:
        """The task may ask for the file by another object again."""
        if self.task is not None:
            held_by_tasks.pop(self.task, None)
            self.task = None

    def __del__(self) -> None:
        # No caller can release it any more.
        if self.guard is not None:
            with contextlib.suppress(Exception):
                self.end()
        self.leave_task()


#: Holds whose files are removed at the end of the program, whatever still refers to them.
held_at_exit: weakref.WeakSet[Context] = weakref.WeakSet()


@atexit.register
def _end_at_exit() -> None:
    for context in list(held_at_exit):
        if context.guard is not None:
            with contextlib.suppress(Exception):
                context.end()


class ThreadContexts(threading.local):
    """A context per thread."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.current = Context(**settings)  # type: ignore[arg-type]


class Asked:
    """How one call wants to wait."""

    def __init__(
        self,
        context: Context,
        timeout: Optional[float],
        poll_interval: Optional[float],
        blocking: Optional[bool],
        cancel_check: Optional[Callable[[], bool]],
    ) -> None:
        self.blocking = context.blocking if blocking is None else blocking
        _options.check_blocking(self.blocking)
        interval = context.poll_interval if poll_interval is None else poll_interval
        self.poll_interval = _options.poll_interval_of(interval)
        timeout = context.timeout if timeout is None else timeout
        self.timeout = _options.timeout_of_call(timeout, self.blocking)
        self.cancel_check = cancel_check
        self.began = time.monotonic()
        #: Who had the lock when it was last tried.
        self.busy: Optional[BusyError] = None

    @property
    def for_ever(self) -> bool:
        """Whether nothing ends the wait but the lock."""
        return self.blocking and self.timeout < 0

    def left(self) -> Optional[float]:
        """Seconds until the end of the wait; ``None`` if there is no end."""
        if not self.blocking:
            return 0.0
        return None if self.timeout < 0 else max(self.began + self.timeout - time.monotonic(), 0.0)

    def piece(self) -> Optional[float]:
        """Seconds until the callback has to be asked, or the wait ends."""
        left = self.left()
        if self.cancel_check is None:
            return left
        # An interval of zero would be a loop that only asks.
        interval = max(self.poll_interval, 0.001)
        return interval if left is None else min(interval, left)

    def pause(self) -> float:
        """Seconds between two tries, where the kernel does not wait."""
        left = self.left()
        return self.poll_interval if left is None else min(self.poll_interval, left)

    def gives_up(self) -> Optional[str]:
        """Why the call ends without the lock, for the log; ``None`` if it goes on."""
        if not self.blocking:
            return "Failed to immediately acquire lock %s on %s"
        if self.cancel_check is not None and self.cancel_check():
            return "Cancellation requested for lock %s on %s"
        return "Timeout on acquiring lock %s on %s" if self.left() == 0 else None

"""The lock of the file itself, on a descriptor that the caller has opened.

It excludes ``FileLock`` on the same file, and filelock itself. There are no sidecars, and no holder is named.
"""

from __future__ import annotations

import errno
import fcntl
import threading
import time

from ._options import seconds

__all__ = ["lock_descriptor", "unlock_descriptor"]

_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK)


def lock_descriptor(fd: int, *, blocking: bool = True, poll_interval: float = 0.05) -> bool:
    """Locks the file of ``fd``. ``False`` if it is held and ``blocking`` is ``False``.

    The descriptor stays the caller's: it is neither closed nor moved.
    """
    if not blocking:
        return _try(fd)
    interval = seconds("poll_interval", poll_interval)
    if not 0 < interval <= threading.TIMEOUT_MAX:
        bound = f"greater than 0 and at most {threading.TIMEOUT_MAX}"
        raise ValueError(f"poll_interval must be {bound}, got {interval}")
    while not _try(fd):
        time.sleep(interval)
    return True


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def unlock_descriptor(fd: int) -> None:
    """Unlocks the file of ``fd``, which stays open."""
    fcntl.flock(fd, fcntl.LOCK_UN)

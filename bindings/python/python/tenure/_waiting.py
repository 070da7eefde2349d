"""Waits of an event loop: each on a thread of its own, cancelled with its task.

Not the loop's default executor: it has few threads, and waits for locks would keep out everything else
that needs one.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextvars
import os
import threading
from collections.abc import Callable
from typing import Optional, TypeVar

from ._tenure import Cancel

T = TypeVar("T")

_waits: set[tuple[threading.Thread, Cancel]] = set()


async def in_thread(
    call: Callable[[Cancel], T],
    undo: Optional[Callable[[T], object]] = None,
    cancel: Optional[Cancel] = None,
) -> T:
    """Makes a call that may wait, on another thread. A cancelled task cancels the wait and leaves only
    when the call has ended; what the call got all the same is handed to ``undo`` first."""
    token = cancel or Cancel()
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(call, token)
        except BaseException as error:  # Whatever it is, it belongs to the task.
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            _waits.discard(wait)

    thread = threading.Thread(target=work, name="tenure-wait", daemon=True)
    wait = (thread, token)
    _waits.add(wait)
    thread.start()
    waiter = asyncio.wrap_future(future)
    cancelled: Optional[asyncio.CancelledError] = None
    while True:
        try:
            # Shielded: a cancelled task must not cancel the future, whose result may be a lock.
            result = await asyncio.shield(waiter)
        except asyncio.CancelledError as error:
            if waiter.cancelled():
                raise
            cancelled = error
            token.cancel()
            continue
        except BaseException:
            if cancelled is not None:
                raise cancelled from None
            raise
        if cancelled is not None:
            if undo is not None:
                taken, give_back = result, undo
                try:
                    await in_thread(lambda _: give_back(taken))
                except Exception as error:
                    raise cancelled from error
            raise cancelled
        return result


def _end_waits() -> None:
    # A thread that comes back to an interpreter that is ending would be lost inside it.
    for thread, cancel in list(_waits):
        cancel.cancel()
        thread.join(1)


def _forget_waits() -> None:
    # Threads do not survive a fork.
    _waits.clear()


atexit.register(_end_waits)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_waits)

__all__ = ["in_thread"]

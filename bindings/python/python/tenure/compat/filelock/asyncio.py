"""The locks for asyncio: waiting blocks no event loop.

1. All tasks that use one object share its hold, also while one of them waits for the lock: it is counted.
2. A task that asks for a file which it holds by another object gets a ``RuntimeError``.
3. ``cancel_check`` is called in the thread of the event loop, and no executor is kept waiting.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Optional, TypeVar, Union

from ... import _tenure
from ..._errors import BusyError, DeadlockError
from ..._waiting import in_thread
from . import _options
from ._error import raise_both
from ._hold import Asked, Context, Transition, held_by_tasks, log
from ._lock import (
    BaseFileLock,
    KernelLock,
    Other,
    SoftFileLock,
    UnixFileLock,
    WindowsFileLock,
    _absolute,
    _make_parent,
)
from ._meta import FileLockMeta
from ._options import CloseErrorPolicy, ContextErrorPolicy

if TYPE_CHECKING:
    from concurrent import futures
    from types import FrameType, TracebackType

    from typing_extensions import Self

__all__ = [
    "AsyncAcquireReturnProxy",
    "AsyncFileLock",
    "AsyncSoftFileLock",
    "AsyncUnixFileLock",
    "AsyncWindowsFileLock",
    "BaseAsyncFileLock",
]

_Path = Union[str, "os.PathLike[str]"]
_T = TypeVar("_T")

_WITH = "Use `async with`: acquire/release are coroutines and cannot be awaited in a sync context manager."


class AsyncFileLockMeta(FileLockMeta):
    """The options that only these locks have."""

    _more: ClassVar[dict[str, Any]] = {
        "thread_local": False,
        "loop": None,
        "run_in_executor": True,
        "executor": None,
    }

    def _checked(cls, given: dict[str, Any]) -> dict[str, Any]:
        if given["thread_local"] and given["run_in_executor"]:
            raise ValueError("run_in_executor is not supported when thread_local is True")
        return super()._checked(given)


class BaseAsyncFileLock(BaseFileLock, metaclass=AsyncFileLockMeta):
    """A lock on a file for asyncio. All tasks of its object share the hold."""

    def __init__(
        self,
        lock_file: _Path,
        timeout: float = -1,
        mode: int = _options.UNSET_MODE,
        thread_local: bool = False,
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
        loop: Optional[asyncio.AbstractEventLoop] = None,
        run_in_executor: bool = True,
        executor: Optional[futures.Executor] = None,
    ) -> None:
        super().__init__(
            lock_file,
            timeout,
            mode,
            thread_local,
            blocking=blocking,
            is_singleton=is_singleton,
            poll_interval=poll_interval,
            lifetime=lifetime,
            context_error_policy=context_error_policy,
            close_error_policy=close_error_policy,
            fallback_to_soft=fallback_to_soft,
            preserve_lock_file=preserve_lock_file,
            on_acquired=on_acquired,
        )
        self._loop = loop
        self._run_in_executor = run_in_executor
        self._executor = executor

    @property
    def loop(self) -> Optional[asyncio.AbstractEventLoop]:
        """The event loop that was given. The one that awaits is used."""
        return self._loop

    @property
    def run_in_executor(self) -> bool:
        """Whether ``on_acquired``, and the methods of a subclass, run in an executor."""
        return self._run_in_executor

    @property
    def executor(self) -> Optional[futures.Executor]:
        """That executor; ``None`` for the loop's own."""
        return self._executor

    @executor.setter
    def executor(self, value: Optional[futures.Executor]) -> None:
        self._executor = value

    async def acquire(  # type: ignore[override]
        self,
        timeout: Optional[float] = None,
        poll_interval: Optional[float] = None,
        *,
        blocking: Optional[bool] = None,
        cancel_check: Optional[Callable[[], bool]] = None,
    ) -> AsyncAcquireReturnProxy:
        """Acquires the lock, or raises :class:`Timeout`."""
        context = self._context
        asked = Asked(context, timeout, poll_interval, blocking, cancel_check)
        while True:
            mine = self._begin(context)
            if mine is None:
                return AsyncAcquireReturnProxy(self)
            if not isinstance(mine, Transition):
                await self._async_wait_for(mine, asked)
                continue
            try:
                await self._async_take(context, asked)
            finally:
                self._end_change(context, mine)
            return AsyncAcquireReturnProxy(self)

    def _begin(
        self, context: Context, frame: Optional[FrameType] = None
    ) -> Union[Transition, None, Other]:
        with self._mutex:
            # Other tasks of this thread are others: they wait for a change that is under way.
            if context.transition is not None:
                return Other(context.transition)
            if context.lock_file_fd is not None:
                context.lock_counter += 1
                return None
            context.transition = Transition()
            return context.transition

    async def _async_wait_for(self, other: Other, asked: Asked) -> None:
        over = asyncio.wrap_future(other.change.over)
        # Not awaited itself: a task that is cancelled must not cancel it for the others.
        while not over.done():
            await asyncio.wait({over}, timeout=asked.piece())
            if not over.done():
                self._check_end(asked)

    async def _async_take(self, context: Context, asked: Asked) -> None:
        context.path = _absolute(context.lock_file)
        task = asyncio.current_task()
        try:
            own = (task, os.path.realpath(context.path))
            if asked.for_ever and own in held_by_tasks:
                raise self._deadlock("BaseAsyncFileLock instance in this task")
            _make_parent(context.path)
            attempt = self._async_attempt if self._waits_in_kernel() else self._async_attempt_own
            wait: Optional[float] = 0.0
            while True:
                log.debug("Attempting to acquire lock %s on %s", id(self), self.lock_file)
                await attempt(context, asked, wait)
                if context.lock_file_fd is not None:
                    break
                self._check_end(asked)
                wait = asked.piece()
            log.debug("Lock %s acquired on %s", id(self), self.lock_file)
            context.lock_counter += 1
            context.task = own
            held_by_tasks[own] = id(self)
            self._remember(context)
        except BaseException:
            if context.lock_file_fd is None:
                self._forget(context)
            raise
        await self._async_call_hook(context)

    async def _async_attempt_own(
        self, context: Context, asked: Asked, wait: Optional[float]
    ) -> None:
        if wait != 0:
            await self._pause(asked)
        try:
            await self._run(self._acquire)
        except asyncio.CancelledError:
            # The attempt has ended before this: what it got goes back.
            if context.lock_file_fd is not None:
                await self._run(self._release)
            raise

    async def _pause(self, asked: Asked) -> None:
        pause = asked.pause()
        message = "Lock %s not acquired on %s, waiting %s seconds ..."
        log.debug(message, id(self), self.lock_file, pause)
        await asyncio.sleep(pause)

    async def _async_attempt(self, context: Context, asked: Asked, wait: Optional[float]) -> None:
        if wait != 0:
            message = "Lock %s not acquired on %s, waiting %s seconds ..."
            log.debug(message, id(self), self.lock_file, wait)
        try:
            if wait == 0:
                # It is free most of the time: then no thread is needed.
                self._take_guard(context, None, now=True)
                if context.lock_file_fd is not None:
                    return
            # The lock will be this thread's, which goes on meanwhile and can release what it holds.
            token = _tenure.Cancel._on_behalf()
            await in_thread(
                lambda cancel: self._take_guard(context, wait, cancel=cancel),
                undo=lambda _: self._give_back(context),
                cancel=token,
            )
        except BusyError as error:
            asked.busy = error
        except DeadlockError:
            # This thread has it by a lock that blocks: another thread may release that, or this one later.
            if wait != 0:
                await self._pause(asked)
        except BlockingIOError:
            # The kernel is asking the holder of a file lease to give it up.
            if wait != 0:
                await self._pause(asked)

    def _give_back(self, context: Context) -> None:
        """The lock that a cancelled task has got all the same."""
        if context.guard is not None:
            context.end()

    async def _async_call_hook(self, context: Context) -> None:
        hook, fd = self._on_acquired, context.lock_file_fd
        if hook is None or fd is None:
            return
        try:
            await self._run(lambda: hook(fd))
        except BaseException as error:
            try:
                await self._run(self._release)
            except BaseException as release:
                raise_both(error, release)
            finally:
                if context.lock_file_fd is None:
                    self._forget(context)
            raise

    async def _run(self, call: Callable[[], Any]) -> None:
        """Calls what may block, as ``run_in_executor`` says. A cancelled task waits for its end."""
        if iscoroutinefunction(call):
            await call()
        elif not self._run_in_executor:
            call()
        else:
            loop = asyncio.get_running_loop()
            await _to_the_end(loop.run_in_executor(self._executor, call))

    async def release(self, force: bool = False) -> None:  # type: ignore[override]
        """Releases the lock once it was released as often as it was acquired, or at once."""
        context = self._context
        while True:
            mine = self._begin_async_release(context, force)
            if mine is None:
                return
            if isinstance(mine, Transition):
                break
            await asyncio.wait({asyncio.wrap_future(mine.change.over)})
        try:
            log.debug("Attempting to release lock %s on %s", id(self), self.lock_file)
            await self._async_release(context)
            log.debug("Lock %s released on %s", id(self), self.lock_file)
        finally:
            if context.lock_file_fd is None:
                self._forget(context)
            self._end_change(context, mine)

    def _end_change(self, context: Context, mine: Transition) -> None:
        with self._mutex:
            context.transition = None
        mine.end()

    async def _async_release(self, context: Context) -> None:
        guard = context.guard
        if getattr(self._release, "__func__", None) is not KernelLock._release:
            await self._run(self._release)
        elif guard is None or guard._ends_now:
            self._release()
        else:
            await in_thread(lambda _: self._release())

    def _begin_async_release(
        self, context: Context, force: bool
    ) -> Union[Transition, None, Other]:
        with self._mutex:
            if context.lock_file_fd is None:
                return None
            if context.transition is not None:
                return Other(context.transition)
            if not force and context.lock_counter > 1:
                context.lock_counter -= 1
                return None
            context.transition = Transition(releases=True)
            return context.transition

    def _release_all(self) -> None:
        # It is unreferenced: no task waits, and no coroutine could be awaited.
        if not iscoroutinefunction(self._release):
            super()._release_all()

    async def _async_release_after(self, failure: Optional[BaseException]) -> None:
        try:
            await self.release()
        except BaseException as error:
            if failure is None or self._context_error_policy == "chain":
                raise
            raise_both(failure, error)

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(_WITH)

    def __exit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        raise NotImplementedError(_WITH)

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self._async_release_after(exc_value)


async def _to_the_end(future: asyncio.Future[_T]) -> _T:
    """The result of a call on another thread. A cancelled task leaves only when the call has ended."""
    cancelled: Optional[asyncio.CancelledError] = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()  # Seen; the task's own end comes first.
        raise cancelled
    return future.result()


class AsyncUnixFileLock(UnixFileLock, BaseAsyncFileLock):
    """A lock on the file itself, for asyncio."""


class AsyncSoftFileLock(SoftFileLock, BaseAsyncFileLock):
    """The same lock, whose file is there while it is held, for asyncio."""


class AsyncWindowsFileLock(WindowsFileLock, BaseAsyncFileLock):
    """Only there to be named: this package has no locks for Windows."""


AsyncFileLock = AsyncUnixFileLock


class AsyncAcquireReturnProxy:
    """What ``await acquire()`` returns."""

    def __init__(self, lock: BaseAsyncFileLock) -> None:
        self.lock = lock

    async def __aenter__(self) -> BaseAsyncFileLock:
        return self.lock

    async def __aexit__(
        self,
        exc_type: Optional[type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.lock._async_release_after(exc_value)


def __dir__() -> list[str]:
    return sorted(__all__)

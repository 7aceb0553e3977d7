"""The runner: enters a handler, on the loop or in a thread, and reports how it ended. Exactly once, whatever it does.

Async handlers run as tasks of the loop, each in a fresh copy of the context that the scheduler was started in; sync
handlers run in daemon threads, never on the loop. The runner keeps every task referenced until it ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from timewheel.model import Now
from timewheel.work.context import enter, request_cancel
from timewheel.work.run import Run, Stopping

if TYPE_CHECKING:
    from timewheel.ports import Clock, Threads

_log = logging.getLogger("timewheel")


Ended = Callable[[Run, BaseException | None, Any], None]


class Runner:
    """See the module.

    On the loop `began(run)` is called when a handler has been entered, `ended` when it has ended, and `mistimed` when
    its turn or its thread came too early, because the wall clock was set back while it waited for that, or too late:
    after its deadline, or when it had expired.
    """

    def __init__(
        self,
        threads: Threads,
        now: Callable[[], Now],
        clock: Clock,
        *,
        began: Callable[[Run], None],
        ended: Ended,
        mistimed: Callable[[Run], None],
    ) -> None:
        self._threads = threads
        self._now = now
        self._clock = clock
        self._began = began
        self._ended = ended
        self._mistimed = mistimed
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._entering = threading.Lock()
        self._in_threads = 0
        self._when_empty: Callable[[], None] | None = None

    def start(self, run: Run) -> None:
        """Enter the handler: at the next turn of the loop, or as soon as a thread is free.

        Raises RuntimeError when the system gives no thread at all.
        """
        if run.task.is_async:
            run.handle = self._loop.create_task(self._drive(run), name=run.task.name, context=self._context.copy())
        else:
            self._threads.start(lambda: self._run_in_thread(run))

    def withdraw(self, run: Run) -> bool:
        """Take a run back that no thread has picked up yet; False: it has been entered."""
        with self._entering:
            run.withdrawn = not run.entered
            return run.withdrawn

    def stop(self, run: Run, why: Stopping, grace_s: float = 0.0) -> None:
        """Ask a running handler to stop: an async one gets CancelledError, a sync one can only look at its context.

        `grace_s`: what an async one that has begun gets to end by itself first, from the first cancel on. Any other
        reason to stop ends that.
        """
        if run.stopping is None:
            run.stopping = why
            request_cancel(run.context)
            if grace_s > 0 and run.begun:
                run.watched = True
                run.grace = self._clock.call_later(grace_s, lambda: self._interrupt(run))
                return
        elif why is Stopping.CANCEL and run.grace is not None:
            return
        self._interrupt(run)

    @staticmethod
    def _interrupt(run: Run) -> None:
        grace, run.grace = run.grace, None
        if grace is not None:
            grace.cancel()
        if run.handle is not None and run.started is not None:
            run.handle.cancel()

    def close(self, when_empty: Callable[[], None] | None = None) -> None:
        """Start no more threads. `when_empty` is called in the last handler's thread when that ends at last."""
        with self._entering:
            self._when_empty = when_empty
        self._threads.close()

    # ---- on the loop -------------------------------------------------------------------------------------------------

    async def _drive(self, run: Run) -> None:
        now = self._now()
        if run.stopping is None and (run.claimant.early_by(now) > 0 or (run.watched and run.too_late(now))):
            self._mistimed(run)
            return
        run.started = now
        try:
            if run.stopping is not None:  # asked to stop before its first line: a task cannot be told that early
                raise asyncio.CancelledError
            self._began(run)
            run.begun = True
            enter(run.context)
            value = run.task.fn(*run.args, **run.kwargs)
            if type(value) is CoroutineType or inspect.isawaitable(value):
                value = await value
        except BaseException as error:  # noqa: BLE001  a handler may raise anything, and each has one documented end
            self._ended(run, _without_our_frames(error), None)
        else:
            self._ended(run, None, value)

    async def _finish(self, run: Run, awaitable: Any) -> None:
        """A sync handler gave back an awaitable: it is awaited on the loop."""
        run.handle = asyncio.current_task()
        try:
            if run.stopping is not None and run.grace is None:  # see _drive
                raise asyncio.CancelledError
            enter(run.context)
            value = await awaitable
        except BaseException as error:  # noqa: BLE001  see _drive
            self._ended(run, _without_our_frames(error), None)
        else:
            self._ended(run, None, value)

    # ---- in a thread -------------------------------------------------------------------------------------------------

    def _run_in_thread(self, run: Run) -> None:
        with self._entering:
            if run.withdrawn:
                return
            run.entered = run.claimant.early_by(now := self._now()) <= 0
            if not run.entered or run.too_late(now):
                self._tell(self._mistimed, run)
                return
            self._in_threads += 1
        run.started = now
        run.begun = True
        self._tell(self._began, run)
        error: BaseException | None = None
        value: Any = None
        try:
            value = self._context.copy().run(self._call, run)
        except BaseException as raised:  # noqa: BLE001  see _drive
            error = _without_our_frames(raised)
        self._left_thread()
        if error is None and inspect.isawaitable(value):
            self._tell(self._await_on_loop, run, value)
        else:
            self._tell(self._ended, run, error, value)

    def _left_thread(self) -> None:
        with self._entering:
            self._in_threads -= 1
            last = None if self._in_threads else self._when_empty
        if last is not None:
            last()

    @property
    def in_threads(self) -> int:
        """How many handlers run in threads now."""
        with self._entering:
            return self._in_threads

    @staticmethod
    def _call(run: Run) -> Any:
        enter(run.context)
        return run.task.fn(*run.args, **run.kwargs)

    def _await_on_loop(self, run: Run, awaitable: Any) -> None:
        task = self._loop.create_task(self._finish(run, awaitable), context=self._context.copy())
        task.add_done_callback(lambda _: self._never_finished(run, awaitable))

    def _never_finished(self, run: Run, awaitable: Any) -> None:
        """The task is done: if it was cancelled before its first step, it did not say so itself."""
        if inspect.iscoroutine(awaitable):
            awaitable.close()
        if run.handle is None:
            self._ended(run, asyncio.CancelledError(), None)

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # the loop is closed: the attempt was given back or will be found LOST
            _log.warning("a handler outlived its event loop; what it did was not recorded")


def _without_our_frames(error: BaseException) -> BaseException:
    """The error with a traceback that begins in the handler's code; with none when the call itself failed."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return BaseException.with_traceback(error, trace)


def is_cancellation(error: BaseException) -> bool:
    """Whether this is what `stop` makes a handler raise."""
    return isinstance(error, asyncio.CancelledError)

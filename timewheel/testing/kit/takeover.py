"""A running asyncio loop on virtual time: taken over where it stands, and given back as it was.

So a test may run on whatever loop its async plugin made. While it is taken over, the loop's `time()` is the virtual
machine's, and moves only when nothing is ready to run: then it jumps to the next timer, or to where an `arrive` wants
to be, whichever is first. Everything that counts by the loop is virtual too: asyncio.sleep, timeout, wait_for.

What is outside cannot be hurried. Calls in threads that can be seen (`run_in_executor`, `asyncio.to_thread`, aiosqlite)
are waited for really, at most `CALL_PATIENCE_S`, while time stands still. Whether something will come out of an open
socket or pipe nobody can know: while there is one, each jump waits `SOCKET_PATIENCE_S` for it. A socket that only
listens does not count.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import selectors
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from timewheel.model import SECOND_US
from timewheel.testing.kit.outside import check_loop, count_aiosqlite, is_pulse, keeps_house, listens
from timewheel.testing.kit.waiting import what_waits
from timewheel.testing.virtual import Deadlock, VirtualMachine

CALL_PATIENCE_S = 10.0
THREAD_PATIENCE_S = 0.05  # for handlers in threads that had their turn (see turns.py)
SOCKET_PATIENCE_S = 0.02
UNSEEN_PATIENCE_S = 1.0  # before a deadlock is told
MOST_JUMPS = 10_000  # that a test may wait for something, while jobs go on and on,
LONGEST_WAIT_S = 30.0  # if they take longer than this of real time
LOOK_JUMPS = 100  # after so many jumps for which nobody asked a deadlock is feared
_EXACT_S = 0.5 / SECOND_US  # a timer is due when it is less than half a microsecond away
_REAL = "a scheduler in real time runs on this loop: make it with system=clock.system, or clock.borrow(...) it"


class _TimeSelector(selectors.BaseSelector):
    """The loop's own selector; but a wish to wait is the takeover's to grant."""

    def __init__(self, real: selectors.BaseSelector, idle: Callable[[float | None], list[Any]]) -> None:
        self.real = real
        self._idle = idle

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self.real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self.real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self.real.get_map()

    def close(self) -> None:
        self.real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = self.real.select(0)
        return events if events or (timeout is not None and timeout <= 0) else self._idle(timeout)


class Takeover:
    """See the module. `seed` shuffles what is ready at one moment; None leaves asyncio's order.

    `jumps` counts how often time has moved. `blame` is the task that hears of a deadlock, by a cancel; `deadlock` is
    what it was cancelled for.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        machine: VirtualMachine,
        seed: int | None,
        jobs_to_come: Callable[[], bool],
    ) -> None:
        """Take the loop over. Raises NotVirtual for a loop that is not asyncio's own.

        `jobs_to_come` says whether a journal has jobs that will run; it is asked when a deadlock is feared.
        """
        check_loop(loop)
        self._jobs_to_come = jobs_to_come
        self.loop: Any = loop
        self.jumps = 0
        self.blame: asyncio.Task[Any] | None = None
        self.deadlock: Deadlock | None = None
        self.threads = 0  # handlers that run in threads now
        self.handed: dict[int, threading.Event] = {}  # set when the thread of that id waits for the loop
        self._machine = machine
        self._random = None if seed is None else random.Random(f"{seed} order")
        self._calls = 0
        self._arrivals: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._zero_us = round(loop.time() * SECOND_US) - machine.awake_us
        self._take()
        self._begin_to_wait()

    def _take(self) -> None:
        loop = self.loop
        ours: dict[str, Any] = {
            "time": self._time,
            "run_in_executor": self._run_in_executor,
            "shutdown_default_executor": self._shutdown_default_executor,
            "call_soon_threadsafe": self._call_soon_threadsafe,
            "_run_once": self._run_once,
        }
        self._real = {name: getattr(loop, name) for name in ours}
        vars(loop).update(ours)
        self._resolution, loop._clock_resolution = loop._clock_resolution, _EXACT_S
        loop._selector = _TimeSelector(loop._selector, self._idle)
        self._give_back_aiosqlite = count_aiosqlite(self.outside)

    def release(self) -> None:
        """Give the loop back: real time from here, and timers as far ahead as they were."""
        self._give_back_aiosqlite()
        loop = self.loop
        if loop.is_closed():
            return
        ahead = self._real["time"]() - self._time()
        for timer in loop._scheduled:
            timer._when += ahead
        for name in self._real:
            delattr(loop, name)
        loop._selector = loop._selector.real
        loop._clock_resolution = self._resolution

    # ---- time --------------------------------------------------------------------------------------------------------

    async def arrive(self, awake_us: int) -> None:
        """Wait until it is so late and nothing more can run at that moment."""
        future: asyncio.Future[None] = self.loop.create_future()
        heapq.heappush(self._arrivals, (awake_us, next(self._order), future))
        await future
        self._begin_to_wait()

    def _begin_to_wait(self) -> None:
        self._jumps_at_arrival, self._arrived_s = self.jumps, self._real["time"]()

    def _time(self) -> float:
        return (self._zero_us + self._machine.awake_us) / SECOND_US

    def _idle(self, timeout_s: float | None) -> list[Any]:
        """Nothing is ready: wait for what is outside, or let time pass."""
        patience_s = self._patience_s()
        if patience_s and (events := self.loop._selector.real.select(patience_s)):
            return list(events)
        if self.jumps % LOOK_JUMPS == 1 and not self.deadlock and any(map(is_pulse, self._timers())):
            return self._tell(_REAL)
        while self._arrivals and self._arrivals[0][2].done():
            heapq.heappop(self._arrivals)  # whoever waited was cancelled
        ahead_us = None if timeout_s is None else max(1, round(timeout_s * SECOND_US))
        if self._arrivals:
            left_us = self._arrivals[0][0] - self._machine.awake_us
            if left_us <= 0:
                heapq.heappop(self._arrivals)[2].set_result(None)
                return []
            ahead_us = left_us if ahead_us is None else min(ahead_us, left_us)
        elif ahead_us is None:
            return self._tell("nothing is ready to run and no timer is set, so what is waited for will never come")
        elif (why := self._hopeless()) is not None:
            return self._tell(why)
        self.jumps += 1
        self._machine.jump(ahead_us / SECOND_US)
        return []

    def _hopeless(self) -> str | None:
        """Why what is waited for will not come, though timers are set: they are only the scheduler's housekeeping."""
        jumps = self.jumps - self._jumps_at_arrival
        if jumps and jumps % LOOK_JUMPS == 0 and not self._jobs_to_come() and all(map(keeps_house, self._timers())):
            return "nothing is ready to run and no job is to come, so what is waited for will never come"
        if jumps <= MOST_JUMPS or self._real["time"]() - self._arrived_s <= LONGEST_WAIT_S:
            return None
        return f"time jumped {jumps:,} times, and what is waited for has not come (to go on, use clock.advance)"

    def _timers(self) -> list[Any]:
        return [timer for timer in self.loop._scheduled if not timer.cancelled()]

    def _patience_s(self) -> float:
        if self._calls:
            return CALL_PATIENCE_S
        if self.threads:
            return THREAD_PATIENCE_S
        return SOCKET_PATIENCE_S if any(map(self._is_foreign, self.loop._selector.get_map())) else 0

    def _is_foreign(self, file: int) -> bool:
        return file != self.loop._ssock.fileno() and not listens(file)

    def _tell(self, why: str) -> list[Any]:
        """A deadlock: the test hears of it where it waits; when it did already, whoever runs the loop does.

        First a look whether it was a thread that nobody told us of, such as that which ends the loop's executor.
        """
        events = self.loop._selector.real.select(UNSEEN_PATIENCE_S)
        if events:
            return list(events)
        error = Deadlock(f"{why}. It is {self._machine.now()}.\n{what_waits(self.loop)}")
        if self.blame is None or self.blame.done() or self.deadlock is not None:
            raise error
        self.deadlock = error
        self._begin_to_wait()
        self.loop.call_soon(self.blame.cancel)
        return []

    # ---- the loop's own methods --------------------------------------------------------------------------------------

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Time stands still inside: somebody waits for a thread."""
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1

    def _run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._real["run_in_executor"](executor, func, *args)
        self._calls += 1
        future.add_done_callback(self._called)
        return future

    async def _shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        with self.outside():
            await self._real["shutdown_default_executor"](*args, **kwargs)

    def _called(self, _: asyncio.Future[Any]) -> None:
        self._calls -= 1

    def _call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        handle: asyncio.Handle = self._real["call_soon_threadsafe"](callback, *args, context=context)
        if getattr(callback, "__qualname__", "").startswith("run_coroutine_threadsafe."):
            handed = self.handed.get(threading.get_ident())
            if handed is not None:  # a handler's thread waits for the loop now, which waits for that thread
                handed.set()
        return handle

    def _run_once(self) -> None:
        ready = self.loop._ready  # asyncio has no public way to reorder what is ready
        if self._random is not None and len(ready) > 1:
            order = list(ready)
            self._random.shuffle(order)
            ready.clear()
            ready.extend(order)
        self._real["_run_once"]()

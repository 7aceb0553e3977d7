"""The clock of the test kit: virtual time for the event loop that a test runs on.

    async def test_reminder(scheduler, clock):       # fixtures of the pytest plugin, which comes with the package
        job = await scheduler.after(3600, remind, 42)
        await clock.advance("2h")                    # returns at once; everything due has run, each at its own instant
        assert (await job.refresh()).state == "COMPLETED"

Without pytest: `async with Clock() as clock, clock.scheduler() as scheduler: ...` on any running asyncio loop.

Time stands still while anything can run. When nothing can, it jumps to the next timer: so `await job.wait()`, and a
handler's own `asyncio.sleep(3600)`, take no time either. `advance` goes on until everything that can run at its end
has run. Only the loop's time is virtual: `datetime.now()` and `time.time()` are the machine's; ask `clock.now()`.
Chance (the jitter of retries) is drawn from the seed. With a seed of your own the order of what is ready at one moment
is drawn from it, too: the same seed, the same run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from timewheel.errors import InvalidTime
from timewheel.model import SECOND_US
from timewheel.ports import Timer
from timewheel.scheduler import Scheduler
from timewheel.system import System
from timewheel.testing.kit.borrowing import borrow
from timewheel.testing.kit.delays import delay_of, difference_of
from timewheel.testing.kit.outside import NotVirtual
from timewheel.testing.kit.reading import has_jobs_to_come
from timewheel.testing.kit.takeover import Takeover
from timewheel.testing.kit.turns import TurnThreads
from timewheel.testing.virtual import T0, VirtualClock, VirtualMachine
from timewheel.times import when_us

Length = str | int | float | timedelta  # "1d 3h", seconds, or a timedelta


class _LoopClock(VirtualClock):
    """Takes the running loop over as soon as a scheduler uses it."""

    def __init__(self, machine: VirtualMachine, hold: Callable[[], Takeover], know: Callable[[Any], object]) -> None:
        super().__init__(machine)
        self._hold = hold
        self._know = know

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """An engine that starts: its scheduler becomes known."""
        self._hold()
        self._know(getattr(getattr(changed, "__self__", None), "_host", None))
        return super().watch(changed)

    def call_later(self, delay_s: float, callback: Callable[[], Any]) -> Timer:
        self._hold()
        return super().call_later(delay_s, callback)


class Clock:
    """See the module. `seed` decides chance and order (None: 0, and asyncio's order); `start` is the first `now()`.

    Attributes: `system` makes a scheduler of your own virtual (`Scheduler("memory://", system=clock.system)`);
    `schedulers` are those it knows: what `scheduler()` made, `borrow` took, or was started on `system`; `machine` is
    the virtual machine.
    """

    def __init__(self, *, seed: int | None = None, start: datetime = T0) -> None:
        when_us(start)  # which refuses a naive one
        self.seed = seed
        self.machine = VirtualMachine(seed=seed or 0, wall=start, quiet=True)
        self.machine.clock = _LoopClock(self.machine, self._hold, self._know_host)
        threads = lambda limit: TurnThreads(limit, self._hold)  # noqa: E731
        self.system: System = replace(self.machine.system, clock=self.machine.clock, threads=threads)
        self.schedulers: list[Scheduler] = []
        self._start_us = self.machine.clock.boot_us()
        self._thread = threading.get_ident()
        self._takeover: Takeover | None = None
        self._give_back: list[Callable[[], None]] = []
        self._closed = False

    # ---- time --------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """What the wall clock shows: an aware datetime in UTC."""
        return self.machine.now()

    async def advance(self, until: Length | datetime) -> datetime:
        """Let time pass: a length ("2h", seconds, a timedelta), or until an aware datetime. Returns `now()`.

        Everything that falls due meanwhile runs, at its own instant and in order; at the end everything has run that
        can without more time. `advance(0)` lets run what is due now. A handler that sleeps longer is still in its
        sleep afterwards. Raises InvalidTime for a time that is no length or lies in the past, NotVirtual.
        """
        takeover = self._hold()
        await takeover.arrive(self.machine.awake_us + self._ahead_us(until))
        return self.now()

    def _ahead_us(self, until: Length | datetime) -> int:
        if not isinstance(until, datetime):
            return delay_of(until)
        ahead = when_us(until) - self.machine.clock.wall_us()
        if ahead < 0:
            raise InvalidTime(f"it is {self.now()} already, after {until}: to set the clock back use step(...)")
        return ahead

    def step(self, to: Length | datetime) -> None:
        """Set the wall clock: by a length, which may be negative ("-1h"), or to an aware datetime.

        No time passes: timers and what was scheduled by `after` do not move, what was scheduled by `at` does. What
        follows from it happens at the next await.
        """
        wall_us = self.machine.clock.wall_us()
        by_us = when_us(to) - wall_us if isinstance(to, datetime) else difference_of(to)
        if wall_us + by_us < 0:
            raise InvalidTime(f"{to!r} sets the clock before 1970")
        self.machine.step(by_us / SECOND_US)

    def suspend(self, length: Length) -> None:
        """The machine sleeps and wakes: clocks went on, but timers of the loop stood still."""
        self.machine.suspend(delay_of(length) / SECOND_US)

    @property
    def passed(self) -> timedelta:
        """How much time has passed since the start."""
        return timedelta(microseconds=self.machine.clock.boot_us() - self._start_us)

    @property
    def jumps(self) -> int:
        """How often time has moved on the present loop."""
        return 0 if self._takeover is None else self._takeover.jumps

    # ---- schedulers --------------------------------------------------------------------------------------------------

    def scheduler(self, **options: Any) -> Scheduler:
        """A new scheduler on a journal in memory and this clock; takes the options of `Scheduler`. Not started yet."""
        return self._know(Scheduler("memory://", system=self.system, **options))

    def borrow(self, scheduler: Scheduler) -> Scheduler:
        """Your application's own scheduler, on an empty journal in memory and this clock until the test ends.

        It is the same object, with its tasks, queues and limits, so code that imports it needs no change. It must not
        be started; it is not started here. Raises NotStarted for one that runs.
        """
        if scheduler not in self.schedulers:
            self._give_back.append(borrow(scheduler, self.system))
        return self._know(scheduler)

    def _know_host(self, host: object) -> None:
        if isinstance(host, Scheduler):
            self._know(host)

    def _know(self, scheduler: Scheduler) -> Scheduler:
        if scheduler not in self.schedulers:
            self.schedulers.append(scheduler)
        return scheduler

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def _hold(self) -> Takeover:
        """The running loop, virtual from now on."""
        loop = _running_loop()
        held = self._takeover
        if held is not None and held.loop is loop:
            return held
        if self._closed:
            raise NotVirtual("this clock's test is over: what still uses it should have been stopped before its end")
        if threading.get_ident() != self._thread:
            raise NotVirtual(
                "this clock belongs to another thread: write the test as `async def`, with `await scheduler.after(...)`"
                " (scheduler.blocking.start() runs a loop in a thread, whose time cannot be moved from here)"
            )
        if held is not None and not held.loop.is_closed():
            raise NotVirtual("this clock has another event loop that is still open: use one loop a test")
        self._takeover = Takeover(loop, self.machine, self.seed, self._jobs_to_come)
        return self._takeover

    def _jobs_to_come(self) -> bool:
        return any(has_jobs_to_come(scheduler) for scheduler in self.schedulers)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Take the running loop over; a deadlock of its tasks is raised at the place where this block waits."""
        __tracebackhide__ = True
        takeover = self._hold()
        task = takeover.blame = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError as error:
            if takeover.deadlock is None or task is None:
                raise
            task.uncancel()
            raise takeover.deadlock from error
        finally:
            takeover.blame = None

    def open(self) -> None:
        """Become the clock that assertions without `scheduler=` look at."""
        _OPEN.append(self)

    def close(self) -> None:
        """Give back the loop and the schedulers that were borrowed; the clock cannot be used again."""
        if self._takeover is not None and not self._closed:
            self._takeover.release()
        self._closed = True
        self._takeover = None
        while self._give_back:
            self._give_back.pop()()
        if self in _OPEN:
            _OPEN.remove(self)

    async def __aenter__(self) -> Self:
        self._watching = self.watching()
        self._watching.__enter__()
        self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._watching.__exit__(kind, error, trace)
        finally:
            self.close()


_OPEN: list[Clock] = []


def open_clock() -> Clock | None:
    """The clock of the test that runs, if any."""
    return _OPEN[-1] if _OPEN else None


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise NotVirtual(
            "no asyncio loop runs here: timewheel runs on asyncio, so the test must be `async def`, run by "
            "pytest-asyncio or by anyio's plugin on its asyncio backend (not trio: override the fixture anyio_backend)"
        ) from None

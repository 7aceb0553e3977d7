"""One test with its scheduler: started, inline if wished, stopped; and what to tell when the test fails."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from timewheel.errors import InvalidOption, TimewheelError
from timewheel.job import Job
from timewheel.model import JobState, SchedulerState
from timewheel.scheduler import Scheduler
from timewheel.testing.kit.assertions import line_of
from timewheel.testing.kit.clock import Clock
from timewheel.testing.kit.inlining import inline
from timewheel.testing.kit.outside import NotVirtual
from timewheel.testing.kit.reading import all_jobs

MOST_JOBS = 10


class Session:
    """See the module. `scheduler` is what the fixture of that name gave; `wish` is the marker's `inline`."""

    def __init__(self, clock: Clock, scheduler: object, wish: object) -> None:
        if wish not in (False, True, "keep"):
            raise InvalidOption(f'inline={wish!r}: True (a job that ends DEAD raises JobDead) or "keep"')
        self._clock = clock
        self._scheduler = scheduler if isinstance(scheduler, Scheduler) else None
        self._wish = wish
        self._stack = AsyncExitStack()
        if self._scheduler is not None:
            self._check(self._scheduler)

    def _check(self, scheduler: Scheduler) -> None:
        if scheduler._system is not self._clock.system:
            raise NotVirtual(
                "the fixture `scheduler` gave a scheduler that lives in real time, in a test whose time is virtual: "
                "return clock.borrow(scheduler) from the fixture, or make it with system=clock.system"
            )
        if scheduler not in self._clock.schedulers:
            self._clock.schedulers.append(scheduler)

    async def __aenter__(self) -> Self:
        scheduler = self._scheduler
        async with AsyncExitStack() as stack:
            if scheduler is not None and scheduler.state in (SchedulerState.NEW, SchedulerState.STOPPED):
                await stack.enter_async_context(scheduler)
            if self._wish:
                if scheduler is None:
                    raise InvalidOption("inline= needs the fixture `scheduler`; or write `with inline(scheduler):`")
                stack.enter_context(inline(scheduler, errors="keep" if self._wish == "keep" else "raise"))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def notes(self) -> list[str]:
        """The time, the seed, and the jobs that failed or were left."""
        clock = self._clock
        replay = "" if clock.seed is None else f"; replay with --timewheel-seed={clock.seed}"
        lines = [f"it is {clock.now()} on the test's clock, {clock.passed} after its start{replay}"]
        for scheduler in clock.schedulers:
            try:
                lines += self._about(all_jobs(scheduler))
            except TimewheelError as error:  # it was never started, say: then the test's own error tells more
                lines.append(f"{scheduler}: {error}")
        return lines

    def _about(self, jobs: list[Job[Any]]) -> list[str]:
        failed = [job for job in jobs if job.state is JobState.DEAD or (job.error and not job.state.final)]
        left = [job for job in jobs if not job.state.final]
        lines = []
        for title, some in (("failed:", failed), ("left to run:", left)):
            lines += [f"{title} {len(some)}"] if some else []
            for job in some[:MOST_JOBS]:
                lines.append(f"  {line_of(job, self._clock.now())}")
                lines += [f"    {line}" for line in (job.error or "").splitlines()] if some is failed else []
            lines += [f"  and {len(some) - MOST_JOBS} more"] if len(some) > MOST_JOBS else []
        return lines

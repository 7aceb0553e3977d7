"""Inline mode: a job that is due at once has run to its end when the verb that scheduled it returns.

    with inline(scheduler):
        job = await sign_up("ada")       # calls scheduler.now(...) somewhere inside
        assert job.state == "COMPLETED"

or `@pytest.mark.timewheel(inline=True)` for a whole test. Jobs for later stay scheduled, and those that wait for such
jobs stay WAITING. Retries and sleeps of the job are part of its end: time moves as far as they take. What its handler
schedules for now runs as well, but the handler does not wait for it. A job that ends DEAD raises JobDead from the verb,
with the handler's error and traceback; with `errors="keep"` the verb returns it like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from timewheel.errors import InvalidOption, JobDead
from timewheel.job import Job, result_of
from timewheel.model import JobState
from timewheel.scheduler import Scheduler
from timewheel.testing.kit.clock import open_clock
from timewheel.times import utc_datetime
from timewheel.work.context import runs_inside

Errors = Literal["raise", "keep"]


@contextmanager
def inline(scheduler: Scheduler, *, errors: Errors = "raise") -> Iterator[None]:
    """See the module. Also works without virtual time. Raises InvalidOption for another `errors`."""
    if errors not in ("raise", "keep"):
        raise InvalidOption(f'errors={errors!r}: "raise" (JobDead from the verb) or "keep" (the job is DEAD)')
    one, many = scheduler.submit, scheduler.submit_many

    async def submit(submit: Any) -> Job[Any]:
        return (await _run_to_end(scheduler, [await one(submit)], errors))[0]

    async def submit_many(drafts: Iterable[Any]) -> list[Job[Any]]:
        return await _run_to_end(scheduler, await many(drafts), errors)

    own = vars(scheduler)
    kept: dict[str, Any] = {name: own.pop(name) for name in ("submit", "submit_many") if name in own}
    own["submit"], own["submit_many"] = submit, submit_many
    try:
        yield
    finally:
        del own["submit"], own["submit_many"]
        own.update(kept)


async def _run_to_end(scheduler: Scheduler, jobs: list[Job[Any]], errors: Errors) -> list[Job[Any]]:
    if runs_inside(scheduler):
        return jobs  # a handler that waited for its own queue might wait for ever
    now = utc_datetime(scheduler._system.clock.wall_us())
    ended = [await job.wait() if job.due_at <= now and job.state is not JobState.WAITING else job for job in jobs]
    clock = open_clock()
    if clock is not None and scheduler._system is clock.system:
        await clock.advance(0)
    for job in ended:
        if job.state is JobState.DEAD and errors == "raise":
            _raise(job)
    return ended


def _raise(job: Job[Any]) -> None:
    try:
        result_of(job)
    except JobDead as error:
        error.add_note(job.error or "")
        raise

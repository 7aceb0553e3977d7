"""Checkers that count on their own: what handlers run, what was asked for, and when somebody watched."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US, ClockKind, JobState
from timewheel.testing.simulation.checking import Checker, tagged
from timewheel.testing.simulation.facts import Began, Ended, LifeRecord

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

NOTICED_US = 4 * SECOND_US  # a step or a suspend is noticed within a second, unless the loop is blocked meanwhile


class OneHandler(Checker):
    """One handler a job runs, whatever the journal says of its attempts."""

    number = "I12"
    sentence = "At most one open attempt per job, and one handler that works for it"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """None begins before the one before it has ended."""
        running: dict[str, Began] = {}
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Began):
                cls.demand(fact.job_id not in running, "two handlers at once", running.get(fact.job_id), fact)
                running[fact.job_id] = fact
            elif isinstance(fact, Ended):
                running.pop(fact.job_id, None)


class Misfires(Checker):
    """A job with a misfire grace is skipped when nobody watched at its time, and only then."""

    number = "I19"
    sentence = "A one-shot job with a misfire grace is skipped exactly if nobody watched at its time"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """`watched`: when this life began, and when its machine woke or its clock was set."""
        for job_id, job in record.after["jobs"].items():
            old = record.before["jobs"].get(job_id)
            skipped_now = old is None or old.state is not JobState.SKIPPED
            if job.state is JobState.SKIPPED and job.misfire_grace_us is not None and skipped_now:
                until = job.due_at + job.misfire_grace_us
                since = max((now.on(job.due_clock) for now in record.watched), default=0)
                cls.demand(until < since + NOTICED_US, f"SKIPPED, {until - since} us before its grace ended", job)
            first = record.after["attempts"].get((job_id, 1))
            if first is None or (job_id, 1) in record.before["attempts"] or job.misfire_grace_us is None:
                continue
            if record.watched and (first.clock is ClockKind.STEADY or not record.stepped_us):
                late = record.watched[0].on(first.clock) - first.scheduled_at - job.misfire_grace_us
                cls.demand(late <= 0, f"ran, {late} us after its grace had ended", job, first)


class MadeOnce(Checker):
    """One request without a key makes one job."""

    number = "I3"
    sentence = "A request makes one job or none, also when its caller was told that nobody knows"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Jobs by tag."""
        jobs = Counter(tag for tag, job in tagged(world, record) if job.idempotency_key is None)
        twice = {tag for tag, number in jobs.items() if number > 1}
        cls.demand(not twice, f"made more than once: {sorted(twice)}")

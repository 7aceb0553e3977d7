"""Checkers of time: back-off, steady time, pauses, and that nothing begins too late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from timewheel.events import SweepFound
from timewheel.model import SECOND_US, AttemptState, ClockKind, job_number, job_text
from timewheel.testing.simulation.checking import Checker
from timewheel.testing.simulation.facts import Answered, Asked, Began, Ended, LifeRecord, Note, Shaped
from timewheel.testing.simulation.facts_flow import Rerun
from timewheel.testing.simulation.world import STOP

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

RETRY_AFTER_US = SECOND_US * 3 // 2  # what a throttled handler asks for
LATE_US = 4 * SECOND_US
MAY_WAIT = ("key", "probe", "schedule", "alone", "flow")  # known before, or held until another job has ended
SLACK_US = SECOND_US  # how much later than its handler an attempt may be judged, beside the time in which nothing runs


def blocked_us(world: World, begin_us: int, end_us: int) -> int:
    """How long the loop was blocked, by handlers too, between two instants of elapsed time."""
    blocks = ((begin + asleep, end + asleep) for begin, end, asleep in world.machine.blocks)
    return sum(max(0, min(end, end_us) - max(begin, begin_us)) for begin, end in blocks)


def held_up_us(record: LifeRecord, *kinds: str) -> int:
    """How long the plan of a life lets its machine sleep, and its loop be blocked by others than handlers."""
    kinds = kinds or ("suspend", "block")
    held_up = (float(move.what["s"]) for move in record.life.moves if move.kind in kinds)
    return round(SECOND_US * sum(held_up))


class BackOff(Checker):
    """A retry comes after the back-off, and not long after."""

    number = "I14"
    sentence = "Back-off within [base, cap] and jitter bounds; a permanent error never retries"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """The due time of each attempt that follows a failure of this life."""
        moved = {fact.job_id for fact in world.log if isinstance(fact, Asked) and fact.verb == "reschedule"}
        moved |= {job_text(job_id) for job_id, flow in world.journal.book.flow.flows.items() if flow.unique is not None}
        again = {(fact.job_id, fact.attempt) for fact in world.log if isinstance(fact, Rerun)}
        for fact in world.log[record.begin : record.end]:
            followed = isinstance(fact, Ended) and (job_number(fact.job_id), fact.attempt) not in again
            if isinstance(fact, Ended) and followed and fact.job_id not in moved:
                cls._after(world, record, fact)

    @classmethod
    def _after(cls, world: World, record: LifeRecord, fact: Ended) -> None:
        job_id = job_number(fact.job_id) or 0
        failed = record.after["attempts"].get((job_id, fact.attempt))
        following = record.after["attempts"].get((job_id, fact.attempt + 1))
        if failed is None or following is None or failed.state is not AttemptState.FAILED_RETRYABLE:
            return
        retry = record.after["jobs"][job_id].retry
        delay_us = following.scheduled_at - fact.steady_us
        least_us, most_us = retry.base_us, max(retry.cap_us, RETRY_AFTER_US)
        cls.demand(following.clock is ClockKind.STEADY, "a retry by the wall clock", failed, following)
        cls.demand(delay_us >= least_us, f"retried {least_us - delay_us} us before its back-off", failed, following)
        if fact.tag.startswith("flow"):
            return  # rates may put it off
        held_us = held_up_us(record, "suspend") + blocked_us(world, fact.elapsed_us, fact.elapsed_us + delay_us)
        too_late_us = delay_us - most_us - SLACK_US - held_us
        cls.demand(too_late_us <= 0, f"retried {too_late_us} us after its longest back-off", failed, following)


class SteadyTime(Checker):
    """Steady time never jumps and never goes back."""

    number = "I21"
    sentence = "Steady time goes on by elapsed time, whatever is done to the wall clock"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """On one boot it goes on as if there had been no restart; over a boot it does not go back."""
        former = [each for each in world.lives[: record.number - 1] if each.ran]
        if record.ran and former:
            last = former[-1]
            off_us = record.offset_us - last.offset_us
            cls.demand(off_us == 0 or record.boots != last.boots, f"steady time jumped by {off_us} us")
        cls.demand(world.journal.went_back_us == 0, f"steady time went back by {world.journal.went_back_us} us")


class NothingLost(Checker):
    """The sweep finds nothing: every due job is in memory."""

    number = "I15"
    sentence = "What the memory of a living scheduler lacks of its journal is a fault"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """No SweepFound."""
        found = [each for each in record.notices if isinstance(each, SweepFound)]
        cls.demand(not found, "due jobs were nowhere in memory", *found)


class Pauses(Checker):
    """A paused queue starts nothing, also after a restart."""

    number = "I18"
    sentence = "Nothing of a paused queue starts, from the answer of pause to the call of resume"

    @classmethod
    def all_over(cls, world: World) -> None:
        """Follow each queue through the log."""
        paused: set[str] = set()
        resuming: dict[str, int] = {}
        for fact in world.log:
            if isinstance(fact, Asked) and fact.verb == "resume":
                resuming[fact.tag] = fact.number
                paused.discard(fact.tag)
            elif isinstance(fact, Answered) and (fact.verb, fact.how) == ("pause", "ok"):
                if resuming.get(fact.tag, 0) < fact.number:
                    paused.add(fact.tag)
            elif isinstance(fact, Began):
                cls.demand(fact.queue not in paused, f"began while {fact.queue} was paused", fact)


class Stops(Checker):
    """After stop() is called nothing starts."""

    number = "I26"
    sentence = "Graceful stop: nothing starts after the signal"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """What had passed the gate by then may still have its first turn, which a blocked loop holds up."""
        stopped_us, held_us = None, held_up_us(record)
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Note) and fact.what == STOP:
                stopped_us = fact.elapsed_us
            elif isinstance(fact, Began) and stopped_us is not None:
                cls.demand(fact.elapsed_us <= stopped_us + held_us, "began after stop() was called", fact)


class SoonEnough(Checker):
    """While capacity is free, what is due begins."""

    number = "I7"
    sentence = "Start lag is bounded while capacity is free, also after a forward step or a resume"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Jobs due by the steady clock, of a queue without limits, in lives in which nothing held them up."""
        kinds = {move.kind for move in record.life.moves}
        free = world.plan.limits["concurrency"] >= 100 and not world.plan.limits["rate"]
        if record.faulted or record.meddled or not record.ran or not free or kinds & {"pause", "update"}:
            return
        if any(isinstance(fact, Shaped) and fact.queue == "default" for fact in world.log[: record.end]):
            return  # somebody set limits, which are kept
        held_us = 3 * record.longest_commit_us + held_up_us(record)
        for fact, since_us in cls._starts(world, record):
            late_us = fact.elapsed_us - since_us - held_us
            cls.demand(late_us <= LATE_US, f"began {late_us} us late, and nothing was in its way", fact)

    @staticmethod
    def _starts(world: World, record: LifeRecord) -> Iterator[tuple[Began, int]]:
        """(start, when it might have been: it was due, and the scheduler ran and knew of it)."""
        known: dict[str, int] = {}
        for fact in world.log[record.begin : record.end]:
            known.setdefault(getattr(fact, "tag", ""), fact.elapsed_us)
            if isinstance(fact, Began) and fact.queue == "default" and not fact.tag.startswith(MAY_WAIT):
                attempt = record.after["attempts"][job_number(fact.job_id), fact.attempt]
                if attempt.clock is ClockKind.STEADY and attempt.scheduled_at:
                    due_us = attempt.scheduled_at - record.offset_us
                    yield fact, max(due_us, world.log[record.begin].elapsed_us, known[fact.tag])

"""What a checker is: one invariant, looked at after each life, and once more when all of them are over.

To add one, write a class with its `number` and `sentence` and import its module in `timewheel.testing.simulation`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from timewheel.model import AttemptRecord, JobRecord, job_number
from timewheel.testing.invariants import Violated
from timewheel.testing.simulation.facts import Began, Ended, LifeRecord
from timewheel.testing.simulation.facts_flow import Rerun

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World


class Checker:
    """Base of all checkers. Each hook raises Violated."""

    kinds: ClassVar[list[type[Checker]]] = []
    number: ClassVar[str]
    sentence: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kinds.append(cls)

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """A life has ended; its dump is in the record."""

    @classmethod
    def all_over(cls, world: World) -> None:
        """The last life has ended in peace."""

    @classmethod
    def demand(cls, holds: bool, seen: str, *evidence: object) -> None:
        """Raise Violated unless it holds."""
        if not holds:
            raise Violated(cls.number, seen, *evidence)


def check_life(world: World, record: LifeRecord) -> None:
    """Have every checker look at a life that has ended."""
    for kind in Checker.kinds:
        kind.life_over(world, record)


def check_all(world: World) -> None:
    """Have every checker look at all lives."""
    for kind in Checker.kinds:
        kind.all_over(world)


def job_of(record: LifeRecord, job_id: str) -> JobRecord | None:
    """The job of a public id, as the life left it."""
    job: JobRecord | None = record.after["jobs"].get(job_number(job_id))
    return job


def attempt_of(record: LifeRecord, fact: Began | Ended) -> AttemptRecord | None:
    """The row of the attempt that a handler worked for."""
    attempt: AttemptRecord | None = record.after["attempts"].get((job_number(fact.job_id), fact.attempt))
    return attempt


def reruns_of(world: World, until: int) -> dict[int, list[Rerun]]:
    """The replays of each job, up to a place in the log."""
    found: dict[int, list[Rerun]] = defaultdict(list)
    for fact in world.log[:until]:
        if isinstance(fact, Rerun):
            found[fact.job_id].append(fact)
    return found


def tagged(world: World, record: LifeRecord) -> Iterator[tuple[str, JobRecord]]:
    """(tag, job) of every job in the journal that users made one by one."""
    for job_id, job in record.after["jobs"].items():
        if job.origin is not None:
            continue
        yield world.journal.tags.get(job_id, ""), job

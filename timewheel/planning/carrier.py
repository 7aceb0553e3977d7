"""The carrier: turns a schedule that is held into the change that moves it on, and takes note once that is durable."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from timewheel.model import Now, OriginKind
from timewheel.planning.carrying import carried, change_of, parking_of, why
from timewheel.planning.plan import plan
from timewheel.schedule_records import ScheduleState, SkipReason, UnfinishedJob
from timewheel.store.changes import AddEntry, PlanOccurrences

if TYPE_CHECKING:
    from timewheel.planning.definition import Definition
    from timewheel.planning.kept import Kept
    from timewheel.planning.roster import Roster

_log = logging.getLogger("timewheel")


class Surroundings(Protocol):
    """The engine, as planning sees it."""

    def new_id(self) -> int:
        """The id of a new job."""

    def knows(self, task: str) -> bool:
        """Whether this process can run the task."""

    def replace_soon(self, job_id: int) -> None:
        """Have a cancel of this job asked for: another is to take its place."""

    def watch(self, job_id: int, schedule: str) -> None:
        """Have the planner told when this job of the schedule is final."""


class Drafted(NamedTuple):
    """The change that carries a plan out, and what follows once it is durable; the rest of the plan is let go.

    `to_end`: jobs that are to end; None where the schedule is only parked, for the lack of a plan. `attends`: a fixed
    delay goes on once the jobs of the change have ended.
    """

    change: PlanOccurrences
    to_end: tuple[int, ...] | None = None
    attends: bool = False


class Carrier:
    """See the module."""

    def __init__(self, roster: Roster, surroundings: Surroundings) -> None:
        self.tzdata = ""
        self._roster = roster
        self._surroundings = surroundings
        self.new_id = surroundings.new_id

    def draft(
        self,
        kept: Kept,
        unfinished: Sequence[UnfinishedJob],
        because: SkipReason = SkipReason.MISFIRE,
        definition: Definition | None = None,
        now: Now | None = None,
    ) -> Drafted:
        """What becomes of the slots that have come by now, by the schedule's own definition or by another.

        Raises whatever reading the definition, or its rule, raises.
        """
        record = kept.here
        definition = definition or self._roster.definition(kept)
        now = now or self._roster.now()
        made = plan(
            definition, record.schedule, record.position, unfinished, now,
            because=because, tzdata=self.tzdata, finished_at=kept.finished_at,
        )  # fmt: skip
        unknown = None
        if (made.jobs or record.state is ScheduleState.PARKED) and not self._surroundings.knows(definition.task):
            unknown = unknown_task(definition.task)
        change = change_of(record, definition, made, self.new_id, now, unknown)
        return Drafted(change, made.cancel + made.superseded, made.position.next_at is None and not made.ended)

    def draft_or_park(self, kept: Kept, unfinished: Sequence[UnfinishedJob], now: Now | None = None) -> Drafted:
        """As `draft`; a schedule that cannot be planned is parked instead, with the reason. Raises nothing."""
        record = kept.here
        is_parked = record.state is ScheduleState.PARKED
        try:
            if is_parked and not self._surroundings.knows(record.task):
                return Drafted(parking_of(record, unknown_task(record.task)))
            because = SkipReason.PARKED if is_parked else SkipReason.MISFIRE
            return self.draft(kept, unfinished, because, now=now)
        except Exception as fault:  # noqa: BLE001  whatever one schedule does, it is its own affair
            return Drafted(parking_of(record, why(fault)))

    def done(self, kept: Kept, drafted: Drafted) -> None:
        """The change is durable."""
        change, to_end, attends = drafted
        before = kept.here
        kept.record = carried(before, change)
        kept.rest_until = None
        if change.state is ScheduleState.PARKED and (before.state, before.reason) != (change.state, change.reason):
            self._tell_parked(change)
        if to_end is None:
            return
        kept.finished_at = None
        self.replace_soon(to_end)
        if attends:
            self.attend(kept, [job.job_id for job in change.jobs])

    def attend(self, kept: Kept, job_ids: Sequence[int]) -> None:
        """Go on with a fixed delay once these jobs have ended."""
        kept.attending = frozenset(job_ids)
        for job_id in job_ids:
            self._surroundings.watch(job_id, kept.here.schedule)

    def replace_soon(self, job_ids: Sequence[int]) -> None:
        """Have these jobs end."""
        for job_id in job_ids:
            self._surroundings.replace_soon(job_id)

    def _tell_parked(self, change: PlanOccurrences) -> None:
        _log.warning("the schedule %s is parked: %s", change.schedule, change.reason)
        entry = {"schedule": change.schedule, "reason": change.reason}
        self._roster.writer.note(AddEntry("parked", json.dumps(entry)))


def unknown_task(task: str) -> str:
    """The reason of a schedule whose task nobody here can run."""
    return f"no task {task!r} is known here: register it, and the schedule goes on"


def rule_jobs(unfinished: Sequence[UnfinishedJob]) -> list[int]:
    """The jobs of the rule itself."""
    return [job.job_id for job in unfinished if job.kind is OriginKind.RULE]

"""The book of a simulation: what every commit did to schedules, as facts in the order of the commits.

It looks at the journal before and after each batch, so that the checkers know what was there when it was decided.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from timewheel.model import CancelAnswer, JobState, Now
from timewheel.planning.definition import Definition, definition_from_text
from timewheel.recurrence.calendar import Calendar
from timewheel.schedule_records import ScheduleRecord, UnfinishedJob
from timewheel.store.changes import (
    Cancelled,
    Change,
    Done,
    DropSchedule,
    Outcome,
    Planned,
    PlanOccurrences,
    PutCalendar,
    PutSchedule,
    Settled,
    Unheld,
)
from timewheel.testing.simulation.book_flow import FlowBook
from timewheel.testing.simulation.facts import Carried, Dropped, Fact, Freed, Over, Put, Requested

Unfinished = dict[str, list[UnfinishedJob]]


class Book:
    """See the module. `schedules` are the records as they are in the journal; `add` takes a fact."""

    def __init__(self, elapsed_us: Callable[[], int], add: Callable[[Fact], None]) -> None:
        self._elapsed_us = elapsed_us
        self._add = add
        self.flow = FlowBook(elapsed_us, add)
        self._seen: dict[Any, Any] = {}
        self.schedules: dict[str, ScheduleRecord] = {}
        self.changed_us: dict[str, int] = {}  # when a schedule was made or dropped last
        self.said: dict[str, set[tuple[int, str]]] = defaultdict(set)  # version and definition, as ever written
        self.calendars: list[dict[str, Calendar]] = [{}]  # as they were, the newest last
        self.calendars_us = [0]  # when each came
        self.plans: dict[int, Any] = {}  # what checkers made of the facts, by their id()
        self._definitions: dict[tuple[str, int], Definition] = {}

    # ---- what is declared --------------------------------------------------------------------------------------------

    def definition(self, text: str, calendars: int | None = None) -> Definition:
        """A definition as its text says, with the calendars of a time: their place in `calendars`, None: as now."""
        place = len(self.calendars) - 1 if calendars is None else calendars
        found = self._definitions.get((text, place))
        if found is None:
            found = self._definitions[text, place] = definition_from_text(text, self.calendars[place])
        return found

    # ---- around a commit ---------------------------------------------------------------------------------------------

    async def before(self, store: Any, changes: Sequence[Change]) -> Unfinished:
        """Before a batch is written: the unfinished jobs of the schedules that it plans."""
        self._seen = await self.flow.before(store, changes)
        names = sorted({change.schedule for change in changes if isinstance(change, PlanOccurrences)})
        return await store.unfinished(names) if names else {}

    async def after(
        self, store: Any, changes: Sequence[Change], outcomes: Sequence[Outcome], now: Now, busy: Unfinished
    ) -> None:
        """After it was written."""
        names = sorted({change.schedule for change in changes if isinstance(change, PlanOccurrences)})
        left = await store.unfinished(names) if names else {}
        for change, outcome in zip(changes, outcomes, strict=True):
            self._heard(change, outcome, now, (busy, left))
        await self.flow.after(store, changes, outcomes, now, self._seen)

    def _heard(self, change: Change, outcome: Outcome, now: Now, jobs: tuple[Unfinished, Unfinished]) -> None:
        elapsed_us = self._elapsed_us()
        if isinstance(change, PutSchedule) and isinstance(outcome, Done):
            self._put(change.record, elapsed_us, now)
        elif isinstance(change, DropSchedule) and isinstance(outcome, Done):
            self.changed_us[change.schedule] = elapsed_us
            self._add(Dropped(elapsed_us, change.schedule, self.schedules.pop(change.schedule, None), now))
        elif isinstance(change, PutCalendar):
            calendar = Calendar.from_data(json.loads(change.data))
            self.calendars.append({**self.calendars[-1], calendar.name: calendar})
            self.calendars_us.append(elapsed_us)
        elif isinstance(change, PlanOccurrences) and isinstance(outcome, Planned):
            self._carried(change, outcome, (elapsed_us, now), jobs)
        elif isinstance(outcome, Unheld):
            self._add(Freed(elapsed_us, tuple(job_id for _, _, job_id in outcome.places)))
        elif _is_over(outcome):
            state = outcome.job_state if isinstance(outcome, Settled) else JobState.CANCELLED
            self._add(Over(elapsed_us, outcome.job_id, now, state))
        elif isinstance(outcome, Cancelled) and outcome.answer is CancelAnswer.REQUESTED:
            self._add(Requested(elapsed_us, outcome.job_id))

    def _put(self, record: ScheduleRecord, elapsed_us: int, now: Now) -> None:
        before = self.schedules.get(record.schedule)
        if before is None:
            self.changed_us[record.schedule] = elapsed_us
        self.schedules[record.schedule] = record
        self.said[record.schedule].add((record.version, record.definition))
        self._add(Put(elapsed_us, record.schedule, before, record, now))

    def _carried(
        self, change: PlanOccurrences, outcome: Planned, when: tuple[int, Now], jobs: tuple[Unfinished, Unfinished]
    ) -> None:
        before = self.schedules[change.schedule]
        self.schedules[change.schedule] = carried(before, change)
        busy, left = (tuple(each.get(change.schedule, ())) for each in jobs)
        place = len(self.calendars) - 1
        self._add(Carried(when[0], change.schedule, change, outcome, when[1], before, busy, left, place))


def _is_over(outcome: Outcome) -> TypeGuard[Settled | Cancelled]:
    """Whether it ended its job."""
    if isinstance(outcome, Settled):
        return outcome.job_state.final
    return isinstance(outcome, Cancelled) and outcome.answer is CancelAnswer.CANCELLED


def carried(before: ScheduleRecord, change: PlanOccurrences) -> ScheduleRecord:
    """What is kept of a schedule when a plan of it was carried out, by the words of PlanOccurrences."""
    after = ScheduleRecord(**{name: getattr(before, name) for name in ScheduleRecord.__slots__})
    after.position = change.position
    if change.state is not None:
        after.state, after.reason, after.until = change.state, change.reason, None
    return after


def is_open(job: UnfinishedJob) -> bool:
    """Whether it is more than waiting for another of its schedule."""
    return not (job.state is JobState.WAITING and job.reason == "overlap")

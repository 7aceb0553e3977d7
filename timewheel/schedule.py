"""Schedule: what the recurring verbs give back. A frozen snapshot with the verbs of the schedule."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack

from timewheel.codec import loads_call
from timewheel.job import Job
from timewheel.planning.definition import Definition
from timewheel.recurrence.rule import Rule
from timewheel.schedule_records import ScheduleRecord, ScheduleState
from timewheel.times import utc_datetime

if TYPE_CHECKING:
    from timewheel.handles import Pages
    from timewheel.occurrences import Backfill, Occurrence, Upcoming
    from timewheel.options import ScheduleOptions
    from timewheel.recurrence.calendar import Calendar

R_co = TypeVar("R_co", covariant=True)


class StandingDesk(Protocol):
    """What a handle asks of its scheduler; each as the verb of Schedule."""

    def offset_us(self) -> int:
        """Wall minus steady at present: puts a steady time on the wall scale."""

    def definition_of(self, record: ScheduleRecord) -> Definition:
        """What the record declares. Raises InvalidRule and its kin when that cannot be read."""

    async def calendars(self) -> dict[str, Calendar]:
        """Read the saved calendars, for `definition_of`."""

    async def fetch(self, schedule: str) -> Schedule[Any]:
        """A new snapshot; ScheduleNotFound when it is gone."""

    async def update(
        self, schedule: str, rule: str | Rule | None, options: dict[str, Any], if_version: int | None
    ) -> Schedule[Any]:
        """See Schedule.update."""

    async def trigger(self, schedule: str, *, force: bool) -> Job[Any] | None:
        """See Schedule.trigger."""

    async def backfill(
        self, schedule: str, start: datetime | float, end: datetime | float, *, dry_run: bool, at_once: int, most: int
    ) -> Backfill[Job[Any]]:
        """See Schedule.backfill."""

    async def pause(
        self, schedule: str, note: str | None, until: datetime | float | None, if_version: int | None
    ) -> Schedule[Any]:
        """See Schedule.pause."""

    async def resume(self, schedule: str, if_version: int | None) -> Schedule[Any]:
        """See Schedule.resume."""

    async def delete(self, schedule: str, if_version: int | None) -> None:
        """See Schedule.delete."""

    async def preview(self, schedule: str, n: int, after: datetime | float | None) -> list[Upcoming]:
        """See Schedule.preview."""

    def occurrences(self, schedule: str, page_size: int, page_token: str | None) -> Pages[Occurrence]:
        """See Schedule.occurrences."""


class ScheduleSnapshot(Generic[R_co]):
    """A standing rule that makes jobs of one task, as it was when this snapshot was made. Instants are in UTC."""

    __slots__ = ("_definition", "desk", "record")

    def __init__(self, desk: StandingDesk, record: ScheduleRecord) -> None:
        self.desk = desk
        self.record = record
        self._definition: Definition | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.task} {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScheduleSnapshot) and self.record == other.record

    def __hash__(self) -> int:
        return hash(self.record.schedule)

    @property
    def definition(self) -> Definition:
        """All that was declared, checked (durations in microseconds).

        Raises InvalidRule when this process cannot read it (an unknown zone, a newer timewheel): then it is PARKED.
        """
        if self._definition is None:
            self._definition = self.desk.definition_of(self.record)
        return self._definition

    @property
    def id(self) -> str:
        """Its name: the one it was given, or that of its task."""
        return self.record.schedule

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.record.task

    @property
    def state(self) -> ScheduleState:
        """ACTIVE, PAUSED, PARKED (it cannot be planned) or ENDED."""
        return self.record.state

    @property
    def reason(self) -> str | None:
        """Why it is parked or has ended; the note of a pause."""
        return self.record.reason

    @property
    def version(self) -> int:
        """Grows with every edit, pause and resume; for `if_version`."""
        return self.record.version

    @property
    def queue(self) -> str:
        """The queue of its jobs."""
        return self.record.queue

    @property
    def rule(self) -> Rule:
        """When it recurs. Raises like `definition`."""
        return self.definition.rule

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of its jobs."""
        return tuple(loads_call(self.definition.arguments)[0])

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of its jobs."""
        return loads_call(self.definition.arguments)[1]

    @property
    def next_at(self) -> datetime | None:
        """Its next occurrence, before jitter. None when it is not ACTIVE or has none, and while a run that the next one
        is counted from has not ended.
        """
        position = self.record.position
        if position.next_at is None or self.record.state is not ScheduleState.ACTIVE:
            return None
        return utc_datetime(position.next_at + (self.desk.offset_us() if position.clock else 0))

    @property
    def paused_until(self) -> datetime | None:
        """When its pause ends by itself."""
        return None if self.record.until is None else utc_datetime(self.record.until)

    @property
    def created_at(self) -> datetime:
        """When it was first declared."""
        return utc_datetime(self.record.created_at)

    @property
    def updated_at(self) -> datetime:
        """When it was last edited, paused or resumed."""
        return utc_datetime(self.record.updated_at)


class Schedule(ScheduleSnapshot[R_co]):
    """A standing rule that makes jobs of one task, as it was when this snapshot was made, and what can be done with it.

    The verbs are coroutines of the scheduler's own event loop; other threads use the schedules that
    `scheduler.blocking` gives. Each raises ScheduleNotFound when the schedule is gone, and those that take `if_version`
    VersionConflict when it has another version; then nothing was changed. What they did survives a crash.
    """

    __slots__ = ()

    async def refresh(self) -> Schedule[R_co]:
        """A new snapshot."""
        return await self.desk.fetch(self.id)

    async def update(
        self, rule: str | Rule | None = None, *, if_version: int | None = None, **options: Unpack[ScheduleOptions]
    ) -> Schedule[R_co]:
        """Change the rule, the options that are named, or both; the rest stays. Does not resume a paused schedule.

        A rule given as text keeps the zone, gap and fold that there were, unless others are named. A changed rule,
        zone or `start` counts from now; slots that were due before follow the old one. Jobs that were made stay as
        they are. Raises InvalidRule, InvalidOption.
        """
        return await self.desk.update(self.id, rule, dict(options), if_version)

    async def trigger(self, *, force: bool = False) -> Job[R_co] | None:
        """Run it once now, beside its rule, as its overlap policy lets it; `force` goes past the policy.

        The job that was made, or the one that waits and that this joins; None when the policy skipped it. Works in
        every state of the schedule, and changes none.
        """
        return await self.desk.trigger(self.id, force=force)

    async def backfill(
        self,
        start: datetime | float,
        end: datetime | float,
        /,
        *,
        dry_run: bool = True,
        at_once: int = 1,
        most: int = 1_000,
    ) -> Backfill[Job[R_co]]:
        """Make up for the slots of [start, end) that have come and did not run, whatever the reason.

        Slots that are still to be caught up with count as run. Of a pause, what was not made up for by then and lies
        before the last slot that was is skipped.

        A dry run only counts. Otherwise jobs are made for the oldest `most` (1 to 1,000) of them, oldest first, of
        which `at_once` run at a time. Raises InvalidTime, InvalidOption.
        """
        return await self.desk.backfill(self.id, start, end, dry_run=dry_run, at_once=at_once, most=most)

    async def pause(
        self, note: str | None = None, until: datetime | float | None = None, *, if_version: int | None = None
    ) -> Schedule[R_co]:
        """Make no jobs until `resume`, or until an instant. Jobs that were made run on.

        When it resumes, the slots that passed were missed, and its misfire policy says what becomes of them.
        """
        return await self.desk.pause(self.id, note, until, if_version)

    async def resume(self, *, if_version: int | None = None) -> Schedule[R_co]:
        """End a pause. Harmless when it is not paused."""
        return await self.desk.resume(self.id, if_version)

    async def delete(self, *, if_version: int | None = None) -> None:
        """Forget it. The jobs that it made, and its ledger, stay."""
        await self.desk.delete(self.id, if_version)

    async def preview(self, n: int = 10, after: datetime | float | None = None) -> list[Upcoming]:
        """Its next `n` occurrences (1 to 1,000) after now or `after`, and what it will leave out among them, and why.

        As far as the rule tells: what a misfire or an overlap will do is not known ahead; nothing once it has ended.
        An `after` may be past: what has come has the reason "past", and `occurrences` tells what became of it.
        """
        return await self.desk.preview(self.id, n, after)

    def occurrences(self, *, page_size: int = 100, page_token: str | None = None) -> Pages[Occurrence]:
        """What became of its occurrences, the newest first: `async for` over it, or `await` it for one Page."""
        return self.desk.occurrences(self.id, page_size, page_token)

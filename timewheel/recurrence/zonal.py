"""What Cron and Civil share: days and times of a wall clock, in a zone, with policies and perhaps a calendar.

Pure, but for loading the zone's data.
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from timewheel import zones
from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.model import SECOND_US
from timewheel.recurrence.calendar import Calendar, calendar_name
from timewheel.recurrence.choices import Fold, FoldName, Gap, GapName, Roll, RollName, choice, roll_choice
from timewheel.recurrence.civil import EPOCH_DAY, REACH_S, Kind, Slot, start_s
from timewheel.recurrence.gaps import lost_in_gaps
from timewheel.recurrence.offsets import DAY_S, offset_s, transitions
from timewheel.recurrence.rolling import OpenDates, RolledDates
from timewheel.recurrence.rule import Note, Occurrence, Rule, Skipped
from timewheel.recurrence.search import Dates, Plan, count_in, last_in, next_slot
from timewheel.recurrence.times import DayTimes

DEFAULT_TZ = "UTC"


class Settings(NamedTuple):
    """Where a zonal rule lives: the options that Cron and Civil share, as checked."""

    tz: str | None
    gap: Gap
    fold: Fold
    calendar: Calendar | str | None
    roll: Roll | None


def settings(
    tz: str | None, gap: GapName, fold: FoldName, calendar: Calendar | str | None, roll: RollName | None
) -> Settings:
    """The options as checked. Raises InvalidRule naming the field."""
    if tz is not None:
        zones.zone(tz)
    if calendar is not None and not isinstance(calendar, Calendar):
        calendar = calendar_name(calendar)
    if roll is not None and calendar is None:
        raise InvalidRule(
            f'roll={shown(roll)} needs a calendar, which says what a business day is; Calendar("weekdays") knows '
            f"weekends only",
            field="roll",
        )
    return Settings(tz, choice(Gap, "gap", gap), choice(Fold, "fold", fold), calendar, roll_choice(roll))


class Zonal(Rule):
    """A rule of wall time in a zone. `tz` is None for UTC by default, so that a scheduler may have another default."""

    __slots__ = ("_plan", "calendar", "fold", "gap", "roll", "tz")

    tz: str | None
    gap: Gap
    fold: Fold
    calendar: Calendar | str | None
    roll: Roll | None
    _plan: Plan | None

    def _settle(self, chosen: Settings, dates: Dates, times: DayTimes, *, wild: bool) -> None:
        """Take the options, and work out what the rule comes down to. Raises InvalidRule when nothing is left."""
        self._set(**chosen._asdict())
        gap = (Gap.SKIP if wild else Gap.FIRE_AFTER) if chosen.gap is Gap.AUTO else chosen.gap
        fold = (Fold.BOTH if wild else Fold.FIRST) if chosen.fold is Fold.AUTO else chosen.fold
        days: Dates | None = dates
        if isinstance(chosen.calendar, Calendar):
            days = self._with_calendar(dates, chosen.calendar, chosen.roll)
        elif chosen.calendar is not None:
            days = None
        plan = None if days is None else Plan(days, times, zones.zone(chosen.tz or DEFAULT_TZ), gap, fold)
        self._set(_plan=plan)

    def _with_calendar(self, dates: Dates, calendar: Calendar, roll: Roll | None) -> Dates:
        if roll is not None:
            return RolledDates(dates, calendar, roll)
        left = OpenDates(dates, calendar)
        if not left.possible():
            raise InvalidRule(
                f"{self!r} never runs: each of its dates is a weekend day of the calendar {calendar.name!r}; "
                f"roll= would move them",
                field="calendar",
            )
        return left

    def _options(self) -> dict[str, Any]:
        """The options that differ from their defaults, as keyword arguments."""
        given: dict[str, Any] = {"tz": self.tz, "calendar": self.calendar, "roll": self.roll}
        given = {name: value for name, value in given.items() if value is not None}
        given |= {"gap": self.gap} if self.gap is not Gap.AUTO else {}
        return given | ({"fold": self.fold} if self.fold is not Fold.AUTO else {})

    @abstractmethod
    def _again(self, **changes: Any) -> Self:
        """The same rule with other options."""

    def with_zone(self, tz: str) -> Self:
        """The same rule in `tz`, unless it names a zone of its own."""
        return self if self.tz is not None else self._again(tz=tz)

    def with_calendar(self, calendar: Calendar) -> Self:
        """The same rule with the calendar whose name it has. Raises InvalidRule when it names another or none."""
        name = self.calendar.name if isinstance(self.calendar, Calendar) else self.calendar
        if name != calendar.name:
            raise InvalidRule(f"{self!r} does not name the calendar {calendar.name!r}", field="calendar")
        return self._again(calendar=calendar)

    def without_calendar(self) -> Self:
        """The same rule on every date that it names, business day or not."""
        return self._again(calendar=None, roll=None)

    @property
    def plan(self) -> Plan:
        """Days, times, zone and policies. Raises InvalidRule when only the calendar's name is known."""
        if self._plan is None:
            raise InvalidRule(
                f"{self!r} has only the name of its calendar: the dates are looked up when it is scheduled; give a "
                f"Calendar object to use it alone",
                field="calendar",
            )
        return self._plan

    def following(self, after_us: int) -> Occurrence | None:
        """The first occurrence after the instant (wall microseconds)."""
        slot = next_slot(self.plan, after_us // SECOND_US)
        return None if slot is None else _occurrence(self.plan, slot)

    def latest(self, after_us: int, until_us: int) -> Occurrence | None:
        """The last occurrence with after_us < instant_us <= until_us, found without visiting the others."""
        slot = last_in(self.plan, after_us // SECOND_US, until_us // SECOND_US)
        return None if slot is None else _occurrence(self.plan, slot)

    def count(self, after_us: int, until_us: int) -> int:
        """How many occurrences have after_us < instant_us <= until_us, counted without visiting them."""
        return count_in(self.plan, after_us // SECOND_US, until_us // SECOND_US)

    def skipped(self, after_us: int, until_us: int) -> list[Skipped]:
        """What was lost in gaps at changes of the clocks with after_us < instant_us <= until_us, in order."""
        if self.gap is Gap.AUTO:
            return []
        lost = lost_in_gaps(self.plan, after_us // SECOND_US, until_us // SECOND_US)
        return [Skipped(one.at_s * SECOND_US, _naive(one.first_s), one.times) for one in lost]

    def _fields(self) -> dict[str, Any]:
        """The options as plain data; a calendar is kept by its name."""
        calendar = self.calendar.name if isinstance(self.calendar, Calendar) else self.calendar
        return {
            "tz": self.tz,
            "gap": self.gap.value,
            "fold": self.fold.value,
            "calendar": calendar,
            "roll": self.roll.value if self.roll is not None else None,
        }


def _occurrence(plan: Plan, slot: Slot) -> Occurrence:
    offset = offset_s(plan.zone, slot.instant_s)
    local_s = slot.instant_s + offset
    notes = [Note.GAP] if slot.kind is not Kind.PLAIN else _fold_notes(plan, slot.instant_s)
    day = slot.day
    if isinstance(plan.dates, RolledDates):
        day = plan.dates.nominal(day)
        notes += [Note.ROLL] if day != slot.day else []
    nominal = _naive(start_s(day) + slot.time_s)
    return Occurrence(slot.instant_s * SECOND_US, _naive(local_s), offset, nominal, tuple(notes))


def _fold_notes(plan: Plan, instant_s: int) -> list[Note]:
    for change in transitions(plan.zone, instant_s - REACH_S - DAY_S, instant_s + REACH_S + DAY_S):
        twice = change.before_s - change.after_s
        if change.at_s - twice <= instant_s < change.at_s:
            return [Note.FOLD_FIRST]
        if change.at_s <= instant_s < change.at_s + twice:
            return [Note.FOLD_SECOND]
    return []


def _naive(local_s: int) -> datetime:
    return datetime.fromordinal(EPOCH_DAY) + timedelta(seconds=local_s)

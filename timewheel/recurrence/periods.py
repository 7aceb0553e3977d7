"""Civil: every so many days or weeks at a wall time, such as every second Friday at 09:00.

Pure, but for loading the zone's data.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, final
from zoneinfo import ZoneInfo

from timewheel import zones
from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.misfits import told
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.choices import FoldName, GapName, RollName
from timewheel.recurrence.search import LAST_DAY
from timewheel.recurrence.times import DayTimes
from timewheel.recurrence.wording import civil_words, zonal_words
from timewheel.recurrence.zonal import Zonal, settings

MOST_DAYS = 3_660
MOST_WEEKS = MOST_DAYS // 7
_VERSION = 1
_NEEDS = {"anchor": "anchor=, its first slot: a day with its time, like anchor=datetime(2026, 1, 9, 9, 0)"}
_ELSEWHERE = {
    "timezone": "did you mean tz?",
    "zone": "did you mean tz?",
    "months": 'for days of months write a cron rule, like Cron("0 9 1 * *")',
    "hours": "for elapsed time write Every(timedelta(hours=...))",
}


class CivilDates(NamedTuple):
    """Every `period` days from a first day on; see `search.Dates`."""

    first: int
    period: int

    def next(self, day: int) -> int | None:
        """The first day at or after `day`, None beyond LAST_DAY."""
        found = self.first + max(0, -((self.first - day) // self.period)) * self.period
        return found if found <= LAST_DAY else None

    def last(self, day: int) -> int | None:
        """The last day at or before `day`, None before the first."""
        day = min(day, LAST_DAY)
        return None if day < self.first else day - (day - self.first) % self.period

    def between(self, day: int, end_day: int) -> int:
        """How many days lie in [day, end_day)."""
        first = self.next(day)
        return 0 if first is None else max(0, (end_day - 1 - first) // self.period + 1)


@final
class Civil(Zonal):
    """Every `days` days or `weeks` weeks at a wall time, from the anchor on, which is the first.

    `Civil(weeks=2, anchor=datetime(2026, 1, 9, 9, 0), tz="Europe/Berlin")`: every second Friday at 09:00 in Berlin,
    whatever its offset. anchor: a datetime without microseconds; a naive one is a wall time in `tz`, an aware one is
    taken there, and names the zone when `tz` is not given. tz, gap, fold, calendar, roll: as for Cron; AUTO is
    FIRE_AFTER and FIRST. Raises InvalidRule naming the field.
    """

    __slots__ = ("anchor", "period_days", "weekly")

    kind = "civil"
    anchor: datetime  # naive, in the zone
    period_days: int
    weekly: bool  # written in weeks

    @told("Civil", InvalidRule, _NEEDS, _ELSEWHERE)
    def __init__(
        self,
        *,
        days: int | None = None,
        weeks: int | None = None,
        anchor: datetime,
        tz: str | None = None,
        gap: GapName = "AUTO",
        fold: FoldName = "AUTO",
        calendar: Calendar | str | None = None,
        roll: RollName | None = None,
    ) -> None:
        period = _period("days", days, MOST_DAYS) or 7 * _period("weeks", weeks, MOST_WEEKS)
        if (days is None) == (weeks is None):
            raise InvalidRule("give either days= or weeks=, such as weeks=2", field="days")
        chosen = settings(_zone_of(anchor, tz), gap, fold, calendar, roll)
        wall = _wall(anchor, chosen.tz)
        self._set(anchor=wall, period_days=period, weekly=weeks is not None)
        times = DayTimes((wall.hour,), (wall.minute,), (wall.second,))
        self._settle(chosen, CivilDates(wall.toordinal(), period), times, wild=False)

    def __repr__(self) -> str:
        given = self._period() | {"anchor": self.anchor} | self._options()
        return f"Civil({', '.join(f'{name}={_shown(value)}' for name, value in given.items())})"

    def _period(self) -> dict[str, Any]:
        return {"weeks": self.period_days // 7} if self.weekly else {"days": self.period_days}

    def _key(self) -> tuple[object, ...]:
        return self.period_days, self.anchor, self.tz, self.gap, self.fold, self.calendar, self.roll

    def _again(self, **changes: Any) -> Self:
        options: dict[str, Any] = self._period() | self._options() | changes
        return type(self)(anchor=self.anchor, **options)

    def explain(self) -> str:
        """The rule in words."""
        return civil_words(self.anchor, self.period_days, weekly=self.weekly) + zonal_words(self, wild=False)

    def to_data(self) -> dict[str, Any]:
        """The rule as plain data (kind, version, fields)."""
        period = {"days": None, "weeks": None, **self._period()}
        return {
            "kind": self.kind, "version": _VERSION, **period, "anchor": self.anchor.isoformat(), **self._fields(),
        }  # fmt: skip


def _period(field: str, value: int | None, most: int) -> int:
    """The number given, 0 for None."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise InvalidRule(f"{field}={shown(value)}: it must be an int from 1 to {most}", field=field)
    return int(value)


def _zone_of(anchor: object, tz: str | None) -> str | None:
    """The zone's name: `tz`, or the one that an aware anchor names. Raises InvalidRule when that names none."""
    if not isinstance(anchor, datetime):
        hint = "a datetime, which has the time of day too, like datetime(2026, 1, 9, 9, 0)"
        raise InvalidRule(f"anchor={shown(anchor)}: it must be {hint}", field="anchor")
    if tz is not None or anchor.tzinfo is None:
        return tz
    if anchor.tzinfo is UTC:
        return "UTC"
    if isinstance(anchor.tzinfo, ZoneInfo) and anchor.tzinfo.key:
        return anchor.tzinfo.key
    raise InvalidRule(f"anchor={shown(anchor)} has a fixed offset, which names no zone: give tz= as well", field="tz")


def _wall(anchor: datetime, tz: str | None) -> datetime:
    """The anchor as a naive wall time in the zone."""
    if anchor.microsecond:
        raise InvalidRule(f"anchor={shown(anchor)}: it may have no fraction of a second", field="anchor")
    plain = datetime.combine(anchor.date(), anchor.timetz())  # no subclass
    if anchor.tzinfo is None:
        return plain.replace(fold=0)
    try:
        return plain.astimezone(zones.zone(tz or "UTC")).replace(tzinfo=None, fold=0)
    except OverflowError as error:
        raise InvalidRule(f"anchor={shown(anchor)} is out of range in that zone", field="anchor") from error


def _shown(value: object) -> str:
    return repr(str(value)) if isinstance(value, str) else repr(value)

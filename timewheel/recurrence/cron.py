"""Cron: a rule written as a cron text.

Pure, but for loading the zone's data.
"""

from __future__ import annotations

from typing import Any, Self, final

from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.misfits import told
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.choices import Fold, FoldName, GapName, RollName
from timewheel.recurrence.cron_text import CronText, read
from timewheel.recurrence.wording import cron_words, zonal_words
from timewheel.recurrence.zonal import Zonal, settings

_VERSION = 1
_NEEDS = {"expr": 'the text of a cron rule: write Cron("0 9 * * mon")'}
_ELSEWHERE = {"timezone": "did you mean tz?", "zone": "did you mean tz?"}


@final
class Cron(Zonal):
    """A cron rule: `Cron("0 9 * * MON-FRI", tz="Europe/Berlin")`.

    expr: minute, hour, day of month, month, day of week, or these five with seconds first; at most 256 characters.
    Names in any case, lists, ranges, steps (`*/5`, `5/15`, `10-50/20`); `?`; L, L-3, LW, 15W for days of the month;
    5L, L5, FRIL, 5#2, FRI#2 for days of the week (0 and 7 are Sunday); @hourly, @daily, @midnight, @weekly, @monthly,
    @yearly, @annually; `CRON_TZ=Europe/Berlin ` in front. If the day of month or the day of week begins with `*` (or
    is `?`) both must match, otherwise either.

    tz: a zone's name, UTC when neither it nor CRON_TZ is given. gap, fold: see Gap and Fold. calendar: a Calendar or
    the name of a saved one; without `roll` its excluded days are left out, with it they are moved (see Roll).
    Raises InvalidRule naming the field: for what is not understood, and for days that never come.
    """

    __slots__ = ("_text", "expr")

    kind = "cron"
    expr: str  # without CRON_TZ, in capitals, single blanks
    _text: CronText

    @told("Cron", InvalidRule, _NEEDS, _ELSEWHERE)
    def __init__(
        self,
        expr: str,
        /,
        *,
        tz: str | None = None,
        gap: GapName = "AUTO",
        fold: FoldName = "AUTO",
        calendar: Calendar | str | None = None,
        roll: RollName | None = None,
    ) -> None:
        text = read(expr)
        if text.tz is not None and tz is not None and tz != text.tz:
            raise InvalidRule(f"{shown(expr)} names its zone, and tz={shown(tz)} another: give one", field="tz")
        self._set(expr=text.text, _text=text)
        chosen = settings(text.tz if tz is None else tz, gap, fold, calendar, roll)
        self._settle(chosen, text.dates, text.times, wild=text.wild)

    def __repr__(self) -> str:
        options = [f"{name}={_shown(value)}" for name, value in self._options().items()]
        return f"Cron({', '.join([repr(self.expr), *options])})"

    def _key(self) -> tuple[object, ...]:
        return self.expr, self.tz, self.gap, self.fold, self.calendar, self.roll

    def _again(self, **changes: Any) -> Self:
        return type(self)(self.expr, **(self._options() | changes))

    @property
    def wild(self) -> bool:
        """Whether its minute or hour begins with a star, and it runs both times where a time occurs twice."""
        return self._text.wild and self.fold in (Fold.AUTO, Fold.BOTH)

    def explain(self) -> str:
        """The rule in words."""
        return cron_words(self._text.fields) + zonal_words(self, wild=self._text.wild)

    def to_data(self) -> dict[str, Any]:
        """The rule as plain data (kind, version, fields)."""
        return {"kind": self.kind, "version": _VERSION, "expr": self.expr, **self._fields()}


def _shown(value: object) -> str:
    return repr(str(value)) if isinstance(value, str) else repr(value)

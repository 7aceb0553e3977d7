"""Rules as data: what `to_data` of a rule or calendar wrote, read back. JSON can hold it; nothing is executed.

Pure, but for loading the zone's data. A version is never given another meaning, so old data stays readable; data of
an unknown kind or version, with a field too many or too few, is refused and never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.periods import Civil
from timewheel.recurrence.rule import Rule
from timewheel.recurrence.zonal import Zonal
from timewheel.times import utc_datetime

NO_CALENDARS: Mapping[str, Calendar] = {}


class _Form(NamedTuple):
    fields: frozenset[str]
    read: Callable[[dict[str, Any]], Rule]


def rule_from_data(data: Mapping[str, Any], calendars: Mapping[str, Calendar] = NO_CALENDARS) -> Rule:
    """The rule that `to_data` wrote, equal to it when `calendars` has the calendar that it names.

    Without that calendar the rule is made all the same; asking it for an occurrence raises InvalidRule. Raises
    InvalidRule for any other data, and for a zone that the installed tzdata lacks (`.field` is "tz").
    """
    fields = dict(data)
    kind, version = fields.pop("kind", None), fields.pop("version", None)
    form = _FORMS.get((kind, version)) if isinstance(kind, str) and isinstance(version, int) else None
    if form is None:
        known = ", ".join(f"{name} {number}" for name, number in _FORMS)
        raise InvalidRule(
            f"a stored rule of kind {shown(kind)}, version {shown(version)}, is not known here (known: {known}); it "
            f"may have been written by a newer timewheel",
            field="kind",
        )
    if fields.keys() != form.fields:
        wrong = sorted(str(name) for name in fields.keys() ^ form.fields)
        raise InvalidRule(f"a stored {kind} rule has too many or too few fields: {shown(wrong)}", field="kind")
    try:
        rule = form.read(fields)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidRule):
            raise
        raise InvalidRule(f"a stored {kind} rule cannot be read: {error!r}", field="kind") from error
    known_calendar = (
        calendars.get(rule.calendar) if isinstance(rule, Zonal) and isinstance(rule.calendar, str) else None
    )
    return rule.with_calendar(known_calendar) if known_calendar is not None and isinstance(rule, Zonal) else rule


def _cron(fields: dict[str, Any]) -> Rule:
    return Cron(fields.pop("expr"), **fields)


def _civil(fields: dict[str, Any]) -> Rule:
    return Civil(anchor=datetime.fromisoformat(fields.pop("anchor")), **fields)


def _every(fields: dict[str, Any]) -> Rule:
    anchor = fields["anchor_us"]
    return Every(
        timedelta(microseconds=fields["interval_us"]),
        anchor=None if anchor is None else utc_datetime(anchor),
        after_completion=fields["after_completion"],
    )


_ZONAL = {"tz", "gap", "fold", "calendar", "roll"}
_FORMS = {
    ("cron", 1): _Form(frozenset({"expr", *_ZONAL}), _cron),
    ("civil", 1): _Form(frozenset({"days", "weeks", "anchor", *_ZONAL}), _civil),
    ("every", 1): _Form(frozenset({"interval_us", "anchor_us", "after_completion"}), _every),
}

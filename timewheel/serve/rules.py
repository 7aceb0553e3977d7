"""From a request to a rule."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from timewheel.checks import shown
from timewheel.errors import InvalidRule
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.periods import Civil
from timewheel.recurrence.rule import Rule
from timewheel.serve.making import instant_of
from timewheel.serve.problems import invalid
from timewheel.serve.schedule_inputs import RuleIn

KINDS = ("cron", "every_s", "days", "weeks")
_ZONAL = ("tz", "gap", "fold", "calendar", "roll")
_BELONGS = {
    "cron": _ZONAL,
    "every_s": ("anchor", "after_completion"),
    "days": ("anchor", *_ZONAL),
    "weeks": ("anchor", *_ZONAL),
}
_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d)?", re.ASCII)


def rule_of(wanted: RuleIn) -> Rule | None:
    """The rule that was given, or None when none was. Raises Problem naming the field."""
    kinds = [name for name in KINDS if getattr(wanted, name) is not None]
    if not kinds:
        return None
    if len(kinds) > 1:
        raise invalid(f"{kinds[0]} and {kinds[1]} are two rules: give one of them", kinds[1])
    [kind] = kinds
    for name in ("anchor", "after_completion", *_ZONAL):
        if given(wanted, name) and name not in _BELONGS[kind]:
            raise invalid(f"{name} does not belong to a rule of {kind}", name)
    try:
        return _RULES[kind](wanted)
    except InvalidRule as error:
        field = error.field if error.field in RuleIn.model_fields else kind
        raise invalid(str(error), field) from None


def given(wanted: RuleIn, name: str) -> bool:
    """Whether a part of a rule was given, and is not null."""
    return getattr(wanted, name) is not None


def _zonal(wanted: RuleIn) -> dict[str, Any]:
    return {name: getattr(wanted, name) for name in _ZONAL if given(wanted, name)}


def _cron(wanted: RuleIn) -> Rule:
    assert wanted.cron is not None, "its kind was found"
    return Cron(wanted.cron, **_zonal(wanted))


def _every(wanted: RuleIn) -> Rule:
    assert wanted.every_s is not None, "its kind was found"
    anchor = instant_of("anchor", wanted.anchor)
    delay = timedelta(seconds=wanted.every_s)
    return Every(delay, anchor=anchor, after_completion=bool(wanted.after_completion))


def _civil(wanted: RuleIn) -> Rule:
    if wanted.anchor is None:
        raise invalid("a rule of days or weeks needs an anchor, like 2026-01-09T09:00:00: its first slot", "anchor")
    if not _LOCAL.fullmatch(wanted.anchor):
        text = f"{shown(wanted.anchor)} is no local time: write it like 2026-01-09T09:00:00, and the zone in tz"
        raise invalid(text, "anchor")
    try:
        anchor = datetime.fromisoformat(wanted.anchor.upper())
    except ValueError as error:
        raise invalid(f"{shown(wanted.anchor)} is no local time: {error}", "anchor") from None
    return Civil(days=wanted.days, weeks=wanted.weeks, anchor=anchor, **_zonal(wanted))


_RULES: dict[str, Callable[[RuleIn], Rule]] = {"cron": _cron, "every_s": _every, "days": _civil, "weeks": _civil}

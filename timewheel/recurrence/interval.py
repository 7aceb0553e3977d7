"""Every: a rule of elapsed time. It knows no zone; gaps and folds do not touch it.

Pure: no asyncio, clock, randomness, files or sockets. Here its slots are instants of one scale; which clock counts them
(steady time, in a scheduler) is not the rule's affair.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Self, final

from timewheel.checks import shown
from timewheel.errors import InvalidRule, InvalidTime
from timewheel.misfits import told
from timewheel.model import MAX_TIME_US, SECOND_US
from timewheel.recurrence.rule import Occurrence, Rule
from timewheel.recurrence.wording import delay_words
from timewheel.times import delay_us, rfc3339, utc_datetime, when_us

LEAST_US = 1_000  # 1 ms, a tick of the wheel
_VERSION = 1
_NEEDS = {"interval": "an interval: seconds, like Every(60), or a timedelta"}
_UNITS = ("seconds", "minutes", "hours", "days", "weeks")
_ELSEWHERE = {unit: f"write Every(timedelta({unit}=...))" for unit in _UNITS}
_ELSEWHERE |= dict.fromkeys(("tz", "timezone"), "elapsed time knows no zone: Cron and Civil do")


@final
class Every(Rule):
    """Every so often: `Every(3600)`, `Every(timedelta(minutes=5))`; seconds or a timedelta, at least a millisecond.

    Slots are anchor, anchor + interval, anchor + 2 * interval, ..., whatever ran when: it never drifts. anchor: an
    aware datetime or Unix seconds, the first slot; without it the phase begins when the schedule is made, and the first
    slot is one interval later. after_completion=True: the interval counts from the end of each run instead (a fixed
    delay), so there is no anchor. Raises InvalidRule naming the field.
    """

    __slots__ = ("after_completion", "anchor_us", "interval_us")

    kind = "every"
    interval_us: int
    anchor_us: int | None
    after_completion: bool

    @told("Every", InvalidRule, _NEEDS, _ELSEWHERE)
    def __init__(
        self,
        interval: timedelta | float,
        /,
        *,
        anchor: datetime | float | None = None,
        after_completion: bool = False,
    ) -> None:
        if not isinstance(after_completion, bool):
            raise InvalidRule(
                f"after_completion={shown(after_completion)}: it must be a bool", field="after_completion"
            )
        if after_completion and anchor is not None:
            raise InvalidRule(
                "after_completion=True counts from the end of each run, so an anchor has no meaning", field="anchor"
            )
        self._set(
            interval_us=_interval_us(interval),
            anchor_us=None if anchor is None else _anchor_us(anchor),
            after_completion=after_completion,
        )

    def __repr__(self) -> str:
        text = repr(
            self.interval_us // SECOND_US if self.interval_us % SECOND_US == 0 else self.interval_us / SECOND_US
        )
        if self.anchor_us is not None:
            text += f", anchor={utc_datetime(self.anchor_us)!r}"
        return f"Every({text}{', after_completion=True' if self.after_completion else ''})"

    def _key(self) -> tuple[object, ...]:
        return self.interval_us, self.anchor_us, self.after_completion

    def anchored(self, now_us: int) -> Self:
        """The same rule with its phase: it begins now, unless an anchor was given. A fixed delay stays as it is."""
        if self.anchor_us is not None or self.after_completion:
            return self
        made = object.__new__(type(self))
        made._set(interval_us=self.interval_us, anchor_us=now_us + self.interval_us, after_completion=False)
        return made

    def following(self, after_us: int) -> Occurrence | None:
        """The first slot after the instant; without an anchor, one interval after it."""
        if self.anchor_us is None:
            return _occurrence(after_us + self.interval_us)
        passed = max(-1, (after_us - self.anchor_us) // self.interval_us)
        return _occurrence(self.anchor_us + (passed + 1) * self.interval_us)

    def latest(self, after_us: int, until_us: int) -> Occurrence | None:
        """The last slot with after_us < instant_us <= until_us; without an anchor, counted from after_us."""
        count = self.count(after_us, until_us)
        if count == 0:
            return None
        first = after_us + self.interval_us if self.anchor_us is None else self._first_us(after_us, self.anchor_us)
        return _occurrence(first + (count - 1) * self.interval_us)

    def count(self, after_us: int, until_us: int) -> int:
        """How many slots have after_us < instant_us <= until_us; without an anchor, counted from after_us."""
        until_us = min(until_us, MAX_TIME_US)
        first = after_us + self.interval_us if self.anchor_us is None else self._first_us(after_us, self.anchor_us)
        return max(0, (until_us - first) // self.interval_us + 1)

    def _first_us(self, after_us: int, anchor_us: int) -> int:
        return anchor_us + max(0, (after_us - anchor_us) // self.interval_us + 1) * self.interval_us

    def explain(self) -> str:
        """The rule in words."""
        delay = delay_words(self.interval_us)
        if self.after_completion:
            return f"{delay} after each run has ended"
        since = "" if self.anchor_us is None else f", counted from {rfc3339(self.anchor_us)}"
        return f"every {delay} of elapsed time{since}"

    def to_data(self) -> dict[str, Any]:
        """The rule as plain data (kind, version, fields)."""
        return {
            "kind": self.kind, "version": _VERSION, "interval_us": self.interval_us, "anchor_us": self.anchor_us,
            "after_completion": self.after_completion,
        }  # fmt: skip


def _interval_us(interval: timedelta | float) -> int:
    try:
        result = delay_us(interval)
    except InvalidTime as error:
        raise InvalidRule(f"interval: {error}", field="interval") from error
    if result < LEAST_US:
        raise InvalidRule(f"interval={shown(interval)}: the least is 0.001 seconds", field="interval")
    return result


def _anchor_us(anchor: datetime | float) -> int:
    try:
        return when_us(anchor)
    except InvalidTime as error:
        raise InvalidRule(f"anchor: {error}", field="anchor") from error


def _occurrence(instant_us: int) -> Occurrence | None:
    if instant_us > MAX_TIME_US:
        return None
    local = utc_datetime(instant_us).replace(tzinfo=None)
    return Occurrence(instant_us, local, 0, local)

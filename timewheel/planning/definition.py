"""All that was declared of a schedule, as one value; and as the text that a journal keeps.

Pure, but for loading the zone's data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import tzinfo
from functools import lru_cache
from typing import Any

import orjson

from timewheel import zones
from timewheel.checks import shown, whole
from timewheel.errors import InvalidOption, InvalidRule
from timewheel.flow import NO_TERMS, Terms
from timewheel.model import DEFAULT_PRIORITY, DEFAULT_QUEUE, RETRY_VERSION, ClockKind, RetryPolicy
from timewheel.options import check_cost
from timewheel.planning.policies import Misfire, MisfirePolicy, OverlapKind, OverlapPolicy
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.interval import Every
from timewheel.recurrence.rule import Rule
from timewheel.recurrence.stored import rule_from_data
from timewheel.recurrence.zonal import Zonal
from timewheel.times import rfc3339

_KIND = "schedule"
_VERSION = 1
_VERSION_WITH_TERMS = 2  # an older timewheel would make its jobs without them
_SHARED = ("retry", "misfire", "overlap", "terms")
_RETRY, _MISFIRE, _OVERLAP = RetryPolicy(), MisfirePolicy(), OverlapPolicy()


@lru_cache(maxsize=4_096, typed=True)
def _one_of(part: Any, _: tzinfo | None = None) -> Any:
    """Of equal values always the same one: many schedules have the same rule and policies, and all stay in memory."""
    return part


def _zone_of(rule: Rule) -> tzinfo | None:
    """The data of its zone, beside which rules are equal."""
    if not isinstance(rule, Zonal) or isinstance(rule.calendar, str):
        return None
    return rule.plan.zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a schedule does, and when. Its text is equal exactly when it is (a calendar counts by its name).

    `arguments` is the codec's JSON text of the call. `start_us` and `end_us` are wall: start <= nominal < end.
    `max_runs` counts the jobs that the rule has made. `jitter_us`: jobs are due within [nominal, nominal + jitter).
    Raises InvalidOption where two of these exclude each other.
    """

    rule: Rule
    task: str
    arguments: str = "[]"
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    retry: RetryPolicy = _RETRY
    timeout_us: int | None = None
    tags: tuple[str, ...] = ()
    concurrency_key: str | None = None
    terms: Terms = NO_TERMS
    misfire: MisfirePolicy = _MISFIRE
    overlap: OverlapPolicy = _OVERLAP
    jitter_us: int = 0
    start_us: int | None = None
    end_us: int | None = None
    max_runs: int | None = None
    declared: str | None = None  # "code": by @scheduler.periodic; "file": by `schedules apply`

    def __post_init__(self) -> None:
        if self.retry.version != RETRY_VERSION:  # its jobs are judged by what holds when they are made
            object.__setattr__(self, "retry", self.retry._replace(version=RETRY_VERSION))
        for name in _SHARED:  # frozen: there is no other way
            object.__setattr__(self, name, _one_of(getattr(self, name)))
        object.__setattr__(self, "rule", _one_of(self.rule, _zone_of(self.rule)))
        if self.start_us is not None and self.end_us is not None and self.end_us <= self.start_us:
            raise InvalidOption(
                f"end={rfc3339(self.end_us)} is not after start={rfc3339(self.start_us)}: nothing would ever run"
            )
        if self.overlap.kind is OverlapKind.SERIALIZE and self.concurrency_key is not None:
            raise InvalidOption(
                f"overlap=SERIALIZE({self.overlap.key!r}) is a concurrency key, and concurrency_key="
                f"{self.concurrency_key!r} another: give one of them"
            )
        if self.max_runs is not None:
            whole("max_runs", self.max_runs, 1, 10**12)
        check_cost(self.terms.cost, self.terms.rate_key)

    @property
    def clock(self) -> ClockKind:
        """The clock that counts its slots: steady for intervals, wall for rules of wall time."""
        return ClockKind.STEADY if isinstance(self.rule, Every) else ClockKind.WALL

    @property
    def fixed_delay(self) -> bool:
        """Whether each slot counts from the end of the run before."""
        return isinstance(self.rule, Every) and self.rule.after_completion

    @property
    def job_key(self) -> str | None:
        """The concurrency key of its jobs: its own, or that of SERIALIZE."""
        return self.overlap.key if self.overlap.kind is OverlapKind.SERIALIZE else self.concurrency_key

    @property
    def calendar(self) -> str | None:
        """The name of the calendar that its rule needs."""
        named = self.rule.calendar if isinstance(self.rule, Zonal) else None
        return named.name if isinstance(named, Calendar) else named

    def same_slots(self, other: Definition) -> bool:
        """Whether the other goes on from the same position: the same rule, its calendar's dates included, and start."""
        return (self.rule, self.start_us) == (other.rule, other.start_us)

    def to_text(self) -> str:
        """The definition as JSON text, always the same for the same definition."""
        data: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        data |= {
            "kind": _KIND,
            "version": _VERSION,
            "rule": self.rule.to_data(),
            "retry": self.retry._asdict() | {"version": 1},  # a schedule names no version: see __post_init__
            "misfire": self.misfire._asdict(),
            "overlap": self.overlap._asdict(),
        }
        if data.pop("terms") != NO_TERMS:
            data |= {"version": _VERSION_WITH_TERMS, "terms": self.terms._asdict()}
        return orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()


def definition_from_text(text: str, calendars: Mapping[str, Calendar]) -> Definition:
    """The definition that `to_text` wrote, with its calendar.

    Raises InvalidRule, saying what is wrong, for text that is not one, that a newer timewheel wrote, or whose zone or
    calendar is not there.
    """
    data = _object(text)
    has_terms = "terms" in data
    if data.pop("kind", None) != _KIND or data.pop("version", None) != (_VERSION_WITH_TERMS if has_terms else _VERSION):
        raise InvalidRule(
            f"{shown(text)} is no schedule of version {_VERSION} or {_VERSION_WITH_TERMS}; a newer timewheel may have "
            f"written it",
            field="definition",
        )
    try:
        rule = _rule(data.pop("rule"), calendars)
        parts = {name: _part(name, orjson.dumps(data.pop(name))) for name in _RECORDS}
        if has_terms:
            parts["terms"] = _record(Terms, data.pop("terms"))
        _same_fields(data, _PLAIN)
        definition = Definition(rule=rule, tags=tuple(data.pop("tags")), **data, **parts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, InvalidRule):
            raise
        raise InvalidRule(f"a stored schedule cannot be read: {error!r}", field="definition") from error
    if isinstance(rule, Zonal) and isinstance(rule.calendar, str):
        raise InvalidRule(
            f"the calendar {rule.calendar!r} is not saved: save it under this name, and the schedule goes on",
            field="calendar",
        )
    return definition


def declared_in(text: str) -> str | None:
    """Where the definition with this text was declared, without reading the rest of it; None for what is none."""
    try:
        return _object(text).get("declared")
    except InvalidRule:
        return None


def _object(text: str) -> dict[str, Any]:
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidRule(f"{shown(text)} is no JSON text: {error}", field="definition") from error
    if not isinstance(data, dict):
        raise InvalidRule(f"{shown(text)} is no schedule", field="definition")
    return data


def _rule(data: Any, calendars: Mapping[str, Calendar]) -> Rule:
    if not isinstance(data, dict) or data.get("calendar") is not None:
        return rule_from_data(data, calendars)
    tz = data.get("tz")
    return _rule_by_itself(orjson.dumps(data), None if tz is None else zones.zone(tz))


@lru_cache(maxsize=4_096)
def _rule_by_itself(stored: bytes, _: tzinfo | None) -> Rule:
    """A rule without a calendar. Thousands of schedules share few rules, and a start reads them all."""
    return rule_from_data(orjson.loads(stored))


@lru_cache(maxsize=4_096)
def _part(name: str, stored: bytes) -> Any:
    return _record(_RECORDS[name], orjson.loads(stored))


def _record(kind: Callable[..., Any], data: dict[str, Any]) -> Any:
    """A record that was stored as an object of its fields, all of them."""
    record = kind(**data)
    _same_fields(data, frozenset(record._fields))
    return record


def _misfire(kind: str, **others: Any) -> MisfirePolicy:
    return MisfirePolicy(Misfire(kind), **others)


def _overlap(kind: str, **others: Any) -> OverlapPolicy:
    return OverlapPolicy(OverlapKind(kind), **others)


def _same_fields(data: Mapping[str, Any], names: frozenset[str]) -> None:
    if data.keys() != names:
        raise ValueError(f"too many or too few fields: {shown(sorted(data.keys() ^ names))}")


_RECORDS: dict[str, Callable[..., Any]] = {"retry": RetryPolicy, "misfire": _misfire, "overlap": _overlap}
_PLAIN = frozenset(field.name for field in fields(Definition)) - {"rule", "terms", *_RECORDS}

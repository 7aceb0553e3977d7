"""Schedules, their ledgers and what is to come, as JSON for people and programs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from timewheel.model import SECOND_US
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.periods import Civil
from timewheel.serve.views import call_view, instant_text, retry_view
from timewheel.times import rfc3339

if TYPE_CHECKING:
    from timewheel.occurrences import Occurrence, Upcoming
    from timewheel.planning.definition import Definition
    from timewheel.recurrence.calendar import Calendar
    from timewheel.recurrence.rule import Rule
    from timewheel.schedule import Schedule

RULE_FIELDS = (
    "cron",
    "every_s",
    "after_completion",
    "days",
    "weeks",
    "anchor",
    "tz",
    "gap",
    "fold",
    "calendar",
    "roll",
)


def schedule_view(schedule: Schedule[Any], definition: Definition | None) -> dict[str, Any]:
    """A schedule as `ScheduleOut` describes it; `definition` None: it cannot be read here."""
    record = schedule.record
    declared = dict.fromkeys(("args", "kwargs", "rule", "in_words", "options", "idempotent"))
    if definition is not None:
        declared = definition_view(definition)
    return {
        "id": record.schedule,
        "task": record.task,
        "queue": record.queue,
        "state": record.state,
        "reason": record.reason,
        "next_at": instant_text(schedule.next_at),
        "paused_until": instant_text(schedule.paused_until),
        "runs": record.position.made,
        "managed": None if definition is None else definition.declared,
        "created_at": rfc3339(record.created_at),
        "updated_at": rfc3339(record.updated_at),
        "version": record.version,
    } | declared


def definition_view(definition: Definition) -> dict[str, Any]:
    """What was declared, as the part of `ScheduleOut` that shows it."""
    args, kwargs = call_view(definition.arguments)
    return {
        "args": args,
        "kwargs": kwargs,
        "rule": rule_view(definition.rule),
        "in_words": definition.rule.explain(),
        "options": _options_view(definition),
        "idempotent": definition.terms.idempotent,
    }


def flat_view(definition: Definition) -> dict[str, Any]:
    """What was declared, each part under the name by which it is given: to tell two definitions apart."""
    shown = definition_view(definition)
    rule: dict[str, Any] = dict.fromkeys(RULE_FIELDS) | shown["rule"]
    return {
        "task": definition.task,
        "args": shown["args"],
        "kwargs": shown["kwargs"],
        **rule,
        "queue": definition.queue,
        **shown["options"],
        "idempotent": shown["idempotent"],
        "managed": definition.declared,
    }


def rule_view(rule: Rule) -> dict[str, Any]:
    """A rule as `RuleOut` describes it: what it would be given as, without what it does not have."""
    if isinstance(rule, Every):
        anchor = None if rule.anchor_us is None else rfc3339(rule.anchor_us)
        shown: dict[str, Any] = {"every_s": rule.interval_us / SECOND_US, "after_completion": rule.after_completion}
        return shown | ({} if anchor is None else {"anchor": anchor})
    data = rule.to_data()
    common = {name: data[name] for name in ("tz", "gap", "fold", "calendar", "roll") if data[name] is not None}
    if isinstance(rule, Cron):
        return {"cron": rule.expr, **common}
    assert isinstance(rule, Civil), "there are three kinds of rules"
    period = {name: data[name] for name in ("days", "weeks") if data[name] is not None}
    return {**period, "anchor": data["anchor"], **common}


def _options_view(definition: Definition) -> dict[str, Any]:
    misfire, overlap, terms = definition.misfire, definition.overlap, definition.terms
    return {
        "priority": definition.priority,
        "retry": retry_view(definition.retry),
        "timeout_s": _seconds(definition.timeout_us),
        "heartbeat_timeout_s": _seconds(terms.heartbeat_timeout_us),
        "expires_after_s": _seconds(terms.expires_after_us),
        "deadline_after_s": _seconds(terms.deadline_after_us),
        "tags": list(definition.tags),
        "concurrency_key": definition.concurrency_key,
        "rate_key": terms.rate_key,
        "cost": None if terms.rate_key is None else terms.cost,
        "partition_key": terms.partition_key,
        "misfire": misfire.kind,
        "misfire_grace_s": misfire.grace_us / SECOND_US,
        "catch_up_max": misfire.catch_up_max,
        "catch_up_per_s": misfire.catch_up_per_s,
        "overlap": {"kind": overlap.kind, "limit": overlap.limit, "key": overlap.key},
        "jitter_s": definition.jitter_us / SECOND_US,
        "start": None if definition.start_us is None else rfc3339(definition.start_us),
        "end": None if definition.end_us is None else rfc3339(definition.end_us),
        "max_runs": definition.max_runs,
    }


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / SECOND_US


def occurrence_view(row: Occurrence) -> dict[str, Any]:
    """A row of a ledger as `OccurrenceOut` describes it."""
    return {
        "nominal_at": instant_text(row.nominal_at),
        "last_at": instant_text(row.last_at),
        "count": row.count,
        "kind": row.kind,
        "fate": row.fate,
        "reason": row.reason,
        "job_id": row.job_id,
        "job_state": row.job_state,
        "recorded_at": instant_text(row.recorded_at),
        "turn": row.turn,
    }


def upcoming_view(one: Upcoming) -> dict[str, Any]:
    """A run to come as `UpcomingOut` describes it."""
    return {
        "at": instant_text(one.at),
        "local": one.local.isoformat() + _offset_text(one.utc_offset.total_seconds()),
        "nominal": _local_text(one.nominal),
        "notes": list(one.notes),
        "scheduled_at": instant_text(one.scheduled_at),
        "reason": one.reason,
        "count": one.count,
    }


def _local_text(local: datetime) -> str:
    return local.isoformat()


def _offset_text(seconds: float) -> str:
    """An offset as RFC 3339 writes it; those of before 1972 may have seconds, which are left out.

    >>> _offset_text(-12_600)
    '-03:30'
    """
    minutes = int(abs(seconds)) // 60
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"


def calendar_view(calendar: Calendar) -> dict[str, Any]:
    """A calendar as `CalendarOut` describes it."""
    days = [
        first.isoformat() if first == last else [first.isoformat(), last.isoformat()]
        for first, last in calendar.exclude
    ]
    return {"name": calendar.name, "exclude": days, "weekend": list(calendar.weekend)}

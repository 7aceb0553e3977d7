"""Who did what to what is everybody's, and why: what an operator must say, and the entries of the audit. Pure.

An entry is a journal entry of kind "audit", written in the transaction of what it tells of, and never changed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from timewheel.checks import printable, shown
from timewheel.errors import InvalidOption
from timewheel.store.port import EntryRow
from timewheel.times import utc_datetime

AUDIT = "audit"
MOST_ACTOR = 200
MOST_REASON = 1_000
_NAMED = ("action", "actor", "reason", "cause_fixed", "job", "operation", "queue", "dependency")


@dataclass(frozen=True, slots=True)
class Account:
    """Who acts, and why. `cause_fixed` only of replays: True, or what was done about it."""

    actor: str
    reason: str
    cause_fixed: str | bool | None = None

    def entry(self, action: str, **more: Any) -> str:
        """The JSON object text of an audit entry; what is None is left out."""
        said = {"actor": self.actor, "reason": self.reason, "cause_fixed": self.cause_fixed}
        return _entry(action, {**said, **more})

    def text(self) -> str:
        """As JSON object text, for `account_of`."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Word:
    """Who changes a queue or a dependency, and why; None where that was not said."""

    actor: str | None = None
    reason: str | None = None

    def entry(self, action: str, **more: Any) -> str:
        """The JSON object text of an audit entry; what is None is left out."""
        return _entry(action, {"actor": self.actor, "reason": self.reason, **more})


def word(actor: Any, reason: Any) -> Word:
    """What was said, checked as by `account`, but for what is None. Raises InvalidOption naming the field."""
    said_actor = None if actor is None else _said("actor", actor, MOST_ACTOR)
    return Word(said_actor, None if reason is None else _said("reason", reason, MOST_REASON))


def _entry(action: str, said: dict[str, Any]) -> str:
    return json.dumps({"action": action, **{name: value for name, value in said.items() if value is not None}})


def account(actor: Any, reason: Any) -> Account:
    """What was said, checked: `actor` of 1 to 200 and `reason` of 1 to 1,000 printable characters.

    Raises InvalidOption naming the field.
    """
    return Account(_said("actor", actor, MOST_ACTOR), _said("reason", reason, MOST_REASON))


def replay_account(actor: Any, reason: Any, cause_fixed: Any) -> Account:
    """As `account`, of a replay: what made the jobs fail must be mended first. Raises InvalidOption."""
    said = account(actor, reason)
    if cause_fixed is False:
        raise InvalidOption(
            "cause_fixed=False: what is not mended fails again, and a replay would only spend its attempts; mend it, "
            "then write cause_fixed=True, or what was done about it",
            field="cause_fixed",
        )
    if cause_fixed is not True:
        try:
            printable("cause_fixed", cause_fixed, MOST_REASON)
        except InvalidOption:
            raise InvalidOption(
                f"cause_fixed={shown(cause_fixed)}: it must be True, or a str of 1 to {MOST_REASON} printable "
                f"characters that says what was done about it",
                field="cause_fixed",
            ) from None
    return Account(said.actor, said.reason, cause_fixed)


def _said(field: str, value: Any, most: int) -> str:
    try:
        return printable(field, value, most)
    except InvalidOption as error:
        raise InvalidOption(f"{error}; it is kept in the audit", field=field) from None


def account_of(text: str) -> Account:
    """Of the JSON object text that an operation keeps."""
    said = json.loads(text)
    return Account(said["actor"], said["reason"], said.get("cause_fixed"))


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act of an operator. `details`: what else was noted, such as the arguments that a replay replaced, as stored,
    or what limits of a queue were `before` and `after` an update, those that changed.

    `action`: "replay", "discard" (of one job), "start" or "stop" (of an operation on many); "pause", "resume" or
    "update" (of a `queue`); "force_open", "force_closed" or "auto" (of the breaker of a `dependency`). Actor and reason
    of the last six are None where they were not said. `cause_fixed` only of replays. `job_id` and `operation_id` as
    they are shown, where there are any. The instant is in UTC.
    """

    number: int
    at: datetime
    action: str
    actor: str | None
    reason: str | None
    cause_fixed: str | bool | None
    job_id: str | None
    operation_id: str | None
    queue: str | None
    dependency: str | None
    details: dict[str, Any]


def audit_entry(row: EntryRow) -> AuditEntry:
    """An entry as it is shown. One that somebody else wrote is shown as far as it has the same words."""
    number, wall_us, _, text = row
    data = json.loads(text)
    if not isinstance(data, dict):
        data = {"data": data}
    return AuditEntry(
        number=number,
        at=utc_datetime(wall_us),
        action=str(data.get("action", "")),
        actor=data.get("actor"),
        reason=data.get("reason"),
        cause_fixed=data.get("cause_fixed"),
        job_id=data.get("job"),
        operation_id=data.get("operation"),
        queue=data.get("queue"),
        dependency=data.get("dependency"),
        details={name: value for name, value in data.items() if name not in _NAMED},
    )

"""How values are written: the small numbers of states, and batches as one JSON text.

A batch is encoded before it crosses to the connection's thread, and read there by `json_each` in C, without the
interpreter's lock; results come back the same way, as one row.
"""

from __future__ import annotations

import sqlite3
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from timewheel.model import AttemptState, ClockKind, JobState, OriginKind, RetryPolicy
from timewheel.schedule_records import Fate, ScheduleState
from timewheel.store.letters import OperationState

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

JOB_STATES = (
    JobState.SCHEDULED,
    JobState.WAITING,
    JobState.ACTIVE,
    JobState.COMPLETED,
    JobState.CANCELLED,
    JobState.DEAD,
    JobState.SKIPPED,
)
JOB_CODES = {state: code for code, state in enumerate(JOB_STATES)}
SCHEDULED, WAITING, ACTIVE, COMPLETED, CANCELLED, DEAD, SKIPPED = range(7)
FINAL_FROM = COMPLETED  # this code and every higher one is final

ATTEMPT_STATES = (
    AttemptState.QUEUED,
    AttemptState.RUNNING,
    AttemptState.SUCCEEDED,
    AttemptState.FAILED_RETRYABLE,
    AttemptState.FAILED_PERMANENT,
    AttemptState.TIMED_OUT,
    AttemptState.CANCELLED,
    AttemptState.RELEASED,
    AttemptState.LOST,
)
ATTEMPT_CODES = {state: code for code, state in enumerate(ATTEMPT_STATES)}

SCHEDULE_STATES = (ScheduleState.ACTIVE, ScheduleState.PAUSED, ScheduleState.PARKED, ScheduleState.ENDED)
SCHEDULE_CODES = {state: code for code, state in enumerate(SCHEDULE_STATES)}
ORIGIN_KINDS = (OriginKind.RULE, OriginKind.MANUAL, OriginKind.BACKFILL)
ORIGIN_CODES = {kind: code for code, kind in enumerate(ORIGIN_KINDS)}
FATES = (Fate.JOB, Fate.SKIPPED, Fate.COALESCED)
FATE_CODES = {fate: code for code, fate in enumerate(FATES)}
OPERATION_STATES = (OperationState.RUNNING, OperationState.DONE, OperationState.STOPPED)
OPERATION_CODES = {state: code for code, state in enumerate(OPERATION_STATES)}
CLOCKS = (ClockKind.WALL, ClockKind.STEADY)


def member(members: tuple[T, ...], code: int) -> T:
    """The member behind a code. Raises ValueError, TypeError or LookupError when there is none."""
    if code < 0:
        raise ValueError(f"no code: {code}")
    return members[code]


def encode(rows: Sequence[Any] | dict[str, int | None]) -> str:
    """Rows as one JSON text that SQLite can take apart.

    SQLite ends a text at a NUL, and neither knows lone surrogates: in such texts both are replaced.
    """
    try:
        data = orjson.dumps(rows)
    except TypeError:
        data = orjson.dumps(_cleaned(rows))
    if b"\\u0000" in data:
        data = orjson.dumps(_cleaned(rows))
    return data.decode()


def clean(text: str) -> str:
    """The text without what SQLite cannot keep."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(one) for key, one in value.items()}
    return value


NONSENSE = (ValueError, TypeError, LookupError)  # what reading a value raises that nobody can have written


class Nonsense(sqlite3.DatabaseError):
    """A row that nobody can have written; unlike SQLite's own complaints never due to a read that failed."""


def damaged(what: str, error: Exception) -> Nonsense:
    """The error for a row with NONSENSE in it: damage to the file, as SQLite itself would say it.

    It keeps no checksums of its pages: a text in which a bit has changed is as good to it as any other.
    """
    found = Nonsense(f"{what} makes no sense: {error}")
    found.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    found.sqlite_errorname = "SQLITE_CORRUPT"
    return found


def rows_of(answer: str) -> list[Any]:
    """The rows of a statement that answered with json_group_array."""
    rows: list[Any] = orjson.loads(answer)
    return rows


def numbered(values: Sequence[Any]) -> dict[str, Any]:
    """The values of ?1, ?2, ...: Python counts numbered placeholders among the named ones, by their number's text."""
    return {str(number): value for number, value in enumerate(values, 1)}


def do(connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
    """Run a statement with the values of ?1, ?2, ..."""
    try:
        return connection.execute(statement, numbered(values))
    except UnicodeDecodeError as error:  # SQLite's message quotes a damaged schema, and Python cannot read it
        damaged = sqlite3.DatabaseError("malformed database schema, with letters that cannot be shown")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error


def ask(connection: sqlite3.Connection, statement: str, values: Sequence[Any] = ()) -> Any:
    """The one row that a statement answers with."""
    cursor = do(connection, statement, values)
    row = cursor.fetchone()
    cursor.close()
    return row


@lru_cache(maxsize=4096)
def retry_text(retry: RetryPolicy) -> str:
    """A retry policy as it is stored."""
    return orjson.dumps(tuple(retry)).decode()


@lru_cache(maxsize=4096)
def retry_of(text: str) -> RetryPolicy:
    """The retry policy that was stored. Raises ValueError or TypeError for a text that is none."""
    policy = RetryPolicy(*orjson.loads(text))
    if not all(isinstance(value, int | float | None) for value in policy[:6]):
        raise TypeError(f"no retry policy: {text[:80]}")
    return policy

"""Changes that concern jobs which have ended: replays and discards of dead letters, operations on many, retention.

Pure data, as `timewheel.store.changes`, of whose union these are a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from timewheel.model import JobState


@dataclass(slots=True)
class Replay:
    """Let a job that is DEAD, SKIPPED or CANCELLED run again: a new attempt of the same job, its history kept.

    The job becomes SCHEDULED with due_at `due_at` on the steady clock; `scheduled_at` stays. Failures, losses,
    first_failed_at, reason, error, fault, fingerprint, cancel request, finished_at and discarded_at are cleared, and of
    its flow `expires_at` and `deadline` (both have passed, or would end it at once). `version` grows by one. With
    `arguments` (the codec's JSON text) these replace the payload. `audit`: JSON object text, written as a journal entry
    of kind "audit" in the same transaction, only if the job is replayed.

    Outcome: Replayed; TooLate when the job is in no such state (already replayed: a second click does nothing);
    Missing.
    """

    job_id: int
    due_at: int
    audit: str
    arguments: str | None = None


class Replayed(NamedTuple):
    """Where the job now lies in the due index."""

    job_id: int
    lane: int
    due_at: int


class TooLate(NamedTuple):
    """The job is in no state for this; nothing was changed."""

    job_id: int


@dataclass(slots=True)
class Discard:
    """Take a dead letter out of the lists: it stays DEAD, with `discarded_at` = now (wall), and may be pruned.

    Precondition: DEAD and not discarded; otherwise TooLate; Missing. `audit`: as of Replay. Outcome: Done.
    """

    job_id: int
    audit: str


@dataclass(slots=True)
class PutOperation:
    """Store an operation (see OperationRecord) whole, replacing what was stored under its number. Outcome: Done."""

    record: OperationRecord


class PruneRule(NamedTuple):
    """Jobs of one final `state` (and `queue`, unless None) that ended before `ended_before` (wall) may be forgotten.

    Of state DEAD only those that were discarded before then, unless `letters`: then all that ended before then.
    """

    state: JobState
    ended_before: int
    queue: str | None = None
    letters: bool = False


@dataclass(slots=True)
class Prune:
    """Look at the first `limit` jobs with an id > `after`, by id, and forget those that one of `rules` names.

    Their attempts are forgotten with them. A job that holds an idempotency key stays (PruneKeys frees it after its
    keeping time), and one that a WAITING (dependency) job waits for. The ledger keeps its rows, whose job is then not
    found. `limit` is at least 1. Outcome: Pruned.
    """

    rules: tuple[PruneRule, ...]
    after: int
    limit: int


class Pruned(NamedTuple):
    """How many jobs were forgotten, and the last id that was looked at: go on after it; None: fewer than the limit."""

    rows: int
    last: int | None


class OperationState(StrEnum):
    """Where an operation stands."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"  # its canary failed, or somebody stopped it; what it had done stays done


@dataclass(slots=True)
class OperationRecord:
    """Work on many jobs, done step by step, that goes on after a restart.

    `kind`: "replay" or "discard". `request`: JSON object text: the filter and terms it was asked with. `progress`: JSON
    object text: how far it is. Instants are wall. `audit`: who, why: JSON object text.
    """

    number: int  # an id as jobs have
    kind: str
    state: OperationState
    request: str
    progress: str
    audit: str
    created_at: int
    updated_at: int
    reason: str | None = None  # of STOPPED


class LetterGroup(NamedTuple):
    """Dead letters with one fingerprint (None: those that have none). Instants are wall, of when the jobs ended."""

    fingerprint: str | None
    task: str
    error: str | None  # of the newest
    letters: int  # how many
    first_at: int
    last_at: int
    newest: int  # job id

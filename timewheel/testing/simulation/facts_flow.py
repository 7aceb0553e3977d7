"""What happened to limits, rivals and jobs that had ended: facts of `timewheel.testing.simulation.facts`."""

from __future__ import annotations

from typing import NamedTuple

from timewheel.flow import Uniqueness
from timewheel.model import JobRecord, JobState, Now
from timewheel.store.changes import Submitted, UniqueMet
from timewheel.store.letters import PruneRule


class Passed(NamedTuple):
    """A job passed the gate, and took whatever tokens it needs: `steady_us` is when. `retry`: it had failed before."""

    elapsed_us: int
    job_id: int
    steady_us: int
    retry: bool


class Heard(NamedTuple):
    """A handler whose silence is limited began, said that it is alive, or (`over`) ended.

    `awake_us`: of its machine then.
    """

    elapsed_us: int
    job_id: int
    attempt: int
    awake_us: int
    over: bool


class Went(NamedTuple):
    """The breaker of a dependency went from one state to another."""

    elapsed_us: int
    dependency: str
    before: str
    after: str


class Rerun(NamedTuple):
    """A job that had ended runs again. `attempt`, `state`: its last one, how it had ended; `operation`: whose work."""

    elapsed_us: int
    job_id: int
    attempt: int
    state: JobState
    operation: str | None
    due_at: int
    now: Now


class Rival(NamedTuple):
    """A unique job was submitted; `before`, `after`: all of its kind, around its batch, the newest first."""

    elapsed_us: int
    job_id: int
    unique: Uniqueness
    outcome: Submitted | UniqueMet
    now: Now
    before: tuple[JobRecord, ...]
    after: tuple[JobRecord, ...]


class Forgotten(NamedTuple):
    """Retention forgot a job, as it was before. `needed`: another waits for it."""

    elapsed_us: int
    job: JobRecord
    rules: tuple[PruneRule, ...]
    now: Now
    needed: bool

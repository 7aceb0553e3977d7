"""Short ways to write flow control, dead letters and operations in tests: more of `timewheel.testing.builders`.

>>> unique("d", on_conflict=OnConflict.FAIL).unique.states
('SCHEDULED', 'WAITING', 'ACTIVE')
>>> waiting_for(7, 8).wait_for.job_ids
(7, 8)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from timewheel.flow import Dependencies, DependencyFails, Flow, Uniqueness
from timewheel.model import JobState
from timewheel.store.changes import Defer
from timewheel.store.letters import Discard, OperationRecord, OperationState, Prune, PruneRule, PutOperation, Replay
from timewheel.testing.builders import START

if TYPE_CHECKING:
    from collections.abc import Iterable

UNFINISHED = tuple(state.value for state in JobState if not state.final)
AUDIT = '{"actor":"somebody"}'


def unique(digest: str = "d", states: Iterable[str] = UNFINISHED, **changes: Any) -> Flow:
    """The flow of a job that is unique among those in these states."""
    return Flow(unique=Uniqueness(digest, tuple(states), **changes))


def waiting_for(*job_ids: int, if_one_fails: DependencyFails = DependencyFails.CANCEL) -> Flow:
    """The flow of a job that waits for these."""
    return Flow(wait_for=Dependencies(job_ids, if_one_fails))


def defer(*rows: tuple[int, int, int | None]) -> Defer:
    """A Defer."""
    return Defer(list(rows))


def replay(job_id: int, due_at: int = START.steady_us, audit: str = AUDIT, arguments: str | None = None) -> Replay:
    """A Replay, due at START."""
    return Replay(job_id, due_at, audit, arguments)


def discard(job_id: int, audit: str = AUDIT) -> Discard:
    """A Discard."""
    return Discard(job_id, audit)


def prune(*rules: PruneRule, after: int = -1, limit: int = 1000) -> Prune:
    """A Prune of everything, by these rules."""
    return Prune(rules, after, limit)


def rule(state: JobState, ended_before: int = 1 << 60, queue: str | None = None, *, letters: bool = False) -> PruneRule:
    """A rule that forgets jobs of a state, however young."""
    return PruneRule(state, ended_before, queue, letters)


def operation(number: int, **changes: Any) -> OperationRecord:
    """An operation that has begun."""
    plain = OperationRecord(
        number=number,
        kind="replay",
        state=OperationState.RUNNING,
        request='{"queue":"a"}',
        progress='{"done":0}',
        audit=AUDIT,
        created_at=START.wall_us,
        updated_at=START.wall_us,
    )
    return replace(plain, **changes)


def put_operation(number: int, **changes: Any) -> PutOperation:
    """A PutOperation."""
    return PutOperation(operation(number, **changes))

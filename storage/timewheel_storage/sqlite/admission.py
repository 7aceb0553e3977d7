"""Who of a batch's Submits makes a job, and which: by idempotency keys, what is unique, and what a job waits for.

What the journal says of all of them is asked first, in a few statements; then each is judged in its turn, as if those
before it were written already.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from timewheel.flow import DependencyFails, OnConflict
from timewheel.model import JobState, WaitingReason
from timewheel.store.changes import KEY_KEEPING_US, KeyConflict, Missing, Outcome, Reschedule, Submitted, UniqueMet
from timewheel_storage.sqlite.codes import (
    CANCELLED,
    COMPLETED,
    FINAL_FROM,
    JOB_CODES,
    SCHEDULED,
    WAITING,
    ask,
    clean,
    encode,
    rows_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from timewheel.flow import Dependencies, Uniqueness
    from timewheel.model import JobRequest
    from timewheel.store.port import Stamp

HOLDERS = """
SELECT json_group_array(json_array(r.key, k.job_id, k.digest, (
    SELECT j.finished_at FROM jobs AS j WHERE j.job_id = k.job_id
)))
FROM json_each(?1) AS r CROSS JOIN keys AS k ON k.task = r.value ->> 0 AND k.key = r.value ->> 1
"""
NEWEST_EQUALS = """
SELECT json_group_array(json_array(r.value ->> 0, r.value ->> 1, json((
    SELECT json_group_array(json_array(e.job_id, e.created_at, e.reason)) FROM (
        SELECT u.job_id, u.created_at, u.reason FROM jobs AS u
        WHERE u.unique_digest = r.value ->> 0 AND u.state = r.value ->> 1
        ORDER BY u.created_at DESC, u.job_id DESC LIMIT ?2
    ) AS e
))))
FROM json_each(?1) AS r
WHERE EXISTS (SELECT 1 FROM jobs AS u WHERE u.unique_digest = r.value ->> 0 AND u.state = r.value ->> 1)
"""
STATES = """
SELECT json_group_array(json_array(j.job_id, j.state))
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.job_id = h.value
"""


class Made(NamedTuple):
    """The state in which a job is made, and the job that it replaces, if any: (its id, whether it was SCHEDULED)."""

    state: int = SCHEDULED
    reason: str | None = None
    replaced: tuple[int, bool] | None = None


PLAINLY = Made()


class _Equal:
    """A job that may stand in the way of others."""

    __slots__ = ("created_at", "job_id", "reason", "state")

    def __init__(self, job_id: int, created_at: int, state: int, reason: str | None) -> None:
        self.job_id = job_id
        self.created_at = created_at
        self.state = state
        self.reason = reason


class Admission:
    """The judgement of some requests; to be asked anew at every attempt to write them."""

    def __init__(self, requests: Sequence[JobRequest]) -> None:
        self._requests = requests
        self._keyed = [place for place, one in enumerate(requests) if one.idempotency_key is not None]
        self.flows = [one.flow for one in requests if one.flow is not None]
        self._uniques = [flow.unique for flow in self.flows if flow.unique is not None]
        waits = [flow.wait_for for flow in self.flows if flow.wait_for is not None]
        self._waits = bool(waits)
        self._awaited = {job_id for wait_for in waits for job_id in wait_for.job_ids}
        self._begin()

    @property
    def needed(self) -> bool:
        """Whether there is anything to ask; if not, every request makes its job SCHEDULED."""
        return bool(self._keyed or self._uniques or self._waits)

    def _begin(self) -> None:
        self.refused: dict[int, Outcome] = {}  # by the place of the request
        self.made: dict[int, Made] = {}  # likewise; those that are made PLAINLY may be left out
        self.moves: list[tuple[int, Reschedule]] = []  # by submissions that were refused, in their order
        self.free: list[int] = []  # jobs whose idempotency key another takes
        self._lapsed: dict[tuple[str, str], int] = {}  # jobs whose key another may take
        self._holders: dict[tuple[str, str], tuple[int, str | None]] = {}
        self._equals: dict[str, list[_Equal]] = {}
        self._states: dict[int, int] = {}

    def judge(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Ask the journal, and judge each request in its turn."""
        self._begin()
        if self._keyed:
            self._ask_for_holders(connection, stamp)
        if self._uniques:
            self._ask_for_equals(connection)
        if self._awaited:
            (answer,) = ask(connection, STATES, (encode(sorted(self._awaited)),))
            self._states = dict(rows_of(answer))
        for place, one in enumerate(self._requests):
            self._judge(place, one, stamp.now.wall_us)

    def _ask_for_holders(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        keys = [_key(self._requests[place]) for place in self._keyed]
        for place, job_id, digest, finished_at in rows_of(ask(connection, HOLDERS, (encode(keys),))[0]):
            if finished_at is not None and finished_at <= stamp.now.wall_us - KEY_KEEPING_US:
                self._lapsed[keys[place]] = job_id
            else:
                self._holders[keys[place]] = (job_id, digest)

    def _ask_for_equals(self, connection: sqlite3.Connection) -> None:
        """Find the newest equal jobs of each state: as many as may count, when those before in the batch end some."""
        states: dict[str, set[int]] = {}
        endings: dict[str, int] = {}
        for unique in self._uniques:
            states.setdefault(unique.digest, set()).update(_codes(unique.states))
            endings[unique.digest] = endings.get(unique.digest, 0) + (unique.on_conflict in _CHANGING)
        rows = encode([(digest, state) for digest, some in states.items() for state in sorted(some)])
        (answer,) = ask(connection, NEWEST_EQUALS, (rows, 1 + max(endings.values())))
        for digest, state, found in rows_of(answer):
            equals = self._equals.setdefault(digest, [])
            equals += [_Equal(job_id, created_at, state, reason) for job_id, created_at, reason in found]

    def _judge(self, place: int, one: JobRequest, wall_us: int) -> None:
        made, equal, unique = PLAINLY, None, None
        if one.idempotency_key is not None and (refusal := self._refusal_by_key(one)) is not None:
            self.refused[place] = refusal
            return
        if one.flow is not None and (unique := one.flow.unique) is not None:
            equal = self._newest_equal(unique, wall_us)
            if equal is not None:
                if unique.on_conflict is not OnConflict.REPLACE or equal.state > WAITING:
                    self.refused[place] = self._met(place, one, unique, equal)
                    return
                made = Made(replaced=(equal.job_id, equal.state == SCHEDULED))
        if one.flow is not None and one.flow.wait_for is not None:
            waiting = self._judge_dependencies(one.flow.wait_for, equal)
            if isinstance(waiting, Missing):
                self.refused[place] = waiting
                return
            made = waiting._replace(replaced=made.replaced)
        self._make(place, one, made, equal, wall_us)

    def _refusal_by_key(self, one: JobRequest) -> Outcome | None:
        holder = self._holders.get(_key(one))
        if holder is None:
            return None
        job_id, digest = holder
        return Submitted(job_id, -1, created=False) if digest == one.digest else KeyConflict(job_id)

    def _newest_equal(self, unique: Uniqueness, wall_us: int) -> _Equal | None:
        states, newest = _codes(unique.states), None
        for equal in self._equals.get(unique.digest, ()):
            if equal.state not in states:
                continue
            if unique.period_us is not None and wall_us - equal.created_at >= unique.period_us:
                continue
            if newest is None or (equal.created_at, equal.job_id) > (newest.created_at, newest.job_id):
                newest = equal
        return newest

    def _met(self, place: int, one: JobRequest, unique: Uniqueness, equal: _Equal) -> UniqueMet:
        """Refuse a request for an equal job, which may be moved for it: `moves` then says where it lies."""
        if unique.on_conflict is OnConflict.RESCHEDULE and equal.state <= WAITING:
            self.moves.append((place, Reschedule(equal.job_id, one.clock, one.scheduled_at, entered=False)))
            if equal.state == WAITING and equal.reason == WaitingReason.UNRESOLVABLE:
                self._change(equal, SCHEDULED, None)
        return UniqueMet(equal.job_id, unique.on_conflict is OnConflict.FAIL)

    def _change(self, equal: _Equal, state: int, reason: str | None) -> None:
        equal.state, equal.reason = state, reason
        self._states[equal.job_id] = state

    def _judge_dependencies(self, wait_for: Dependencies, replaced: _Equal | None) -> Made | Missing:
        states = []
        for job_id in wait_for.job_ids:
            state = self._states.get(job_id)
            if state is None:
                return Missing(job_id)
            states.append(CANCELLED if replaced is not None and job_id == replaced.job_id else state)
        if all(state == COMPLETED for state in states):
            return PLAINLY
        if any(state < FINAL_FROM for state in states) or wait_for.if_one_fails is DependencyFails.WAIT:
            return Made(WAITING, WaitingReason.DEPENDENCY.value)
        run = wait_for.if_one_fails is DependencyFails.RUN
        return PLAINLY if run else Made(CANCELLED, WaitingReason.DEPENDENCY.value)

    def _make(self, place: int, one: JobRequest, made: Made, replaced: _Equal | None, wall_us: int) -> None:
        if made is not PLAINLY:
            self.made[place] = made
        if replaced is not None:
            self._change(replaced, CANCELLED, "replaced")
        if self._awaited:
            self._states[one.job_id] = made.state
        if one.idempotency_key is not None:
            self._holders[_key(one)] = (one.job_id, one.digest)
            if (lapsed := self._lapsed.pop(_key(one), None)) is not None:
                self.free.append(lapsed)
        if one.flow is not None and one.flow.unique is not None:
            equals = self._equals.setdefault(one.flow.unique.digest, [])
            equals.append(_Equal(one.job_id, wall_us, made.state, made.reason))


_CHANGING = (OnConflict.REPLACE, OnConflict.RESCHEDULE)


def _key(one: JobRequest) -> tuple[str, str]:
    """A request's idempotency key as it is stored."""
    return (clean(one.task), clean(one.idempotency_key or ""))


@lru_cache(maxsize=256)
def _codes(states: tuple[str, ...]) -> frozenset[int]:
    return frozenset(JOB_CODES[JobState(state)] for state in states)


def pairs(requests: Iterable[JobRequest]) -> list[tuple[int, int]]:
    """Who waits, and for whom: (job waited for, waiting job) of each of these requests."""
    waits = [(one.job_id, one.flow.wait_for) for one in requests if one.flow is not None]
    return [(on_job, job_id) for job_id, wait_for in waits if wait_for for on_job in dict.fromkeys(wait_for.job_ids)]

"""Writing PlanOccurrences: schedules move on, with the rows of their ledgers and the jobs that come of it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from timewheel.model import WaitingReason
from timewheel.schedule_records import Fate
from timewheel.store.changes import Outcome, Planned, PlanOccurrences, VersionConflict
from timewheel_storage.sqlite.codes import SCHEDULE_CODES, SCHEDULED, WAITING, ask, do, encode, rows_of
from timewheel_storage.sqlite.places import Places
from timewheel_storage.sqlite.records_schedules import UNREADABLE, position_text, row_values
from timewheel_storage.sqlite.write_submit import JOBS, JOBS_WITH_FLOW, row_of, row_of_flow

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from timewheel.model import JobRequest
    from timewheel.schedule_records import OccurrenceRecord
    from timewheel.store.port import Stamp
    from timewheel_storage.sqlite.kinds import Memory

CONFLICTS = """
SELECT json_group_array(json_array(r.key, coalesce(s.version, 0)))
FROM json_each(?1) AS r LEFT JOIN schedules AS s ON s.schedule = r.value ->> 0
WHERE s.version IS NOT r.value ->> 1
"""
MOVE_ON = """
UPDATE schedules SET
    position = coalesce(r.value ->> 1, schedules.position),
    state = coalesce(r.value ->> 2, schedules.state),
    reason = CASE WHEN r.value ->> 2 IS NULL THEN schedules.reason ELSE r.value ->> 3 END,
    until = CASE WHEN r.value ->> 2 IS NULL THEN schedules.until END
FROM json_each(?1) AS r WHERE schedules.schedule = r.value ->> 0
"""
ROWS_THERE = """
SELECT json_group_array(r.key)
FROM json_each(?1) AS r CROSS JOIN ledger AS w ON w.schedule = r.value ->> 0 AND w.clock = r.value ->> 1
    AND w.first_at = r.value ->> 2 AND w.turn = r.value ->> 5 AND w.kind = r.value ->> 6
"""
ADD_ROWS = """
INSERT INTO ledger (schedule, clock, first_at, last_at, count, turn, kind, fate, recorded_at, reason, job_id)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7,
    value ->> 8, value ->> 9, value ->> 10
FROM json_each(?1)
"""
TO_SUPERSEDE = """
SELECT json_group_array(json_array(j.schedule, j.job_id))
FROM json_each(?1) AS h CROSS JOIN jobs AS j ON j.schedule = h.value
WHERE j.state IN (0, 1, 2) AND j.state = 1 AND j.reason = 'overlap'
"""
SUPERSEDE = """
UPDATE jobs SET state = 6, reason = 'superseded', finished_at = ?2
WHERE job_id IN (SELECT r.value ->> 1 FROM json_each(?1) AS r)
"""
BUSY = """
SELECT json_group_array(h.value) FROM json_each(?1) AS h
WHERE EXISTS (SELECT 1 FROM jobs AS j WHERE j.schedule = h.value AND j.state IN (0, 1, 2))
"""


class Plans:
    """The PlanOccurrences of a batch.

    They are written in waves, each with one plan of a schedule at most: within a wave no plan can see another.
    """

    def __init__(self, plans: Sequence[PlanOccurrences], memory: Memory) -> None:
        requests = [request for plan in plans for request in plan.jobs]
        self._size = len(plans)
        self._places = Places(requests, memory)
        request_of = {one.job_id: number for number, one in enumerate(requests)}
        self._waves = [_Wave(some, self._places, request_of) for some in _waves(plans)]

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write them."""
        self._places.begin()
        for wave in self._waves:
            wave.write(connection, stamp)

    def freed(self) -> list[int]:
        """The jobs that ended because newer ones were made."""
        outcomes = chain.from_iterable(wave.outcomes.values() for wave in self._waves)
        return [job_id for one in outcomes if isinstance(one, Planned) for job_id in one.superseded]

    def outcomes(self) -> list[Outcome]:
        """The outcomes in the order of the plans, after the commit."""
        self._places.learn()
        found = dict(chain.from_iterable(wave.outcomes.items() for wave in self._waves))
        return [found[place] for place in range(self._size)]


def _waves(plans: Sequence[PlanOccurrences]) -> list[dict[int, PlanOccurrences]]:
    waves: list[dict[int, PlanOccurrences]] = []
    turns: dict[str, int] = {}
    for place, plan in enumerate(plans):
        turn = turns[plan.schedule] = turns.get(plan.schedule, -1) + 1
        if turn == len(waves):
            waves.append({})
        waves[turn][place] = plan
    return waves


class _Wave:
    """Plans of different schedules; `outcomes` are by their place in the batch."""

    def __init__(self, plans: dict[int, PlanOccurrences], places: Places, request_of: dict[int, int]) -> None:
        self._plans = plans
        self._places = places
        self._request_of = request_of
        self._heads = encode([(plan.schedule, plan.version) for plan in plans.values()])
        self.outcomes: dict[int, Outcome] = {}

    def write(self, connection: sqlite3.Connection, stamp: Stamp) -> None:
        """Write what no conflict keeps from it."""
        places = list(self._plans)
        conflicts = rows_of(ask(connection, CONFLICTS, (self._heads,))[0])
        self.outcomes = {
            places[key]: VersionConflict(self._plans[places[key]].schedule, version) for key, version in conflicts
        }
        plans = {place: plan for place, plan in self._plans.items() if place not in self.outcomes}
        if plans:
            do(connection, MOVE_ON, (encode([_move(plan) for plan in plans.values()]),))
            old = self._add_rows(connection, plans.values())
            made = {
                place: [job for job in plan.jobs if job.job_id not in old] if old else plan.jobs
                for place, plan in plans.items()
            }
            self._make(connection, stamp, plans, made)

    def _add_rows(self, connection: sqlite3.Connection, plans: Iterable[PlanOccurrences]) -> set[int | None]:
        """Write the rows whose key is new, and say which jobs are not to be made because theirs is not."""
        new = [row for plan in plans for row in _apart(plan)]
        if not new:
            return set()
        encoded = encode([row_values(row) for row in new])
        there = set(rows_of(ask(connection, ROWS_THERE, (encoded,))[0]))
        if there:
            new = [row for place, row in enumerate(new) if place not in there]
            encoded = encode([row_values(row) for row in new])
        if new:
            do(connection, ADD_ROWS, (encoded,))
        wanted = {row.job_id for plan in plans for row in plan.rows if row.fate is Fate.JOB}
        return wanted - {row.job_id for row in new if row.fate is Fate.JOB}

    def _make(
        self,
        connection: sqlite3.Connection,
        stamp: Stamp,
        plans: dict[int, PlanOccurrences],
        made: dict[int, list[JobRequest]],
    ) -> None:
        """Make the jobs, each SCHEDULED or WAITING."""
        makers = {place: plans[place] for place, jobs in made.items() if jobs}
        superseded = _supersede(connection, stamp, [one.schedule for one in makers.values() if one.supersede])
        holders = [one.schedule for one in makers.values() if one.hold]
        busy = set(rows_of(ask(connection, BUSY, (encode(holders),))[0])) if holders else set()
        self._places.find(connection, (self._request_of[job.job_id] for jobs in made.values() for job in jobs))
        lanes, kinds = self._places.lanes(), self._places.kinds()
        rows: dict[str, list[tuple[Any, ...]]] = {}  # by statement
        none: list[int] = []  # one for all: nobody changes an outcome
        for place, jobs in made.items():
            plan = plans[place]
            planned = Planned([], [] if plan.hold else none, superseded.get(plan.schedule, none))
            held = plan.hold and plan.schedule in busy
            for job in jobs:
                request = self._request_of[job.job_id]
                state = (WAITING, WaitingReason.OVERLAP.value) if held else (SCHEDULED, None)
                if job.flow is None:
                    rows.setdefault(JOBS, []).append(row_of(job, kinds[request], *state))
                else:
                    row = row_of_flow(job, kinds[request], lanes[request], *state)
                    rows.setdefault(JOBS_WITH_FLOW, []).append(row)
                if held:
                    planned.waiting.append(job.job_id)
                else:
                    planned.places.append((lanes[request], job.scheduled_at, job.job_id))
                held = plan.hold
            self.outcomes[place] = planned
        for statement, some in rows.items():
            do(connection, statement, (encode(some), stamp.now.wall_us))


def _apart(plan: PlanOccurrences) -> Iterable[OccurrenceRecord]:
    """The rows of a plan, of those with the same key the first."""
    if len(plan.rows) < 2:
        return plan.rows
    rows: dict[tuple[Any, ...], OccurrenceRecord] = {}
    for row in plan.rows:
        rows.setdefault((row.schedule, row.clock, row.first_at, row.turn, row.kind), row)
    return rows.values()


def _move(plan: PlanOccurrences) -> tuple[Any, ...]:
    state = None if plan.state is None else SCHEDULE_CODES[plan.state]
    position = None if plan.position == UNREADABLE else position_text(plan.position)
    return (plan.schedule, position, state, plan.reason)


def _supersede(connection: sqlite3.Connection, stamp: Stamp, schedules: list[str]) -> dict[str, list[int]]:
    """End the jobs of these schedules that wait for their turn: their ids, by schedule."""
    superseded: dict[str, list[int]] = {}
    if schedules:
        (answer,) = ask(connection, TO_SUPERSEDE, (encode(schedules),))
        for schedule, job_id in sorted(rows_of(answer)):
            superseded.setdefault(schedule, []).append(job_id)
        if superseded:
            do(connection, SUPERSEDE, (answer, stamp.now.wall_us))
    return superseded

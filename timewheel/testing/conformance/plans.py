"""PlanOccurrences: a schedule moves on with its ledger and its jobs, in one."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from timewheel.model import (
    ClockKind,
    JobRecord,
    JobRequest,
    JobState,
    Missed,
    Origin,
    OriginKind,
    RetryPolicy,
)
from timewheel.schedule_records import Fate, Position, ScheduleState
from timewheel.store.changes import DONE, Planned, VersionConflict
from timewheel.testing.builders import (
    START,
    claim,
    drop_schedule,
    later,
    occurrence,
    plan,
    put_schedule,
    row,
    row_of,
)
from timewheel.testing.conformance.bench import Bench, BenchTests, refused

NOTHING = Planned([], [], [])
T = START.wall_us


def recorded(request: JobRequest, state: JobState, reason: str | None = None) -> JobRecord:
    """The job that a request is to become."""
    fields = {name: getattr(request, name) for name in JobRequest.__dataclass_fields__ if name != "digest"}
    due: dict[str, Any] = {"due_clock": request.clock, "due_at": request.scheduled_at}
    return JobRecord(**fields, **due, state=state, reason=reason, created_at=T)


@pytest.mark.asyncio
class Plans(BenchTests):
    """Moving a schedule on."""

    async def test_position_rows_and_jobs_are_written_in_one(self, bench: Bench) -> None:
        await bench.put_schedules()
        first = occurrence(7, T - 9, scheduled_at=T - 2, queue="mail", priority=2, tags=("x", "y"), timeout_us=5)
        second = occurrence(3, T + 5, task="other", arguments="[[1],{}]", retry=RetryPolicy(max_attempts=2))
        position = Position(ClockKind.WALL, T + 6, 0, T + 60, made=2, tzdata="2026a")
        change = plan(first, second, rows=[row(T - 99, T - 10, 5), row(T - 3)], position=position)
        planned = await bench.one(change, Planned)
        assert (planned.waiting, planned.superseded) == ([], [])
        assert [(due_at, job_id) for _, due_at, job_id in planned.places] == [(T - 2, 7), (T + 5, 3)]
        assert await bench.lane_of(planned.places[0][0]) == ("mail", 2, ClockKind.WALL)
        assert await bench.due(planned.places[1][0]) == [(T + 5, 3)]
        for request in (first, second):
            assert await bench.job(request.job_id) == recorded(request, JobState.SCHEDULED)
        assert await bench.schedule() == replace(put_schedule().record, position=position)
        dump = await bench.store.dump()
        assert list(dump["ledger"].values()) == change.rows
        assert dump["ledger"] == {
            (one.schedule, one.clock, one.first_at, one.turn, one.kind): one for one in change.rows
        }
        await bench.crash()
        assert await bench.store.dump() == dump

    async def test_the_origin_comes_back_whole(self, bench: Bench) -> None:
        await bench.put_schedules('s "ž"')
        missed = Missed(1, T, 1 << 40)
        made = [
            occurrence(1, 0, 's "ž"', clock=ClockKind.STEADY, catch_up=True, missed=missed, concurrency_key="k"),
            occurrence(2, T, 's "ž"', turn=2, kind=OriginKind.BACKFILL, concurrency_key=""),
            occurrence(3, T, 's "ž"', kind=OriginKind.MANUAL),
        ]
        await bench.plan(*made)
        await bench.crash()
        await bench.own()
        for request in made:
            job = await bench.job(request.job_id)
            assert (job.origin, job.concurrency_key) == (request.origin, request.concurrency_key)
            origin = job.origin
            assert origin is not None
            assert (type(origin), type(origin.clock), type(origin.kind)) == (Origin, ClockKind, OriginKind)
        origin = (await bench.job(1)).origin
        assert origin is not None
        assert type(origin.missed) is Missed
        bench.now = later(1)
        claimed = await bench.claim(1, 2, 3)
        assert [job.origin for job in claimed.jobs] == [request.origin for request in made]

    async def test_a_submitted_job_is_of_no_schedule(self, bench: Bench) -> None:
        claimed = await bench.active(1)
        assert (claimed.origin, (await bench.job(1)).origin, (await bench.job(1)).concurrency_key) == (None, None, None)

    async def test_the_version_is_that_of_the_schedule(self, bench: Bench) -> None:
        assert await bench.write(plan(occurrence(1))) == [VersionConflict("s", 0)]
        assert await bench.write(plan(occurrence(1), version=0)) == [VersionConflict("s", 0)]
        await bench.write(put_schedule(version=3))
        before = await bench.store.dump()
        for version in (0, 1, 2, 4):
            change = plan(
                occurrence(1),
                version=version,
                supersede=True,
                state=ScheduleState.ENDED,
                position=Position(ClockKind.WALL, 1),
            )
            assert await bench.write(change) == [VersionConflict("s", 3)]
        assert await bench.store.dump() == before
        await bench.plan(occurrence(1), version=3)
        assert (await bench.schedule()).version == 3

    async def test_planning_does_not_edit(self, bench: Bench) -> None:
        await bench.write(put_schedule(state=ScheduleState.PAUSED, reason="audit", until=T + 9, updated_at=5))
        bench.now = later(77)
        await bench.plan(position=Position(ClockKind.WALL, T + 1), reason="not of a state")
        record = await bench.schedule()
        assert (record.version, record.updated_at, record.position.at) == (1, 5, T + 1)
        assert (record.state, record.reason, record.until) == (ScheduleState.PAUSED, "audit", T + 9)

    @pytest.mark.parametrize("reason", [None, "no such zone"])
    @pytest.mark.parametrize("state", list(ScheduleState))
    async def test_a_state_comes_with_its_reason(self, bench: Bench, state: ScheduleState, reason: str | None) -> None:
        await bench.write(put_schedule(state=ScheduleState.PAUSED, reason="audit", until=T + 9))
        await bench.plan(state=state, reason=reason)
        record = await bench.schedule()
        assert (record.state, record.reason, record.until, record.version) == (state, reason, None, 1)

    async def test_a_schedule_of_the_same_batch(self, bench: Bench) -> None:
        outcomes = await bench.write(plan(occurrence(1)), put_schedule(), claim(1), plan(occurrence(2), version=2))
        assert isinstance(outcomes[0], Planned)
        assert outcomes[1] == DONE
        assert outcomes[3] == VersionConflict("s", 1)
        assert await bench.state(1) is JobState.ACTIVE

    async def test_a_dropped_schedule_is_not_planned(self, bench: Bench) -> None:
        await bench.put_schedules()
        outcomes = await bench.write(plan(occurrence(1)), drop_schedule())
        assert outcomes[0] == VersionConflict("s", 0)
        assert await bench.store.job(1) is None

    async def test_two_plans_of_a_batch(self, bench: Bench) -> None:
        await bench.put_schedules("a", "b")
        outcomes = await bench.write(
            plan(occurrence(1, name="b")),
            plan(occurrence(2, name="a")),
            plan(occurrence(3, T + 1, name="b"), hold=True),
        )
        assert [type(outcome) for outcome in outcomes] == [Planned] * 3
        assert outcomes[2] == Planned([], [3], [])

    # ---- twice -------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("hold", [False, True])
    @pytest.mark.parametrize("supersede", [False, True])
    async def test_planning_twice_is_harmless(self, bench: Bench, hold: bool, supersede: bool) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1, T - 5))
        change = plan(occurrence(2), rows=[row(T - 9, T - 6, 3)], hold=hold, supersede=supersede)
        await bench.write(change)
        before = await bench.store.dump()
        again = plan(occurrence(12), rows=[row(T - 9, T - 5, 4, recorded_at=T + 5)], hold=hold, supersede=supersede)
        for repeated in (change, again):
            assert await bench.write(repeated) == [NOTHING]
            assert await bench.store.dump() == before

    async def test_planning_twice_in_a_batch(self, bench: Bench) -> None:
        await bench.put_schedules()
        first, second = await bench.write(plan(occurrence(1)), plan(occurrence(2), supersede=True))
        assert isinstance(first, Planned)
        assert [job_id for _, _, job_id in first.places] == [1]
        assert second == NOTHING
        assert await bench.ids() == [1]

    async def test_what_is_new_is_made_beside_what_exists(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1), rows=[row(T - 5)])
        planned = await bench.plan(
            occurrence(2),
            occurrence(3, T + 1),
            rows=[row(T - 5, reason="paused"), row(T - 6)],
            position=Position(ClockKind.WALL, 9),
        )
        assert [job_id for _, _, job_id in planned.places] == [3]
        assert await bench.ids() == [3, 1]
        ledger = (await bench.store.dump())["ledger"].values()
        assert sorted((one.first_at, one.reason, one.job_id) for one in ledger) == [
            (T - 6, "misfire", None),
            (T - 5, "misfire", None),
            (T, None, 1),
            (T + 1, None, 3),
        ]
        assert (await bench.schedule()).position.at == 9

    async def test_a_slot_that_was_skipped_is_not_run(self, bench: Bench) -> None:
        """Its key is taken, by a range that begins there too."""
        await bench.put_schedules()
        await bench.plan(rows=[row(T, T + 9, 10), row(T + 20)])
        assert await bench.plan(occurrence(1), occurrence(2, T + 20)) == NOTHING
        assert await bench.ids() == []

    async def test_turn_kind_clock_and_schedule_make_another_occurrence(self, bench: Bench) -> None:
        await bench.put_schedules("s", "t")
        await bench.plan(occurrence(1))
        planned = await bench.plan(
            occurrence(2, turn=1),
            occurrence(3, kind=OriginKind.MANUAL),
            occurrence(4, kind=OriginKind.BACKFILL),
            occurrence(5, clock=ClockKind.STEADY),
        )
        assert [job_id for _, _, job_id in planned.places] == [2, 3, 4, 5]
        assert [job_id for _, _, job_id in (await bench.plan(occurrence(6, name="t"))).places] == [6]

    async def test_a_dropped_schedules_slots_are_not_run_again(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1))
        await bench.write(drop_schedule())
        await bench.put_schedules()
        assert await bench.plan(occurrence(2)) == NOTHING

    async def test_rows_of_every_kind_come_back_whole(self, bench: Bench) -> None:
        await bench.put_schedules()
        made = occurrence(1)
        rows = [
            row(0, 0, 1, clock=ClockKind.STEADY, kind=OriginKind.BACKFILL, reason="", recorded_at=0),
            row(5, T, 1 << 50, fate=Fate.COALESCED, job_id=1, reason="misfire", recorded_at=T + 3),
            row(6, turn=1 << 20, reason="ž"),
        ]
        await bench.plan(made, rows=rows)
        await bench.crash()
        kept = list((await bench.store.dump())["ledger"].values())
        assert kept == [row_of(made), *rows]
        assert {(type(one.clock), type(one.kind), type(one.fate)) for one in kept} == {(ClockKind, OriginKind, Fate)}

    async def test_a_job_that_exists_refuses_the_batch(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.submit(1)
        await refused(bench, plan(occurrence(2), occurrence(1, T + 1), rows=[row(5)], state=ScheduleState.ENDED))

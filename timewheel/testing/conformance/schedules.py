"""PutSchedule, DropSchedule, PutCalendar, and the lists of schedules."""

# ruff: noqa: D102 - the name of a test is its sentence

from __future__ import annotations

import pytest

from timewheel.model import MAX_TIME_US, ClockKind
from timewheel.schedule_records import Position, ScheduleState
from timewheel.store.changes import DONE, Done, PutCalendar, VersionConflict
from timewheel.store.port import ScheduleFilter
from timewheel.testing.builders import START, drop_schedule, later, occurrence, plan, put_schedule, row, submit
from timewheel.testing.conformance.bench import Bench, BenchTests, refused

ANY = ScheduleFilter()
POSITIONS = (
    Position(ClockKind.WALL, 0),
    Position(ClockKind.STEADY, 5, turn=3, next_at=None, made=7, offset_us=-9),
    Position(ClockKind.WALL, MAX_TIME_US, 1, MAX_TIME_US, 1 << 40, 8, 9, -(1 << 50), "2026a"),
)


@pytest.mark.asyncio
class Schedules(BenchTests):
    """Standing rules as they are kept."""

    @pytest.mark.parametrize("position", POSITIONS)
    async def test_a_schedule_is_kept_as_it_is_given(self, bench: Bench, position: Position) -> None:
        put = put_schedule(
            'Ünï/"q" ☃',
            task="žluť",
            queue="mail",
            definition='{"rule": "é", "n": 1.50}',
            state=ScheduleState.PAUSED,
            position=position,
            created_at=1,
            updated_at=2,
            reason="audit",
            until=MAX_TIME_US,
        )
        assert await bench.write(put) == [DONE]
        assert await bench.schedule('Ünï/"q" ☃') == put.record
        await bench.crash()
        kept = await bench.schedule('Ünï/"q" ☃')
        assert kept == put.record
        assert (type(kept.position), type(kept.position.clock)) == (Position, ClockKind)
        assert (await bench.store.dump())["schedules"] == {put.record.schedule: put.record}

    async def test_what_may_be_left_out_is_none(self, bench: Bench) -> None:
        await bench.put_schedules()
        record = await bench.schedule()
        assert (record.reason, record.until) == (None, None)
        assert record.position == Position(ClockKind.WALL, START.wall_us)
        await bench.write(put_schedule("empty", reason=""))
        assert (await bench.schedule("empty")).reason == ""

    async def test_no_such_schedule(self, bench: Bench) -> None:
        await bench.put_schedules("a")
        assert await bench.store.schedule("b") is None
        assert await bench.store.schedule("") is None
        assert await bench.store.schedule("A") is None

    async def test_a_schedule_is_written_over_whole(self, bench: Bench) -> None:
        first = put_schedule(state=ScheduleState.PARKED, reason="no such zone", until=9)
        await bench.write(first)
        second = put_schedule(
            expected_version=1, task="t2", queue="q2", definition="[]", position=POSITIONS[1], created_at=5
        )
        assert await bench.write(second) == [DONE]
        assert await bench.schedule() == second.record
        assert (await bench.schedule()).reason is None

    @pytest.mark.parametrize("expected", [1, 2, 4, 5])
    async def test_another_version_is_a_conflict(self, bench: Bench, expected: int) -> None:
        await bench.write(put_schedule(version=3))
        before = await bench.store.dump()
        put = put_schedule(expected_version=expected, version=9, task="new", importable=True)
        assert await bench.write(put) == [VersionConflict("s", 3)]
        assert await bench.write(drop_schedule(expected_version=expected)) == [VersionConflict("s", 3)]
        assert await bench.store.dump() == before

    async def test_a_new_schedule_is_expected_not_to_be_there(self, bench: Bench) -> None:
        assert await bench.write(put_schedule(expected_version=1)) == [VersionConflict("s", 0)]
        assert await bench.store.schedule("s") is None
        await bench.write(put_schedule(version=7))
        assert await bench.write(put_schedule()) == [VersionConflict("s", 7)]
        assert (await bench.schedule()).version == 7

    async def test_a_conflict_harms_no_other_change(self, bench: Bench) -> None:
        outcomes = await bench.write(put_schedule("a", 4), put_schedule("b"), submit(1), put_schedule("b"))
        assert outcomes[:2] == [VersionConflict("a", 0), DONE]
        assert outcomes[3] == VersionConflict("b", 1)
        assert await bench.store.schedule("a") is None
        await bench.schedule("b")
        await bench.job(1)

    async def test_one_batch_in_its_order(self, bench: Bench) -> None:
        outcomes = await bench.write(
            put_schedule(),
            put_schedule(expected_version=1),
            drop_schedule(expected_version=2),
            put_schedule(task="new"),
        )
        assert outcomes == [DONE, DONE, Done(1), DONE]
        assert (await bench.schedule()).task == "new"

    async def test_a_dropped_schedule_is_gone_and_may_begin_anew(self, bench: Bench) -> None:
        await bench.put_schedules("s", "t")
        assert await bench.write(drop_schedule()) == [Done(1)]
        assert await bench.store.schedule("s") is None
        assert [record.schedule for record in await bench.store.schedules(ANY)] == ["t"]
        await bench.crash()
        await bench.own()
        assert await bench.store.schedule("s") is None
        assert await bench.write(put_schedule()) == [DONE]

    async def test_to_drop_what_is_not_there(self, bench: Bench) -> None:
        assert await bench.write(drop_schedule(expected_version=0)) == [Done(0)]
        assert await bench.write(drop_schedule(expected_version=1)) == [VersionConflict("s", 0)]

    async def test_jobs_and_ledger_outlive_their_schedule(self, bench: Bench) -> None:
        await bench.put_schedules()
        await bench.plan(occurrence(1), rows=[row(5)])
        before = await bench.store.dump()
        await bench.write(drop_schedule())
        assert await bench.store.dump() == {**before, "schedules": {}}
        assert [entry.occurrence.first_at for entry in (await bench.store.ledger("s")).entries] == [5, START.wall_us]
        assert [job.job_id for job in (await bench.store.unfinished(["s"]))["s"]] == [1]

    async def test_the_task_of_a_schedule_becomes_importable(self, bench: Bench) -> None:
        await bench.write(put_schedule("a", task="plain"), put_schedule("b", task="named", importable=True))
        await bench.write(put_schedule("b", 1, task="named"))
        assert await bench.store.importable() == ["named"]
        await bench.write(put_schedule("a", 1, task="named", importable=True), drop_schedule("b", 2))
        await bench.crash()
        assert await bench.store.importable() == ["named"]

    async def test_nothing_is_kept_of_a_batch_that_failed(self, bench: Bench) -> None:
        await bench.put_schedules("a")
        await bench.submit(1)
        await refused(
            bench,
            put_schedule("b", task="new", importable=True),
            drop_schedule("a"),
            PutCalendar("c", "[]"),
            plan(occurrence(2, name="b"), occurrence(1, name="b", turn=1), hold=True),
        )

    # ---- lists -------------------------------------------------------------------------------------------------------

    async def test_schedules_by_their_ids(self, bench: Bench) -> None:
        names = ["b", "B", "a", "ž", "a1", "10", "9", "", "é", "a b", "\U0001f600", "\uffee"]
        await bench.put_schedules(*names)
        found = await bench.store.schedules(ANY)
        assert [record.schedule for record in found] == sorted(names)
        assert found == [await bench.schedule(name) for name in sorted(names)]
        assert await bench.store.count_schedules(ANY) == len(names)

    @pytest.mark.parametrize("limit", [1, 2, 5, 6])
    async def test_pages_of_schedules(self, bench: Bench, limit: int) -> None:
        names = ["a", "b", "c", "d", "e"]
        await bench.put_schedules(*names)
        found: list[str] = []
        while page := await bench.store.schedules(ANY, after=found[-1] if found else None, limit=limit):
            assert len(page) == min(limit, len(names) - len(found))
            found += [record.schedule for record in page]
        assert found == names
        assert [record.schedule for record in await bench.store.schedules(ANY, after="bb")] == ["c", "d", "e"]

    async def test_a_limit_of_schedules_below_one(self, bench: Bench) -> None:
        await bench.put_schedules("a", "b")
        for limit in (0, -1):
            assert await bench.store.schedules(ANY, limit=limit) == []

    async def test_schedules_by_state_task_and_queue(self, bench: Bench) -> None:
        states = list(ScheduleState)
        await bench.write(
            *(
                put_schedule(
                    f"s{n}", state=states[n % 4], task=f"t{n % 3}", queue=("a", "b")[n % 2], position=POSITIONS[1]
                )
                for n in range(8)
            )
        )
        cases: tuple[tuple[ScheduleFilter, list[int]], ...] = (
            *((ScheduleFilter(states=(state,)), [place, place + 4]) for place, state in enumerate(states)),
            (ScheduleFilter(states=(states[3], states[0])), [0, 3, 4, 7]),
            (ScheduleFilter(task="t1"), [1, 4, 7]),
            (ScheduleFilter(task="t"), []),
            (ScheduleFilter(queue="b"), [1, 3, 5, 7]),
            (ScheduleFilter(states=(states[3],), task="t1", queue="b"), [7]),
        )
        for which, numbers in cases:
            found = await bench.store.schedules(which)
            assert [record.schedule for record in found] == [f"s{n}" for n in numbers], which
            assert await bench.store.count_schedules(which) == len(numbers), which
            paged = await bench.store.schedules(which, after="s3", limit=1)
            assert [record.schedule for record in paged] == [f"s{n}" for n in numbers if n > 3][:1]

    # ---- calendars ---------------------------------------------------------------------------------------------------

    async def test_calendars_are_replaced_by_name(self, bench: Bench) -> None:
        assert await bench.store.calendars() == {}
        outcomes = await bench.write(PutCalendar("a", "1"), PutCalendar("ž", '{"é": 2}'), PutCalendar("a", "[3]"))
        assert outcomes == [DONE] * 3
        await bench.crash()
        assert await bench.store.calendars() == {"a": "[3]", "ž": '{"é": 2}'}
        await bench.own(None)
        bench.now = later(1)
        await bench.write(PutCalendar("ž", ""))
        assert await bench.store.calendars() == {"a": "[3]", "ž": ""}
        assert (await bench.store.dump())["calendars"] == {"a": "[3]", "ž": ""}

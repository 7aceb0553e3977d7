"""What SQLite keeps of schedules, where its way differs from the model's; and what becomes of rows that are damaged."""

import sqlite3

import pytest

from timewheel.errors import JournalCorrupt
from timewheel.model import ClockKind, JobState, Missed, OriginKind, WaitingReason
from timewheel.schedule_records import Position, ScheduleState
from timewheel.store.changes import DONE, Claimed, Planned, PutCalendar, TakeOver, Unheld, VersionConflict
from timewheel.store.port import JobFilter, ScheduleFilter
from timewheel.testing.builders import (
    START,
    claim,
    drop_schedule,
    occurrence,
    owner,
    plan,
    put_schedule,
    row,
    settle_ok,
    stamp,
    submit,
)
from timewheel_storage.sqlite import open_sqlite, read_list, read_schedules, schema
from timewheel_storage.sqlite.batch import Batch
from timewheel_storage.sqlite.kinds import Memory

ALL = ScheduleFilter()
AT = START.wall_us


@pytest.fixture
async def store(tmp_path):
    store = open_sqlite(str(tmp_path / "journal.db"))
    await store.open()
    await store.own(owner())
    yield store
    await store.close()


async def spoil(store, *statements):
    def write(connection):
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)
        connection.execute("PRAGMA ignore_check_constraints = OFF")

    await store._transact(write)


async def put(store, *names):
    await store.commit([put_schedule(name) for name in names], stamp(1))


# ---- what is kept ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\0b", "\ud800", 'quotes " and \\u0000 as letters', "\U0001f570 é", "a'b;--"])
async def test_texts_that_sqlite_cannot_keep_do_not_harm_the_batch(store, text):
    kept = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    position = Position(ClockKind.WALL, AT, tzdata=text)
    record = put_schedule(text, task=text, reason=text, definition=text, position=position)
    made = occurrence(1, schedule=text, concurrency_key=text)
    other = row(AT + 1, schedule=text, reason=text)
    outcomes = await store.commit(
        [record, PutCalendar(text, text), plan(made, rows=[other], position=position)], stamp(1)
    )
    assert outcomes[:2] == [DONE, DONE]
    assert [job_id for _, _, job_id in outcomes[2].places] == [1]
    for name in (text, kept):
        found = await store.schedule(name)
        assert (found.schedule, found.task, found.reason, found.definition) == (kept, kept, kept, kept)
        assert found.position == position._replace(tzdata=kept)
        assert [entry.occurrence.schedule for entry in (await store.ledger(name)).entries] == [kept, kept]
        assert (await store.commit([drop_schedule(name, 7)], stamp(1))) == [VersionConflict(name, 1)]
    assert await store.calendars() == {kept: kept}
    [job] = (await store.jobs(JobFilter(schedule=kept))).jobs
    assert (job.origin.schedule, job.concurrency_key) == (kept, kept)
    assert list(await store.unfinished([kept])) == [kept]


async def test_an_origin_and_a_position_come_back_whole(store):
    told = {"clock": ClockKind.STEADY, "turn": 3, "kind": OriginKind.BACKFILL, "catch_up": True}
    made = occurrence(1, nominal_at=-5, missed=Missed(-9, -6, 4), **told)
    position = Position(ClockKind.STEADY, -5, 3, 7, 11, 13, 17, -19, "2026a")
    await put(store, "s")
    await store.commit([plan(made, position=position)], stamp(1))
    assert (await store.job(1)).origin == made.origin
    assert (await store.schedule("s")).position == position
    [claimed] = await store.commit([claim(1)], stamp(1))
    assert [job.origin for job in claimed.jobs] == [made.origin]


async def test_jobs_with_and_without_an_origin_are_claimed_together(store):
    await put(store, "a", "b")
    plans = [plan(occurrence(2, schedule="a")), plan(occurrence(4, schedule="b"))]
    await store.commit([submit(1), submit(3, tags=("t",)), *plans], stamp(1))
    [claimed] = await store.commit([claim(4, 3, 2, 1)], stamp(1))
    assert [(job.job_id, job.origin and job.origin.schedule) for job in claimed.jobs] == [
        (4, "b"),
        (3, None),
        (2, "a"),
        (1, None),
    ]


# ---- batches ---------------------------------------------------------------------------------------------------------


async def test_plans_of_one_batch_see_those_before_them(store):
    """They are written in waves: two plans of a schedule are in two."""
    await put(store, "a", "b")
    again = plan(occurrence(3, schedule="a", nominal_at=AT), position=Position(ClockKind.WALL, AT + 9), hold=True)
    outcomes = await store.commit(
        [
            plan(occurrence(1, schedule="a", nominal_at=AT), hold=True),
            plan(occurrence(2, schedule="b"), version=5),
            again,
            plan(occurrence(4, schedule="a", nominal_at=AT + 1), hold=True),
            plan(occurrence(5, schedule="b"), hold=True),
            plan(occurrence(6, schedule="a", nominal_at=AT + 2), hold=True, supersede=True),
        ],
        stamp(1),
    )
    [lane] = await store.lanes()
    assert outcomes == [
        Planned([(lane.number, AT, 1)], [], []),
        VersionConflict("b", 1),
        Planned([], [], []),  # its slot had its row
        Planned([], [4], []),
        Planned([(lane.number, AT, 5)], [], []),
        Planned([], [6], [4]),
    ]
    assert await store.job(3) is None
    assert (await store.schedule("a")).position.at == AT  # of the last one
    assert [entry.occurrence.job_id for entry in (await store.ledger("a")).entries] == [6, 4, 1]


async def test_of_two_rows_with_one_key_in_a_plan_the_first_is_written(store):
    await put(store, "s")
    twice = plan(occurrence(1), occurrence(2), rows=[row(AT + 1), row(AT + 1, AT + 5, 2)])
    [planned] = await store.commit([twice], stamp(1))
    assert [job_id for _, _, job_id in planned.places] == [1]
    entries = (await store.ledger("s")).entries
    assert [(entry.occurrence.first_at, entry.occurrence.count) for entry in entries] == [(AT + 1, 1), (AT, 1)]


def test_plans_and_declarations_begin_something_and_take_overs_go_with_what_ends():
    """What may be written of the space that is kept for endings (see `timewheel_storage.sqlite.reserve`)."""
    for change in (put_schedule(), drop_schedule(), PutCalendar("c", "{}"), plan(schedule="s")):
        batch = Batch([change, settle_ok(1)], Memory())
        assert (batch.begins_something, batch.ends_something) == (True, False)
    batch = Batch([settle_ok(1), TakeOver()], Memory())
    assert (batch.begins_something, batch.ends_something) == (False, True)


async def test_a_batch_of_plans_takes_few_statements_whatever_its_size(store):
    names = [f"s{number}" for number in range(300)]
    await put(store, *names)
    statements = []
    await store._connections.transact(lambda connection: connection.set_trace_callback(statements.append))

    async def count(changes):
        statements.clear()
        await store.commit(changes, stamp(1))
        return len([statement for statement in statements if not statement.startswith("--")])

    def plans(first, at, **changes):
        return [
            plan(occurrence(first + place, at, schedule=name), rows=[row(at - 9, at - 5, 3, schedule=name)], **changes)
            for place, name in enumerate(names)
        ]

    await store.commit(plans(1, AT)[:1], stamp(1))  # its kind is known from now on
    begun = 3  # BEGIN, the stamp, COMMIT
    assert await count([plan(schedule=name) for name in names]) == begun + 2  # conflicts, positions
    assert await count(plans(1000, AT - 60)) == begun + 5  # and which rows are there, rows, jobs
    assert await count(plans(2000, AT - 120, hold=True)) == begun + 6  # and who is busy
    assert await count(plans(3000, AT - 180, hold=True, supersede=True)) == begun + 8  # and who waits, and its end
    assert await count([claim(*range(1000, 1300))]) == begun + 3  # and the origins
    settles = [settle_ok(job_id) for job_id in range(1000, 1300)]
    assert await count([*settles, TakeOver()]) == begun + 4  # those, whose jobs they were, who waits first, its release


async def test_schedules_with_many_ended_jobs_are_planned_by_seeks(store):
    """A guard of the statements as they run: what they visit does not grow with what has ended."""
    await put(store, "s")
    ended = 3_000

    def fill(connection):
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at, finished_at,"
            " attempt, attempt_state, schedule, origin)"
            " SELECT i, 1, 1, 1, 3, '[[],{}]', i, 1, 1, 1, 2, 's', '[0,' || i || ',0,0,0]' FROM n",
            (ended,),
        )
        steps = []
        connection.set_progress_handler(lambda: steps.append(1), 100)
        return steps

    await store.commit([plan(occurrence(ended + 1))], stamp(1))
    steps = await store._transact(fill)
    steps.clear()
    outcomes = await store.commit(
        [plan(occurrence(ended + 2, AT + 1), hold=True), TakeOver(), claim(ended + 1)],
        stamp(1),
    )
    assert outcomes[0].waiting == [ended + 2]
    assert len(steps) * 100 < ended  # virtual machine steps


# ---- reads -----------------------------------------------------------------------------------------------------------


async def test_pages_of_a_ledger_go_on_beyond_one_scan(store, monkeypatch):
    monkeypatch.setattr(read_schedules, "LEDGER_SCAN", 10)
    await put(store, "s", "other")
    rows = [row(AT + number) for number in range(60)]
    await store.commit([plan(rows=rows), plan(rows=[row(AT, schedule="other")])], stamp(1))

    async def read(**between):
        found, before, calls = [], None, 0
        while calls == 0 or before is not None:
            page = await store.ledger("s", before=before, limit=7, **between)
            found += [entry.occurrence.first_at - AT for entry in page.entries]
            before, calls = page.next_before, calls + 1
            assert calls < 30
        return found

    assert await read() == list(range(59, -1, -1))
    assert await read(since=AT + 3, until=AT + 5) == [5, 4, 3]
    assert await read(since=AT + 100) == []


async def test_pages_of_jobs_of_a_schedule_go_on_beyond_one_scan(store, monkeypatch):
    monkeypatch.setattr(read_list, "SCAN", 5)
    await put(store, "s", "other")
    made = [occurrence(number, AT + number, schedule="s" if number % 3 else "other") for number in range(1, 40)]
    plans = [plan(*[one for one in made if one.origin.schedule == name]) for name in ("s", "other")]
    await store.commit([*plans, submit(50)], stamp(1))
    found, before = [], None
    while page := await store.jobs(JobFilter(schedule="other"), before=before, limit=4):
        found += [job.job_id for job in page.jobs]
        if (before := page.next_before) is None:
            break
    assert found == list(range(39, 0, -3))
    assert await store.count(JobFilter(schedule="other")) == 13


# ---- damage ----------------------------------------------------------------------------------------------------------

SPOILT = "UPDATE schedules SET {} WHERE schedule = 'b'"
DAMAGE = {
    "position": SPOILT.format("position = 'garbage'"),
    "position of another shape": SPOILT.format("position = '[0, 1]'"),
    "position with a text": SPOILT.format("""position = '[0,"1",0,null,0,null,null,0,""]'"""),
    "clock": SPOILT.format("""position = '[7,1,0,null,0,null,null,0,""]'"""),
    "negative clock": SPOILT.format("""position = '[-1,1,0,null,0,null,null,0,""]'"""),
    "state": SPOILT.format("state = 9"),
    "negative state": SPOILT.format("state = -1"),
    "letters": SPOILT.format("definition = CAST(x'ff00fe' AS TEXT)"),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_b59_a_schedule_whose_row_makes_no_sense_is_set_apart_and_the_others_are_read(store, damage):
    await store.commit([put_schedule(name, definition='{"a":1}', queue="q") for name in "abc"], stamp(1))
    await spoil(store, DAMAGE[damage])
    records = await store.schedules(ALL)
    assert [record.schedule for record in records] == ["a", "b", "c"]
    assert records[1] == await store.schedule("b")
    assert (records[1].state, records[1].definition, records[1].version) == (ScheduleState.PARKED, "", 1)
    assert "damaged" in records[1].reason
    assert [record.state for record in (records[0], records[2])] == [ScheduleState.ACTIVE] * 2
    assert await store.count_schedules(ALL) == 3


async def test_what_is_written_of_a_schedule_set_apart_leaves_its_row_to_be_looked_at(store):
    await store.commit([put_schedule("b", definition='{"a":1}')], stamp(1))
    await spoil(store, DAMAGE["position"])
    apart = await store.schedule("b")
    parked = plan(schedule="b", position=apart.position, state=ScheduleState.PARKED, reason="cannot be read")
    assert await store.commit([parked], stamp(1)) == [Planned([], [], [])]
    paused = put_schedule("b", 1, state=ScheduleState.PAUSED, position=apart.position, definition=apart.definition)
    assert await store.commit([paused], stamp(1)) == [DONE]

    def kept(connection):
        return connection.execute("SELECT definition, position, state, version FROM schedules").fetchall()

    assert await store._transact(kept) == [('{"a":1}', "garbage", 1, 2)]
    assert "damaged" in (await store.schedule("b")).reason


async def test_a_schedule_set_apart_is_mended_by_declaring_it_again_and_can_be_dropped(store):
    await put(store, "b", "c")
    await spoil(store, "UPDATE schedules SET position = 'garbage'")
    assert await store.commit([put_schedule("b", 1), drop_schedule("c", 1)], stamp(1)) == [DONE, DONE]
    [record] = await store.schedules(ALL)
    assert (record.schedule, record.state, record.version) == ("b", ScheduleState.ACTIVE, 2)


async def test_a_job_whose_origin_makes_no_sense_is_in_the_way_all_the_same(store):
    """The others are planned; whoever reads the job, or would run it, is told."""
    await put(store, "a", "b")
    await store.commit([plan(occurrence(1, schedule="a")), plan(occurrence(2, AT + 5, schedule="b"))], stamp(1))
    await spoil(store, "UPDATE jobs SET origin = '[0]' WHERE job_id = 2")
    found = await store.unfinished(["a", "b", "none"])
    assert {name: [(job.job_id, job.nominal_at) for job in jobs] for name, jobs in found.items()} == {
        "a": [(1, AT)],
        "b": [(2, AT + 5)],
    }
    with pytest.raises(JournalCorrupt, match="makes no sense"):
        await store.job(2)
    with pytest.raises(JournalCorrupt, match="makes no sense"):
        await store.commit([claim(2, ahead_us=10)], stamp(1))
    [claimed] = await store.commit([claim(1)], stamp(1))
    assert [job.job_id for job in claimed.jobs] == [1]


async def test_a_row_of_a_ledger_that_makes_no_sense_is_damage(store):
    await put(store, "s")
    await store.commit([plan(rows=[row(AT)])], stamp(1))
    await spoil(store, "UPDATE ledger SET fate = 9")
    with pytest.raises(JournalCorrupt, match="ledger of s"):
        await store.ledger("s")


# ---- journals of an older schema -------------------------------------------------------------------------------------


async def test_a_journal_from_before_schedules_keeps_its_jobs_and_learns_of_schedules(tmp_path, monkeypatch):
    path = str(tmp_path / "journal.db")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    every = schema.migrations()
    monkeypatch.setattr(schema, "migrations", lambda: every[:1])
    schema.migrate(connection)
    connection.execute("INSERT INTO lanes VALUES (1, 'default', 5, 0)")
    connection.execute("INSERT INTO kinds VALUES (1, 'app.task', 'default', 5, 0, '[5,1000000,2.0,1,1.0]', NULL, 1)")
    connection.execute(
        "INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at)"
        " VALUES (7, 1, 1, 5, 0, '[[],{}]', 5, 1), (8, 1, 1, 5, 0, '[[],{}]', 5, 1)"
    )
    connection.close()
    monkeypatch.setattr(schema, "migrations", lambda: every)
    store = open_sqlite(path)
    await store.open()
    await store.own(owner())
    job = await store.job(7)
    assert (job.state, job.origin, job.concurrency_key) == (JobState.SCHEDULED, None, None)
    outcomes = await store.commit([put_schedule("s"), plan(occurrence(9), schedule="s"), claim(7, 9)], stamp(1))
    assert [one.job_id for one in outcomes[2].jobs] == [7, 9]
    await store.close()


# ---- keys ------------------------------------------------------------------------------------------------------------


async def test_a_key_is_held_across_the_claims_of_one_batch(store):
    await store.commit(
        [submit(number, concurrency_key="k" if number < 5 else None) for number in range(1, 7)], stamp(1)
    )
    first, second, over = await store.commit([claim(2, 1, 5), claim(3, 4, 6), TakeOver()], stamp(1))
    assert isinstance(first, Claimed)
    assert ([job.job_id for job in first.jobs], first.waiting) == ([2, 5], [1])
    assert ([job.job_id for job in second.jobs], second.waiting) == ([6], [3, 4])
    assert over == Unheld([])
    assert {(await store.job(number)).reason for number in (1, 3, 4)} == {WaitingReason.KEY.value}
    _, over = await store.commit([settle_ok(2), TakeOver()], stamp(1))
    assert [job_id for _, _, job_id in over.places] == [1]

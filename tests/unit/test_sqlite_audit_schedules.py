"""The audit of schedules, their ledgers, and the jobs that came of them."""

import sqlite3

import pytest

from timewheel.model import ClockKind, Missed, OriginKind, job_text
from timewheel.schedule_records import Fate, Position, SkipReason
from timewheel.store.changes import PutCalendar, TakeOver
from timewheel.testing.builders import (
    START,
    claim,
    occurrence,
    owner,
    plan,
    put_schedule,
    row,
    settle_ok,
    settle_overrun,
    stamp,
    submit,
)
from timewheel_storage.sqlite import open_sqlite, schema, verify

AT = START.wall_us
POSITION = Position(ClockKind.WALL, AT, 0, AT + 60, 3, None, None, -10, "2026a")


@pytest.fixture
async def journal(tmp_path):
    """A sound journal, closed: schedules with rows of every fate, jobs that wait, run and hold keys."""
    path = tmp_path / "journal.db"
    store = open_sqlite(str(path))
    await store.open()
    await store.own(owner())
    await store.commit([put_schedule("s", position=POSITION), put_schedule("t"), PutCalendar("c", "{}")], stamp(1))
    first = occurrence(1, AT, missed=Missed(AT - 9, AT - 5, 3), catch_up=True)
    rows = [
        row(AT - 9, AT - 5, 3),
        row(AT + 1, fate=Fate.COALESCED, reason=SkipReason.MISFIRE.value, job_id=1),
    ]
    await store.commit([plan(first, rows=rows, position=POSITION)], stamp(1))
    manual = occurrence(2, AT + 2, kind=OriginKind.MANUAL)
    await store.commit([plan(manual, hold=True, position=POSITION)], stamp(1))
    await store.commit([submit(number, concurrency_key="k") for number in (3, 4)], stamp(1))
    await store.commit([submit(5, concurrency_key="l"), claim(1, 3, 4, 5)], stamp(1))
    await store.commit([plan(occurrence(6, AT, schedule="t", concurrency_key="l"), schedule="t")], stamp(1))
    await store.commit([settle_overrun(5), claim(6), TakeOver()], stamp(1))
    await store.close()
    return path


def damage(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_a_sound_journal_has_no_findings(journal):
    assert verify(str(journal)) == []
    connection = sqlite3.connect(journal)
    reasons = connection.execute("SELECT job_id, reason FROM jobs WHERE state = 1 ORDER BY job_id").fetchall()
    assert reasons == [(2, "overlap"), (4, "key"), (5, "overrun"), (6, "key")]
    connection.close()


WAITS = "waits for something that does not exist"
ORIGIN = "comes of an occurrence that makes no sense"
NO_ROW = "has no row in the ledger of its schedule"
STATE = "is in a state, or of a version, that does not exist"
DEFINITION = "has a definition that is no JSON"
WHERE = "has a position that makes no sense"
ROW = "has a row in its ledger that makes no sense"
GONE = "has a row in its ledger that names a job which does not exist, though fewer were forgotten"
NAMES = "has a row in its ledger that names a job which came of something else"


@pytest.mark.parametrize(
    ("statement", "job_id", "complaint"),
    [
        ("UPDATE jobs SET reason = 'bored' WHERE job_id = 2", 2, WAITS),
        ("UPDATE jobs SET reason = NULL WHERE job_id = 2", 2, WAITS),
        ("UPDATE jobs SET reason = 'key' WHERE job_id = 2", 2, WAITS),
        ("UPDATE jobs SET reason = 'overlap' WHERE job_id = 4", 4, WAITS),
        ("UPDATE jobs SET origin = NULL WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET schedule = NULL WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET origin = 'x' WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET origin = '{}' WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET origin = '[0,1,0,0]' WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET origin = '[2,1,0,0,0]' WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET origin = '[0,null,0,0,0]' WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET origin = '[0,1,\"0\",0,0]' WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET origin = '[0,1,0,3,0]' WHERE job_id = 1", 1, ORIGIN),
        ("UPDATE jobs SET schedule = 't' WHERE job_id = 1", 1, NO_ROW),
        ("UPDATE jobs SET origin = json_set(origin, '$[1]', 7) WHERE job_id = 2", 2, NO_ROW),
        ("UPDATE jobs SET origin = json_set(origin, '$[2]', 7) WHERE job_id = 2", 2, NO_ROW),
        ("UPDATE jobs SET origin = json_set(origin, '$[3]', 2) WHERE job_id = 2", 2, NO_ROW),
        ("DELETE FROM ledger WHERE job_id = 2", 2, NO_ROW),
        ("UPDATE ledger SET fate = 1 WHERE job_id = 2", 2, NO_ROW),
        ("UPDATE ledger SET job_id = 1 WHERE job_id = 2", 2, NO_ROW),
        ("UPDATE schedules SET state = 4 WHERE schedule = 's'", "s", STATE),
        ("UPDATE schedules SET version = 0 WHERE schedule = 's'", "s", STATE),
        ("UPDATE schedules SET definition = '{' WHERE schedule = 's'", "s", DEFINITION),
        *(
            (f"UPDATE schedules SET position = '{position}' WHERE schedule = 's'", "s", WHERE)
            for position in (
                "x",
                "{}",
                "[]",
                '[2,5,0,null,0,null,null,0,""]',
                '[0,null,0,null,0,null,null,0,""]',
                '[0,5,0,5,0,null,null,0,""]',  # the next slot is accounted for
                '[0,5,0,null,-1,null,null,0,""]',
                "[0,5,0,null,0,null,null,0,null]",
                '[0,5,0,null,0,null,null,0,"",1]',
                '[0,5,0,"7",0,null,null,0,""]',
            )
        ),
        ("UPDATE schedules SET position = '[1,5,2,6,0,7,8,-1,\"x\"]' WHERE schedule = 's'", None, None),
        ("UPDATE ledger SET count = 0 WHERE fate = 1", "s", ROW),
        ("UPDATE ledger SET last_at = first_at - 1 WHERE fate = 1", "s", ROW),
        ("UPDATE ledger SET kind = 3 WHERE fate = 1", "s", ROW),
        ("UPDATE ledger SET clock = 2 WHERE fate = 1", "s", ROW),
        ("UPDATE ledger SET fate = 3 WHERE fate = 1", "s", ROW),
        ("UPDATE ledger SET count = 2 WHERE job_id = 2", "s", ROW),
        ("UPDATE ledger SET last_at = last_at + 1 WHERE job_id = 2", "s", ROW),
        ("UPDATE ledger SET job_id = NULL WHERE job_id = 6", "t", ROW),
        ("UPDATE ledger SET job_id = 99 WHERE job_id = 6", "t", GONE),
        ("UPDATE ledger SET job_id = 99 WHERE fate = 2", "s", GONE),
        ("UPDATE meta SET pruned = 1", None, None),
        ("DELETE FROM jobs WHERE job_id = 2", "s", GONE),
        ("UPDATE ledger SET job_id = 6 WHERE fate = 2", "s", NAMES),
        ("UPDATE ledger SET first_at = first_at + 7, last_at = last_at + 7 WHERE job_id = 6", "t", NAMES),
        ("DELETE FROM schedules", None, None),  # a dropped schedule leaves its jobs and its ledger
    ],
)
async def test_a_broken_rule_of_schedules_is_found(journal, statement, job_id, complaint):
    damage(journal, statement)
    findings = verify(str(journal))
    if complaint is None:
        assert findings == []
        return
    found = [finding for finding in findings if complaint in finding]
    assert found, findings
    name = job_text(job_id) if isinstance(job_id, int) else f"schedule {job_id!r}"
    assert name in found[0]


async def test_a_journal_that_has_not_learned_of_schedules_has_no_findings(tmp_path, monkeypatch):
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path, isolation_level=None)
    every = schema.migrations()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: every[:1])
        schema.migrate(connection)
    connection.close()
    assert verify(str(path)) == []


async def test_settled_jobs_keep_their_rows(journal):
    store = open_sqlite(str(journal))
    await store.open()
    await store.own(owner())
    await store.commit([settle_ok(1, claim_epoch=1), settle_ok(3, claim_epoch=1), TakeOver()], stamp(2))
    await store.close()
    assert verify(str(journal)) == []

"""The audit of flow control, of what has ended, and of operations."""

import sqlite3

import pytest

from timewheel.flow import Dependencies, DependencyFails, Flow, OnConflict, Uniqueness
from timewheel.model import JobState, job_text
from timewheel.store.changes import TakeOver
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    occurrence,
    owner,
    plan,
    put_schedule,
    settle_dead,
    settle_ok,
    settle_retry,
    stamp,
    submit,
)
from timewheel.testing.builders_flow import defer, discard, prune, put_operation, replay, rule, waiting_for
from timewheel_storage.sqlite import open_sqlite, schema, verify

WHOLE = Flow(
    rate_key="r",
    cost=2,
    heartbeat_timeout_us=1,
    expires_at=START.wall_us + 1,
    deadline=START.wall_us + 2,
    idempotent=False,
    partition_key="p",
    unique=Uniqueness("d", ("ACTIVE", "WAITING"), OnConflict.FAIL, 5),
    wait_for=Dependencies((1, 1), DependencyFails.WAIT),
)


@pytest.fixture(scope="module")
def made():
    """The sound journal, once it is made."""
    return []


@pytest.fixture
async def journal(tmp_path, made):
    """A sound journal, closed: jobs of every kind of flow control, dead letters, operations; some were forgotten."""
    path = tmp_path / "journal.db"
    if not made:
        await make(path)
        made.append(path.read_bytes())
    path.write_bytes(made[0])
    return path


async def make(path):
    store = open_sqlite(str(path), "process")
    await store.open()
    await store.own(owner())
    await store.commit([submit(1), submit(2, flow=WHOLE), submit(3, flow=waiting_for(1, 2))], stamp(1))
    await store.commit([submit(4), submit(5, flow=Flow(partition_key="q")), submit(6), put_schedule("s")], stamp(1))
    await store.commit([defer((4, START.wall_us, None)), claim(5, 6)], stamp(1))
    first = settle_retry(5, fault="throttled", fingerprint="f")
    await store.commit([first, settle_dead(6, fault="permanent", fingerprint="g")], stamp(1))
    await store.commit([discard(6), claim(5)], stamp(1))
    await store.commit([settle_dead(5, attempt=2, fault="ambiguous"), plan(occurrence(7, START.wall_us))], stamp(1))
    await store.commit([replay(5), claim(7)], stamp(1))
    await store.commit([claim(5), settle_ok(7), submit(8), put_operation(1)], stamp(1))
    await store.commit([cancel(8), put_operation(2, kind="discard")], stamp(1))
    await store.commit([prune(rule(JobState.CANCELLED), rule(JobState.COMPLETED)), TakeOver(True)], stamp(1))
    await store.close()


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
    assert reasons == [(2, "dependency"), (3, "dependency"), (4, "task")]
    assert connection.execute("SELECT on_job, job_id FROM waits").fetchall() == [(1, 2), (1, 3), (2, 3)]
    assert connection.execute("SELECT pruned, (SELECT count(*) FROM jobs) FROM meta").fetchall() == [(2, 6)]
    connection.close()


FLOW = "has flow control that makes no sense"
DIGEST = "is found by something else than what is unique about it"
FOR_NONE = "waits for jobs, and says for none"
UNKNOWN = "is not known to wait for the jobs that it waits for, or is known to wait for others"
FOR_NOBODY = "waits for a job that does not exist"
PARTITION = "lies in a lane of a partition that is not its own"
DISCARDED = "was discarded, and is not DEAD"
FAULT = "failed in a way that does not exist, or before its attempt has ended"
KIND = "is in a state, or does something, that does not exist"
OBJECT = "has a request, a progress or an audit that is no JSON object"
AUDIT = "is of the audit, and no JSON object"
GONE = "names a job which does not exist, though fewer were forgotten"


def put(path, value):
    return f"UPDATE jobs SET flow = json_set(flow, '{path}', {value}) WHERE job_id = 2"


@pytest.mark.parametrize(
    ("statement", "subject", "complaint"),
    [
        ("UPDATE jobs SET flow = '[' WHERE job_id = 2", 2, FLOW),
        ("UPDATE jobs SET flow = '{}' WHERE job_id = 2", 2, FLOW),
        ("UPDATE jobs SET flow = '[]' WHERE job_id = 2", 2, FLOW),
        ("UPDATE jobs SET flow = json_remove(flow, '$[8]') WHERE job_id = 2", 2, FLOW),
        ("UPDATE jobs SET flow = json_insert(flow, '$[#]', 1) WHERE job_id = 2", 2, FLOW),
        (put("$[0]", "7"), 2, FLOW),
        (put("$[0]", "NULL"), None, None),
        (put("$[1]", "0"), 2, FLOW),
        (put("$[1]", "NULL"), 2, FLOW),
        (put("$[2]", "'5'"), 2, FLOW),
        (put("$[2]", "NULL"), None, None),
        (put("$[3]", "1.5"), 2, FLOW),
        (put("$[4]", "'x'"), 2, FLOW),
        (put("$[5]", "1"), 2, FLOW),
        (put("$[5]", "json('true')"), None, None),
        (put("$[6]", "5"), 2, FLOW),
        (put("$[7]", "'d'"), 2, FLOW),
        (put("$[7]", "NULL"), 2, DIGEST),
        (put("$[7][0]", "'e'"), 2, DIGEST),
        (put("$[7][0]", "NULL"), 2, FLOW),
        (put("$[7][1]", "'ACTIVE'"), 2, FLOW),
        (put("$[7][1][0]", "3"), 2, FLOW),
        (put("$[7][2]", "'keep'"), None, None),
        (put("$[7][2]", "'kept'"), 2, FLOW),
        (put("$[7][3]", "'5'"), 2, FLOW),
        (put("$[7][3]", "NULL"), None, None),
        (put("$[8]", "7"), 2, FLOW),
        (put("$[8]", "NULL"), 2, FOR_NONE),
        (put("$[8][0]", "json('[]')"), 2, FOR_NONE),
        (put("$[8][0][0]", "'1'"), 2, FLOW),
        (put("$[8][0][0]", "9"), 2, UNKNOWN),
        (put("$[8][1]", "'RUN'"), None, None),
        (put("$[8][1]", "'STAY'"), 2, FLOW),
        ("UPDATE jobs SET flow = NULL WHERE job_id = 3", 3, FOR_NONE),
        ("UPDATE jobs SET unique_digest = NULL WHERE job_id = 2", 2, DIGEST),
        ("UPDATE jobs SET unique_digest = 'd' WHERE job_id = 1", 1, DIGEST),
        ("DELETE FROM waits WHERE on_job = 2", 3, UNKNOWN),
        ("INSERT INTO waits VALUES (1, 4)", 4, UNKNOWN),
        ("UPDATE jobs SET reason = 'task' WHERE job_id = 3", 3, UNKNOWN),
        ("UPDATE jobs SET reason = 'dependency' WHERE job_id = 4", 4, FOR_NONE),
        ("DELETE FROM jobs WHERE job_id = 1", 3, FOR_NOBODY),
        ("UPDATE jobs SET lane = (SELECT lane FROM jobs WHERE job_id = 1) WHERE job_id = 2", 2, PARTITION),
        ("UPDATE jobs SET lane = (SELECT lane FROM jobs WHERE job_id = 2) WHERE job_id = 1", 1, PARTITION),
        ("UPDATE lanes SET partition = 'x' WHERE partition = 'p'", 2, PARTITION),
        ("UPDATE lanes SET partition = '~07' WHERE partition = 'p'", None, None),  # one of those that share lanes
        (put("$[6]", "NULL"), 2, PARTITION),
        ("UPDATE jobs SET discarded_at = 7 WHERE job_id = 1", 1, DISCARDED),
        ("UPDATE jobs SET fault = 'bad' WHERE job_id = 6", 6, FAULT),
        ("UPDATE jobs SET fault = NULL WHERE job_id = 6", 6, FAULT),
        ("UPDATE jobs SET attempt_fault = 'bad' WHERE job_id = 6", 6, FAULT),
        ("UPDATE jobs SET attempt_fault = 'transient' WHERE job_id = 5", 5, FAULT),
        ("UPDATE jobs SET attempt_fault = 'transient' WHERE job_id = 1", 1, FAULT),
        ("UPDATE attempts SET fault = '' WHERE number = 1", 5, FAULT),
        ("UPDATE operations SET state = 3 WHERE number = 1", "operation 1", KIND),
        ("UPDATE operations SET kind = '' WHERE number = 1", "operation 1", KIND),
        ("UPDATE operations SET request = '[]' WHERE number = 1", "operation 1", OBJECT),
        ("UPDATE operations SET progress = '{' WHERE number = 1", "operation 1", OBJECT),
        ("UPDATE operations SET audit = 'null' WHERE number = 2", "operation 2", OBJECT),
        (
            "UPDATE entries SET data = '7' WHERE kind = 'audit'",
            "journal entry 1",
            "is of the audit, and no JSON object",
        ),
        ("UPDATE meta SET pruned = 0", "schedule 's'", GONE),
    ],
)
async def test_a_broken_rule_is_found(journal, statement, subject, complaint):
    damage(journal, statement)
    findings = verify(str(journal))
    if complaint is None:
        assert findings == []
        return
    found = [finding for finding in findings if complaint in finding]
    assert found, findings
    assert (job_text(subject) if isinstance(subject, int) else subject) in found[0]


async def test_a_journal_that_has_not_learned_of_flow_control_has_no_findings(tmp_path, monkeypatch):
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path, isolation_level=None)
    every = schema.migrations()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", lambda: every[:2])
        schema.migrate(connection)
    connection.close()
    assert verify(str(path)) == []

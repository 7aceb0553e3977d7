"""The audit finds what is wrong and nothing else; and it changes nothing."""

import hashlib
import sqlite3

import pytest

from timewheel.errors import JournalUnavailable
from timewheel.model import job_text
from timewheel.store.changes import AddEntry
from timewheel.testing.builders import (
    cancel,
    claim,
    later,
    owner,
    settle_dead,
    settle_lost,
    settle_ok,
    settle_overrun,
    settle_retry,
    stamp,
    submit,
)
from timewheel_storage.sqlite import open_sqlite, verify


@pytest.fixture
async def journal(tmp_path):
    """A sound journal, closed: two owners, and jobs in every state."""
    path = tmp_path / "journal.db"
    store = open_sqlite(str(path))
    await store.open()
    await store.own(owner())
    await store.commit([submit(job_id) for job_id in range(1, 8)], stamp(1))
    await store.commit([submit(8, idempotency_key="k", digest="d"), AddEntry("x"), AddEntry("y")], stamp(1))
    await store.commit([submit(9, misfire_grace_us=1)], stamp(1))
    await store.commit([claim(9, watching_since=later(5))], stamp(1))
    await store.commit([claim(1, 2, 3, 4, 5)], stamp(1))
    settles = [settle_ok(1), settle_dead(2), settle_retry(3), settle_overrun(4)]
    await store.commit([*settles, cancel(6)], stamp(1))
    await store.close()
    await store.open()
    await store.own(owner())
    await store.commit([settle_lost(5)], stamp(2))
    await store.commit([claim(3, 5)], stamp(2))
    await store.commit([settle_retry(3, attempt=2, claim_epoch=2)], stamp(2))
    await store.commit([claim(3)], stamp(2))
    await store.commit([settle_ok(3, attempt=3, claim_epoch=2)], stamp(2))
    await store.close()
    return path


def damage(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_a_sound_journal_has_no_findings_and_is_left_alone(journal):
    damage(journal, "PRAGMA wal_checkpoint(TRUNCATE)")
    before = hashlib.sha256(journal.read_bytes()).hexdigest()
    assert verify(str(journal)) == []
    assert hashlib.sha256(journal.read_bytes()).hexdigest() == before


@pytest.mark.parametrize(
    ("statement", "job_id", "complaint"),
    [
        ("UPDATE jobs SET state = 9 WHERE job_id = 7", 7, "does not agree with its end"),
        ("UPDATE jobs SET state = -1 WHERE job_id = 7", 7, "does not agree with its end"),
        ("UPDATE jobs SET state = 2 WHERE job_id = 7", 7, "does not agree with its end"),
        (
            "UPDATE jobs SET state = 0, finished_at = NULL, attempt_state = 1 WHERE job_id = 2",
            2,
            "does not agree with its end",
        ),
        ("UPDATE jobs SET finished_at = NULL WHERE job_id = 2", 2, "does not agree with its end"),
        ("UPDATE jobs SET finished_at = 5 WHERE job_id = 7", 7, "does not agree with its end"),
        ("UPDATE jobs SET attempt = 1 WHERE job_id = 7", 7, "does not agree with its end"),
        ("UPDATE jobs SET attempt_state = 9 WHERE job_id = 2", 2, "does not agree with its end"),
        ("UPDATE attempts SET state = 9 WHERE job_id = 3", 3, "does not agree with its end"),
        ("UPDATE jobs SET lane = 77 WHERE job_id = 7", 7, "known kind or lane"),
        ("UPDATE jobs SET kind = 77 WHERE job_id = 7", 7, "known kind or lane"),
        ("UPDATE kinds SET queue = 'other'", 1, "lane of another queue"),
        ("UPDATE jobs SET job_id = (9 << 40) WHERE job_id = 7", 9 << 40, "epoch that is yet to come"),
        ("DELETE FROM attempts WHERE job_id = 3 AND number = 1", 3, "without a gap"),
        ("DELETE FROM attempts WHERE job_id = 3 AND number = 2", 3, "without a gap"),
        ("UPDATE attempts SET number = 3 WHERE job_id = 3 AND number = 2", 3, "beyond its newest one"),
        ("UPDATE attempts SET job_id = 99 WHERE job_id = 3 AND number = 2", 99, "does not exist"),
        ("UPDATE attempts SET state = 0 WHERE job_id = 3 AND number = 2", 3, "more than one open attempt"),
        ("UPDATE attempts SET state = 2 WHERE job_id = 3 AND number = 2", 3, "tried again"),
        ("UPDATE jobs SET attempt_epoch = 3 WHERE job_id = 3", 3, "epoch that never was"),
        ("UPDATE jobs SET attempt_epoch = NULL WHERE job_id = 3", 3, "epoch that never was"),
        ("UPDATE attempts SET epoch = 3 WHERE job_id = 3 AND number = 2", 3, "epoch that never was"),
        ("UPDATE meta SET epoch = 1", 3, "epoch that never was"),
        ("UPDATE jobs SET attempt_epoch = 1 WHERE job_id = 3", 3, "older epoch"),
        ("UPDATE attempts SET epoch = 2 WHERE job_id = 3 AND number = 1", None, None),  # rising all the same
        ("UPDATE jobs SET attempt_state = 3 WHERE job_id = 1", 1, "COMPLETED without"),
        ("UPDATE jobs SET attempt_state = 2 WHERE job_id = 2", 2, "COMPLETED without"),
        ("UPDATE jobs SET start_lag_us = -1 WHERE job_id = 1", 1, "before it was due"),
        ("UPDATE attempts SET dispatch_lag_us = -1 WHERE job_id = 3", 3, "before it was due"),
        ("UPDATE attempts SET lane = 44 WHERE job_id = 3", 3, "no lane knows"),
        ("UPDATE keys SET job_id = 99", 99, "not its own"),
        ("UPDATE keys SET key = 'other'", 8, "not its own"),
        ("UPDATE jobs SET holds_key = NULL WHERE job_id = 8", 8, "should be named"),
        ("DELETE FROM keys", 8, "should be named"),
        ("DELETE FROM entries WHERE number = 1", None, "1 journal entries are missing"),
        ("UPDATE meta SET commits = 1", None, "fewer than its 2 owners"),
    ],
)
async def test_a_broken_rule_is_found(journal, statement, job_id, complaint):
    damage(journal, statement)
    findings = verify(str(journal))
    if complaint is None:
        assert findings == []
        return
    [finding, *_] = [finding for finding in findings if complaint in finding] or [findings]
    assert complaint in finding, findings
    assert job_id is None or job_text(job_id) in finding


async def test_a_due_index_that_lacks_a_job_is_found(journal):
    damage(
        journal,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'WHERE state = 0', 'WHERE state = 9') WHERE name = 'jobs_due'",
    )
    damage(journal, "REINDEX jobs_due")
    damage(
        journal,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'WHERE state = 9', 'WHERE state = 0') WHERE name = 'jobs_due'",
    )
    findings = verify(str(journal))
    assert findings
    assert all("jobs_due" in finding for finding in findings)


async def test_many_jobs_are_counted_and_few_are_named(journal):
    damage(journal, "UPDATE jobs SET lane = 77")
    [finding] = [finding for finding in verify(str(journal)) if "lane" in finding and "more" in finding]
    assert finding.count("job-") == 5
    assert "and 4 more" in finding


async def test_what_cannot_be_opened_is_a_finding(tmp_path):
    path = tmp_path / "journal.db"
    path.write_bytes(b"no database at all" * 1000)
    [finding] = verify(str(path))
    assert str(path) in finding
    with pytest.raises(JournalUnavailable):
        verify(str(tmp_path / "none.db"))

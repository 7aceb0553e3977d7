"""A batch that is written once more, because its first attempt was rolled back, writes all that it then reports."""

import sqlite3

import pytest

from tests.databases import in_memory
from timewheel.model import JobState
from timewheel.store.changes import DONE, TakeOver
from timewheel.testing.builders import (
    START,
    claim,
    occurrence,
    plan,
    put_schedule,
    reschedule,
    settle_ok,
    settle_retry,
    stamp,
    submit,
)
from timewheel_storage.sqlite import schema
from timewheel_storage.sqlite.batch import Batch
from timewheel_storage.sqlite.kinds import Memory
from timewheel_storage.sqlite.read import job


@pytest.fixture
def journal():
    """A journal's connection, under its first epoch."""
    connection = in_memory()
    schema.migrate(connection)
    connection.execute("UPDATE meta SET epoch = 1")
    return connection


class FailsOnce:
    """A connection whose first COMMIT fails, and rolls back."""

    def __init__(self, connection):
        self._connection = connection
        self._fails = True

    def execute(self, statement, *values):
        if statement == "COMMIT" and self._fails:
            self._fails = False
            self._connection.execute("ROLLBACK")
            error = sqlite3.OperationalError("full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._connection.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._connection, name)


@pytest.mark.parametrize("key", [None, "k"])
def test_jobs_of_a_new_kind_are_made_by_the_second_attempt(journal, key):
    batch = Batch([submit(1, task="new", queue="new", idempotency_key=key, digest=key and "d"), claim(1)], Memory())
    connection = FailsOnce(journal)
    with pytest.raises(Exception, match="no space left"):
        batch.write(connection, "j", stamp(1), "boot-1")
    assert job(journal, 1) is None
    batch.write(connection, "j", stamp(1), "boot-1")
    made, claimed = batch.outcomes()
    assert made.created
    assert [one.job_id for one in claimed.jobs] == [1]
    assert job(journal, 1).state is JobState.ACTIVE


def test_a_plan_of_a_new_kind_is_carried_out_by_the_second_attempt(journal):
    made = occurrence(1, START.wall_us, task="new", queue="new")
    batch = Batch([put_schedule(), plan(made), claim(1), settle_ok(2), TakeOver()], Memory())
    connection = FailsOnce(journal)
    with pytest.raises(Exception, match="no space left"):
        batch.write(connection, "j", stamp(1), "boot-1")
    assert job(journal, 1) is None
    batch.write(connection, "j", stamp(1), "boot-1")
    put, planned, claimed, *_ = batch.outcomes()
    assert (put, [job_id for _, _, job_id in planned.places]) == (DONE, [1])
    assert [one.job_id for one in claimed.jobs] == [1]
    found = job(journal, 1)
    assert (found.state, found.task, found.queue, found.origin) == (JobState.ACTIVE, "new", "new", made.origin)


def test_verbs_of_the_second_attempt_find_what_is_there(journal):
    memory = Memory()
    first = Batch([submit(1), submit(2, queue="other"), claim(1)], memory)
    first.write(journal, "j", stamp(1), "boot-1")
    first.outcomes()
    batch = Batch([settle_retry(1), reschedule(2, 5), claim(1, 2)], memory)
    connection = FailsOnce(journal)
    with pytest.raises(Exception, match="no space left"):
        batch.write(connection, "j", stamp(1), "boot-1")
    batch.write(connection, "j", stamp(1), "boot-1")
    settled, moved, claimed = batch.outcomes()
    assert (settled.job_state, bool(moved.answer)) == (JobState.SCHEDULED, True)
    assert [one.job_id for one in claimed.jobs] == [1, 2]
    assert job(journal, 2).scheduled_at == 5

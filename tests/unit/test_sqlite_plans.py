"""How SQLite goes about each statement: none that runs all the time may go through a whole table of jobs."""

import re
import sqlite3

import pytest

from timewheel.store.changes import Claimed, Settled, Submitted
from timewheel.testing.builders import claim, owner, settle_ok, settle_retry, stamp, submit
from timewheel_storage.sqlite import (
    admission,
    keys,
    kinds,
    open_sqlite,
    places,
    read,
    read_letters,
    read_list,
    read_schedules,
    schema,
    take_over_dependents,
    write_claim,
    write_letters,
    write_plan,
    write_rest,
    write_schedules,
    write_settle,
    write_submit,
    write_take_over,
    write_verbs,
)

MODULES = (
    admission,
    keys,
    kinds,
    places,
    read,
    read_letters,
    read_list,
    read_schedules,
    take_over_dependents,
    write_claim,
    write_letters,
    write_plan,
    write_rest,
    write_schedules,
    write_settle,
    write_submit,
    write_take_over,
    write_verbs,
)
STATEMENTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": text
    for module in MODULES
    for name, text in vars(module).items()
    if isinstance(text, str)
    and name.isupper()
    and not name.startswith("_")
    and text.lstrip().startswith(("SELECT ", "WITH ", "INSERT ", "UPDATE ", "DELETE "))
}
STATEMENTS["page_of_states"] = read_list.page_of_states([1, 2, 4, 5, 6])
LARGE = {
    "jobs",
    "attempts",
    "keys",
    "ledger",
    "schedules",
    "j",
    "a",
    "s",
    "w",
    "u",
    "b",
    "o",
    "waits",
    "x",
}  # and what they are called
MAY_SCAN = {
    "read.DEPTHS": ["SCAN j USING COVERING INDEX jobs_due"],  # which the port allows
    "read_schedules.SCHEDULES": ["SCAN s USING INDEX sqlite_autoindex_schedules_1"],  # a page, in order
    "read_schedules.COUNT_SCHEDULES": ["SCAN s"],
    "write_take_over.OF_THESE": ["SCAN waits USING COVERING INDEX waits_of_job"],  # as far as the first row
    "write_take_over.OF_ALL": ["SCAN waits USING COVERING INDEX waits_of_job"],
    "take_over_dependents.DEPENDENTS_OF_ALL": ["SCAN x USING COVERING INDEX waits_of_job"],  # at a start
}


@pytest.fixture(scope="module")
def connection():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(connection)
    yield connection
    connection.close()


def plan(connection, statement):
    if ":" in statement:
        parameters = dict.fromkeys(re.findall(r":(\w+)", statement))
    else:
        parameters = {str(number): None for number in range(1, 12) if f"?{number}" in statement}
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]


def test_the_statements_were_found():
    assert len(STATEMENTS) > 35
    assert {"write_claim.OPEN", "write_settle.SUCCESSES", "write_submit.PLAIN_JOBS", "read.DUE"} <= set(STATEMENTS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_goes_through_a_large_table(connection, name):
    steps = plan(connection, STATEMENTS[name])
    scans = [step for step in steps if step.startswith("SCAN") and step.split()[1] in LARGE]
    assert scans == MAY_SCAN.get(name, []), steps
    assert not [step for step in steps if "AUTOMATIC" in step], steps


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("read.DUE", "SEARCH jobs USING COVERING INDEX jobs_due (lane=? AND due_at=? AND state=? AND rowid>?)"),
        ("read.DUE", "SEARCH jobs USING COVERING INDEX jobs_due (lane=? AND due_at>? AND due_at<?)"),
        ("read.FULLEST_SECOND", "SEARCH j USING COVERING INDEX jobs_due (lane=? AND due_at>? AND due_at<?)"),
        ("read.OPEN_ATTEMPTS", "SEARCH j USING INDEX jobs_notable (state=? AND rowid>?)"),
        ("read_list.PAGE_OF_KEY", "SEARCH jobs USING COVERING INDEX jobs_by_key (idempotency_key=? AND rowid<?)"),
        ("page_of_states", "SEARCH jobs USING COVERING INDEX jobs_notable (state=? AND rowid<?)"),
        ("read_letters.LETTERS", "SEARCH jobs USING COVERING INDEX jobs_notable (state=? AND rowid<?)"),
        ("read_letters.GROUPS", "SEARCH jobs USING COVERING INDEX jobs_notable (state=? AND rowid<?)"),
        ("read_letters.LETTERS_OF_FINGERPRINT", "SEARCH jobs USING INDEX jobs_dead (fingerprint=? AND rowid<?)"),
        ("read_letters.GROUPS_OF_FINGERPRINT", "SEARCH jobs USING INDEX jobs_dead (fingerprint=? AND rowid<?)"),
        ("read_letters.ENTRIES_OF", "SEARCH entries USING INDEX entries_of_kind (kind=? AND rowid<?)"),
        ("write_letters.TO_FORGET", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid>?)"),
        ("write_letters.TO_FORGET", "SEARCH o USING PRIMARY KEY (on_job=?)"),
        ("write_letters.FORGET_ATTEMPTS", "SEARCH attempts USING PRIMARY KEY (job_id=?)"),
        ("write_rest.WAITING", "SEARCH j USING INDEX jobs_notable (state=?)"),
        ("write_rest.OLD_HOLDERS", "SEARCH jobs USING INDEX jobs_holding_keys (finished_at<?)"),
        ("write_claim.OPEN", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        ("write_settle.SUCCESSES", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        ("write_settle.ANY_END", "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"),
        ("write_verbs.CANCELS", "SEARCH jobs USING INTEGER PRIMARY KEY (rowid=?)"),
        ("admission.HOLDERS", "SEARCH k USING PRIMARY KEY (task=? AND key=?)"),
        ("read_list.PAGE_OF_SCHEDULE", "SEARCH jobs USING COVERING INDEX jobs_of_schedule (schedule=? AND rowid<?)"),
        ("read_schedules.UNFINISHED", "SEARCH u USING COVERING INDEX jobs_unfinished (schedule=? AND state=?)"),
        ("read_schedules.LEDGER", "SEARCH ledger USING COVERING INDEX ledger_by_schedule (schedule=? AND rowid<?)"),
        ("write_plan.BUSY", "SEARCH j USING COVERING INDEX jobs_unfinished (schedule=? AND state=?)"),
        (
            "write_plan.TO_SUPERSEDE",
            "SEARCH j USING COVERING INDEX jobs_unfinished (schedule=? AND state=? AND reason=?)",
        ),
        (
            "write_plan.ROWS_THERE",
            "SEARCH w USING COVERING INDEX ledger_by_occurrence"
            " (schedule=? AND clock=? AND first_at=? AND turn=? AND kind=?)",
        ),
        (
            "admission.NEWEST_EQUALS",
            "SEARCH u USING INDEX jobs_by_unique_digest (unique_digest=? AND state=?)",
        ),
        ("keys.KEY_HOLDERS", "SEARCH o USING INDEX jobs_by_concurrency_key (concurrency_key=? AND state=?)"),
        (
            "keys.KEY_HOLDERS",
            "SEARCH o USING INDEX jobs_by_concurrency_key (concurrency_key=? AND state=? AND reason=?)",
        ),
        ("write_take_over.OF_ALL", "SEARCH j USING INDEX jobs_notable (state=?)"),
    ],
)
def test_the_index_that_is_meant_is_used(connection, name, step):
    assert step in plan(connection, STATEMENTS[name])


KEY = "concurrency_key=? AND state=? AND reason=?"


@pytest.mark.parametrize(
    ("name", "index", "seeks"),
    [
        (
            "write_take_over.FIRST_OF_SCHEDULES",
            "COVERING INDEX jobs_unfinished",
            [
                "schedule=? AND state=?",
                "schedule=? AND state=?",
                "schedule=? AND state=? AND reason<?",
                "schedule=? AND state=? AND reason>?",
                "schedule=? AND state=? AND reason=?",
                "schedule=? AND state=? AND reason=?",
            ],
        ),
        (
            "write_take_over.FIRST_OF_KEYS",
            "COVERING INDEX jobs_by_concurrency_key",
            [KEY, f"{KEY} AND lane>?", f"{KEY} AND lane=?"],
        ),
        ("write_take_over.MORE_OF_KEYS", "COVERING INDEX jobs_by_concurrency_key", [f"{KEY} AND lane=?"]),
        (
            "write_take_over.FIRST_OF_TASKS",
            "INDEX jobs_waiting_for_task",
            ["kind=?", "kind=? AND lane>?", "kind=? AND lane=?"],
        ),
    ],
)
def test_who_waits_first_is_found_by_seeks_alone(connection, name, index, seeks):
    """However many wait, and however many jobs of the schedule have ended; in the order of the index."""
    steps = plan(connection, STATEMENTS[name])
    found = [step.partition("(")[2][:-1] for step in steps if step.startswith("SEARCH") and f"USING {index} " in step]
    assert found == seeks
    assert not [step for step in steps if "TEMP B-TREE" in step]
    others = [step for step in steps if step.startswith(("SEARCH b ", "SEARCH w ", "SCAN b", "SCAN w"))]
    assert len(others) == len(found)


@pytest.mark.parametrize("name", ["read.DUE", "write_rest.WAITING", "write_rest.OLD_HOLDERS", "read.OPEN_ATTEMPTS"])
def test_pages_come_out_of_the_index_in_order(connection, name):
    sorts = [step for step in plan(connection, STATEMENTS[name]) if "TEMP B-TREE" in step]
    if name == "read.DUE":  # SQLite does not see that the ids of one due time are in order too; it sorts only those
        assert sorts == ["USE TEMP B-TREE FOR RIGHT PART OF ORDER BY"]
    else:
        assert sorts == []


@pytest.fixture
async def counted(tmp_path):
    """A store, and the statements its writing connection runs."""
    store = open_sqlite(str(tmp_path / "journal.db"))
    await store.open()
    await store.own(owner())
    statements = []
    await store._connections.transact(lambda connection: connection.set_trace_callback(statements.append))
    yield store, statements
    await store.close()


async def test_a_batch_takes_few_statements_whatever_its_size(counted):
    """Each one gives the interpreter's lock away and must get it back from a busy loop."""
    store, statements = counted
    await store.commit([submit(1)], stamp(1))

    async def count(*changes, kind):
        statements.clear()
        outcomes = await store.commit(changes, stamp(1))
        assert all(isinstance(outcome, kind) for outcome in outcomes)
        assert (statements[0], statements[-1]) == ("BEGIN IMMEDIATE", "COMMIT")
        return len([statement for statement in statements if not statement.startswith("--")])

    many = range(10, 510)
    assert await count(*(submit(job_id) for job_id in many), kind=Submitted) == 4  # BEGIN, the stamp, one, COMMIT
    assert await count(claim(*many), kind=Claimed) == 5
    assert await count(*(settle_ok(job_id) for job_id in many[:300]), kind=Settled) == 4
    assert await count(*(settle_retry(job_id) for job_id in many[300:]), kind=Settled) == 7  # makes the steady lane
    assert await count(claim(*many[300:]), kind=Claimed) == 6
    again = [settle_retry(job_id, attempt=2) for job_id in many[300:]]
    assert await count(*again, kind=Settled) == 5
    keyed = [submit(job_id, idempotency_key=str(job_id), digest="d") for job_id in range(1000, 1500)]
    assert await count(*keyed, kind=Submitted) == 6

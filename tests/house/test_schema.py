"""The journal's schema: migrations only grow, and say the same as the code."""

import hashlib
import re
import sqlite3
from importlib.resources import files

import pytest

from tests.databases import in_memory
from timewheel.model import AttemptState, ClockKind, JobState, OriginKind, WaitingReason
from timewheel.schedule_records import Fate, ScheduleState
from timewheel.store.letters import OperationState
from timewheel_storage.sqlite import codes, schema

# A migration that was released never changes: a journal that has seen it would not see the change. Add another one.
RELEASED: dict[str, str] = {}


CODES = {
    "job_states": codes.JOB_STATES,
    "attempt_states": codes.ATTEMPT_STATES,
    "schedule_states": codes.SCHEDULE_STATES,
    "origin_kinds": codes.ORIGIN_KINDS,
    "fates": codes.FATES,
    "operation_states": codes.OPERATION_STATES,
}


def scripts():
    folder = files("timewheel_storage.sqlite") / "migrations"
    return sorted(one.name for one in folder.iterdir() if one.name.endswith(".sql"))


def database():
    return in_memory()


def dump(connection):
    columns = "type, name, tbl_name, sql"
    tables = connection.execute(f"SELECT {columns} FROM sqlite_schema ORDER BY name").fetchall()
    pragmas = [connection.execute(f"PRAGMA {name}").fetchone() for name in ("user_version", "application_id")]
    codes_of = [connection.execute(f"SELECT * FROM {name}").fetchall() for name in CODES]
    return tables, pragmas, codes_of


@pytest.fixture
def fresh():
    connection = database()
    schema.migrate(connection)
    yield connection
    connection.close()


def test_migrations_are_numbered_from_one_without_gaps():
    assert [int(name[:4]) for name in scripts()] == list(range(1, len(scripts()) + 1))
    assert len(schema.migrations()) == len(scripts())


def test_released_migrations_never_change():
    folder = files("timewheel_storage.sqlite") / "migrations"
    for name, digest in RELEASED.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_migrated_equals_fresh(fresh, monkeypatch):
    """Step by step, with the connection closed in between, as over many releases."""
    every = schema.migrations()
    stepwise = database()
    for number in range(1, len(every) + 1):
        monkeypatch.setattr(schema, "migrations", lambda number=number: every[:number])
        schema.migrate(stepwise)
        assert stepwise.execute("PRAGMA user_version").fetchone() == (number,)
    # A later migration may have to spell a table's text otherwise; then compare the columns and indexes here instead.
    assert dump(stepwise) == dump(fresh)
    stepwise.close()


def test_a_migration_happens_wholly_or_not_at_all(monkeypatch):
    connection = database()
    schema.migrate(connection)
    before = dump(connection)
    broken = (*schema.migrations(), "CREATE TABLE extra (x INTEGER) STRICT; INSERT INTO nowhere VALUES (1);")
    monkeypatch.setattr(schema, "migrations", lambda: broken)
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection)
    assert dump(connection) == before
    assert not connection.in_transaction
    connection.close()


def test_every_table_is_strict(fresh):
    tables = fresh.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'").fetchall()
    assert [name for name, strict in tables if not strict and name != "sqlite_schema"] == []


def test_codes_are_those_of_the_model(fresh):
    enums = (JobState, AttemptState, ScheduleState, OriginKind, Fate, OperationState)
    for (table, members), enum in zip(CODES.items(), enums, strict=True):
        assert [member.value for member in members] == [member.value for member in enum]
        assert fresh.execute(f"SELECT code, name FROM {table} ORDER BY code").fetchall() == list(enumerate(members))
    assert [int(clock) for clock in codes.CLOCKS] == list(range(len(ClockKind)))
    assert all(state.final == (code >= codes.FINAL_FROM) for code, state in enumerate(codes.JOB_STATES))
    assert codes.JOB_CODES[JobState.CANCELLED] == codes.CANCELLED


def test_statements_name_reasons_that_exist():
    from timewheel_storage.sqlite import (
        audit_schedules,
        keys,
        write_claim,
        write_plan,
        write_rest,
        write_take_over,
        write_verbs,
    )

    every = {reason: f"'{reason.value}'" for reason in WaitingReason}
    unresolvable, overrun, overlap, key, dependency, task = every.values()
    for statement, reasons in (
        (write_verbs.BEFORE_CANCELS, (dependency,)),
        (write_verbs.MOVES, (unresolvable, overlap, key, dependency, task)),
        (write_claim.WAITS, (key,)),
        (write_plan.TO_SUPERSEDE, (overlap,)),
        (write_rest.DEFERS, (task,)),
        (keys.KEY_HOLDERS, (overrun,)),
        (write_take_over.OF_ALL, (overlap, key)),
        (write_take_over.FIRST_OF_SCHEDULES, (overlap,)),
        (write_take_over.FIRST_OF_KEYS, (key,)),
        (write_take_over.MORE_OF_KEYS, (key,)),
        (write_take_over.FIRST_OF_TASKS, (task,)),
        (audit_schedules.JOB_RULES["waits for something that does not exist"], tuple(every.values())),
    ):
        assert set(re.findall("|".join(every.values()), statement)) == set(reasons)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", 7),
        ("state", -1),
        ("state", "ACTIVE"),
        ("state", 2),  # without an open attempt
        ("state", 3),  # without an end
        ("finished_at", 1),  # of a job that is not final
        ("attempt", 1),  # without its state
        ("attempt_state", 0),  # without a number
        ("attempt_state", 9),
        ("clock", 2),
        ("holds_key", 2),
    ],
)
def test_the_schema_refuses_what_cannot_be(fresh, column, value):
    fresh.execute(
        "INSERT INTO jobs (job_id, kind, lane, due_at, state, arguments, scheduled_at, created_at)"
        " VALUES (1, 1, 1, 1, 0, '', 1, 1)"
    )
    with pytest.raises(sqlite3.IntegrityError):
        fresh.execute(f"UPDATE jobs SET {column} = ? WHERE job_id = 1", (value,))

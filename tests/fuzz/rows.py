"""Rows of a journal in SQLite with garbage in them: every read and every write answers, or raises a JournalError."""

from __future__ import annotations

import sqlite3
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from tests.fuzz import rows_of_flow
from timewheel.codec import loads_call, loads_result
from timewheel.errors import JournalError, NotSerializable
from timewheel.model import DueKey, JobState
from timewheel.schedule_records import ScheduleState
from timewheel.store.changes import AddEntry, Change, PruneKeys, PutCalendar, PutQueue, SaveLimits, TakeOver
from timewheel.store.port import JobFilter, LetterFilter, ScheduleFilter
from timewheel.testing.builders import (
    START,
    cancel,
    claim,
    drop_schedule,
    later,
    occurrence,
    owner,
    plan,
    put_schedule,
    reschedule,
    row,
    settle_dead,
    settle_ok,
    settle_retry,
    stamp,
    submit,
    unhold,
)
from timewheel_storage.sqlite.files import MemoryFiles
from timewheel_storage.sqlite.store import SqliteStore

T = TypeVar("T")
COLUMNS = (
    *(("jobs", name) for name in (
        "arguments", "tags", "result", "result_omitted", "error", "error_kind", "reason", "attempt_error",
        "attempt_reason", "cancel_requested", "idempotency_key", "kind", "lane", "due_at", "state", "attempt",
        "attempt_state", "attempt_epoch", "attempt_lane", "judged_by", "clock", "failures", "losses", "finished_at",
        "version", "misfire_grace_us", "scheduled_at", "first_failed_at", "schedule", "origin", "concurrency_key",
        "flow", "unique_digest", "fault", "fingerprint", "discarded_at", "attempt_fault",
    )),
    *(("kinds", name) for name in ("retry", "task", "queue", "priority", "clock", "timeout_us", "lane")),
    *(("lanes", name) for name in ("queue", "priority", "clock", "partition")),
    *(("attempts", name) for name in ("state", "lane", "due_at", "judged_by", "error", "reason", "epoch", "fault")),
    *(("waits", name) for name in ("on_job", "job_id")),
    *(("operations", name) for name in ("number", "kind", "state", "request", "audit", "created_at", "reason")),
    *(("keys", name) for name in ("job_id", "digest")),
    *(("meta", name) for name in ("journal_id", "epoch", "commits", "boot_id", "wall_us", "steady_us", "pruned")),
    ("queues", "settings"), ("limits", "value"), ("entries", "data"), ("entries", "kind"), ("calendars", "data"),
    *(("schedules", name) for name in (
        "schedule", "state", "version", "position", "task", "until", "reason", "updated_at", "definition",
    )),
    *(("ledger", name) for name in (
        "schedule", "clock", "first_at", "last_at", "count", "turn", "kind", "fate", "reason", "job_id",
    )),
)  # fmt: skip
JOBS = range(1, 8)
OF_SCHEDULES = (8, 9, 10)  # jobs
WITHOUT_ROWID = ("attempts", "keys", "queues", "limits", "calendars", "waits")


def done(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits: the connection is synchronous."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def journal(connection: sqlite3.Connection) -> SqliteStore:
    """The store on an open connection."""

    async def run(work: Any) -> Any:
        return work(connection)

    return SqliteStore(run, run, MemoryFiles())


@cache
def image() -> bytes:
    """A journal with a job in each state, with keys, older attempts, a paused queue, schedules and their ledger."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    store = journal(connection)
    done(store.open())
    epoch = done(store.own(owner())).epoch
    batches: tuple[list[Change], ...] = (
        [submit(number, tags=("a", "b"), idempotency_key=f"key-{number}") for number in JOBS],
        [claim(1, 2, 3, 4)],
        [settle_ok(1, result="[1]"), settle_retry(2, fault="transient", fingerprint="f"), settle_dead(3), cancel(5)],
        *rows_of_flow.BATCHES,
        [put_schedule("s"), put_schedule("t"), PutCalendar("c", "{}")],
        [
            plan(occurrence(8, concurrency_key="k"), rows=[row(START.wall_us - 9, START.wall_us - 5, 3)]),
            plan(occurrence(9, START.wall_us + 1), hold=True),
            plan(occurrence(10, schedule="t", concurrency_key="k"), schedule="t"),
        ],
        [claim(8, 10)],
        [claim(2), PutQueue("mail", '{"paused": true}'), SaveLimits({"queue:mail": 5}), AddEntry("recovery", "{}")],
    )
    for batch in batches:
        done(store.commit(batch, stamp(epoch)))
    data = connection.serialize()
    connection.close()
    return data


def rows(data: bytes) -> None:
    """Garbage in one column, of one row or of all: nothing but answers and JournalErrors."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.deserialize(image())
        _spoil(connection, data)
        _use(journal(connection))
    finally:
        connection.close()


def _spoil(connection: sqlite3.Connection, data: bytes) -> None:
    which, how, rest = (*data[:2], 0, 0)[0], (*data[1:2], 0)[0], data[2:]
    table, column = COLUMNS[which % len(COLUMNS)]
    value: Any = rest
    if how & 1:
        value = int.from_bytes(rest[:8], "big", signed=True)
    elif how & 2:
        value = None
    connection.execute("PRAGMA ignore_check_constraints = ON")
    kept = "?" if how & 3 else "CAST(? AS TEXT)"  # so even bytes that are no UTF-8 become a text
    some = "" if how & 4 or table in WITHOUT_ROWID else f"WHERE rowid = {how >> 3 & 7}"
    with suppress(sqlite3.IntegrityError):  # a number where SQLite takes texts only, or two rows alike
        connection.execute(f"UPDATE {table} SET {column} = {kept} {some}", (value,))
    connection.execute("PRAGMA ignore_check_constraints = OFF")


def _use(store: SqliteStore) -> None:
    epoch = 0
    with suppress(JournalError):
        done(store.open())
        epoch = done(store.own(owner())).epoch
    for work in _reads(store):
        with suppress(JournalError):
            done(work)
    for number in (*JOBS, *OF_SCHEDULES, *rows_of_flow.JOBS):
        with suppress(JournalError):
            _read_call(done(store.job(number)))
    if epoch == 0:
        return  # nobody could become its owner
    soon = later(10_000_000)
    for change in (
        submit(20, tags=("a",), idempotency_key="key-1"),
        submit(21),
        settle_retry(2, attempt=2),
        settle_ok(4),
        cancel(6),
        cancel(4, entered=True),
        reschedule(7, soon.wall_us),
        unhold(),
        SaveLimits({"queue:mail": 6}),
        PutQueue("mail", "{}", audit="{}"),
        PruneKeys(10),
        put_schedule("s", 1),
        plan(occurrence(22, START.wall_us + 2), version=2, hold=True, supersede=True),
        plan(occurrence(23, START.wall_us, schedule="t"), schedule="t", state=ScheduleState.PARKED, reason="x"),
        PutCalendar("c", "[]"),
        claim(*JOBS, 20, 21, 22, 23),
        *rows_of_flow.changes(),
        settle_ok(8),
        TakeOver(),
        TakeOver(everything=True),
        claim(*OF_SCHEDULES),
        drop_schedule("t"),
        settle_ok(7, claim_epoch=epoch),
    ):
        with suppress(JournalError):
            done(store.commit([change], stamp(epoch, soon)))


def _reads(store: SqliteStore) -> list[Coroutine[Any, Any, Any]]:
    lists = [JobFilter(), JobFilter(states=(JobState.DEAD,)), JobFilter(tag="a"), JobFilter(idempotency_key="key-2")]
    lists.append(JobFilter(schedule="s"))
    return [
        store.lanes(),
        store.due(1, DueKey(-1, 0), later(1).wall_us, 10),
        *(store.jobs(which) for which in lists),
        *(store.count(which) for which in lists),
        *(store.attempts(number) for number in JOBS),
        store.open_attempts(below_epoch=9, after=0, limit=10),
        store.depths(START),
        store.fullest_second(START, 1_000_000),
        store.limits(),
        store.queues(),
        store.importable(),
        store.entries(),
        *(store.schedule(name) for name in "st"),
        store.schedules(ScheduleFilter()),
        store.schedules(ScheduleFilter(states=(ScheduleState.ACTIVE,)), after="s"),
        store.count_schedules(ScheduleFilter(task="app.task")),
        store.unfinished(["s", "t"]),
        *(store.ledger(name, since=START.wall_us) for name in "st"),
        store.calendars(),
        *(store.letters(which) for which in (LetterFilter(), LetterFilter(fingerprint="f", tag="a"))),
        store.count_letters(LetterFilter(queue="default", since=0, until=START.wall_us)),
        store.letter_groups(LetterFilter()),
        store.operation(1),
        store.operations(),
        store.entries_of("recovery"),
        store.dump(),
    ]


def _read_call(job: Any) -> None:
    """What the worker and the handles make of a job's texts."""
    if job is None:
        return
    with suppress(NotSerializable):
        loads_call(job.arguments)
    if job.result is not None:
        with suppress(NotSerializable):
            loads_result(job.result)

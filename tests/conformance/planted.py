"""Bugs to plant in the SQLite adapter, one at a time: each a sentence, and how the adapter is spoilt.

The state machine must find each (test_planted_adapters.py); `alone` says that the laws find it without a second store
to compare with.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from timewheel.store.changes import KEY_KEEPING_US, Done
from timewheel_storage.sqlite import (
    admission,
    batch,
    codes,
    faults,
    keeping,
    kinds,
    read,
    write_claim,
    write_rest,
    write_settle,
    write_verbs,
)


class Plant(NamedTuple):
    """A bug. `plant(monkeypatch)` makes it so; `examples` is how many the machine may take."""

    sentence: str
    plant: Callable
    alone: bool = True
    examples: int = 60


def edited(module, name, old, new):
    """Replaces text of a statement."""

    def plant(monkeypatch):
        statement = getattr(module, name)
        assert old in statement, f"{name} has changed: plant the bug anew"
        monkeypatch.setattr(module, name, statement.replace(old, new))

    return plant


def both(*plants):
    """Several edits as one bug."""

    def plant(monkeypatch):
        for one in plants:
            one(monkeypatch)

    return plant


def _commit_in_two(monkeypatch):
    def write(self, connection, path, stamp, boot_id):
        parts = self._parts
        try:
            for some in (parts[:1], parts[1:]) if len(parts) > 1 else (parts,):
                self._parts = some
                honest(self, connection, path, stamp, boot_id)
        finally:
            self._parts = parts

    honest = batch.Batch.write
    monkeypatch.setattr(batch.Batch, "write", write)


def _answer_before_the_commit(monkeypatch):
    def transaction(connection, path, work):
        answer = work_of(connection, path, work)
        with contextlib.suppress(sqlite3.Error):
            connection.execute("COMMIT")
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return answer

    def work_of(connection, path, work):
        try:
            connection.execute("BEGIN IMMEDIATE")
            return work()
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise faults.translate(error, path) from error
            raise

    monkeypatch.setattr(batch, "transaction", transaction)


def _no_rollback(monkeypatch):
    def forgotten(connection, path):
        if connection.in_transaction:
            connection.execute("COMMIT")

    monkeypatch.setattr(faults, "_roll_back", forgotten)


def _unknown_taken_for_nothing(monkeypatch):
    monkeypatch.setattr(faults, "unknown", faults.translate)


def _remembered_too_early(monkeypatch):
    def find(connection, key):
        found = honest(connection, key)
        memories[-1].kinds[key] = found
        return found

    def made(self):
        memories.append(self)
        begun(self)

    memories = []
    honest, begun = kinds._with_lane, kinds.Memory.__init__
    monkeypatch.setattr(kinds, "_with_lane", find)
    monkeypatch.setattr(kinds.Memory, "__init__", made)


def _takes_over_without_an_epoch(monkeypatch):
    monkeypatch.setattr(keeping, "NEW_EPOCH", "UPDATE meta SET commits = commits + 1 WHERE one = 1")


def _saves_the_first_value(monkeypatch):
    def save(connection, change, _):
        statement = write_rest.SAVE_LIMITS.replace("DO UPDATE SET value = excluded.value", "DO NOTHING")
        codes.do(connection, statement, (codes.encode(change.values),))
        return Done(len(change.values))

    monkeypatch.setitem(write_rest._WAYS, write_rest.SaveLimits, save)


def _own_attempts_too(monkeypatch):
    honest = read.open_attempts
    monkeypatch.setattr(
        read, "open_attempts", lambda connection, below, after, limit: honest(connection, below + 1, after, limit)
    )


def _from_the_key(monkeypatch):
    def due(connection, lane, after, until_us, limit):
        return honest(connection, lane, after._replace(job_id=after.job_id - 1), until_us, limit)

    honest = read.due
    monkeypatch.setattr(read, "due", due)


PLANTED = {
    "settle without the state": Plant(
        "a success ends an attempt whose job is not ACTIVE any more",
        edited(write_settle, "SUCCESSES", "AND state = 2 AND", "AND"),
    ),
    "settle without the lease": Plant(
        "a settlement is taken from an owner that did not claim the attempt",
        both(
            edited(write_settle, "SUCCESSES", "AND attempt_epoch = ?3", ""),
            *(edited(write_settle, name, "AND j.attempt_epoch = r.epoch", "") for name in ("PLACES", "ANY_END")),
        ),
    ),
    "settle without the number": Plant(
        "a late settlement of an earlier attempt ends the one that runs",
        both(
            edited(write_settle, "SUCCESSES", "AND attempt = r.v ->> 1", ""),
            *(edited(write_settle, name, "AND j.attempt = r.attempt", "") for name in ("PLACES", "ANY_END")),
        ),
    ),
    "a cancel is forgotten": Plant(
        "a job whose cancel was requested is tried again",
        both(
            *(
                edited(write_settle, name, "r.state <> 3 AND j.cancel_requested IS NOT NULL", "false")
                for name in ("PLACES", "ANY_END")
            )
        ),
    ),
    "claim: < for <=": Plant(
        "a job that is due this very microsecond is not claimed",
        both(
            edited(write_claim, "CANDIDATES", "j.due_at <= CASE", "j.due_at < CASE"),
            edited(write_claim, "OPEN", "AND due_at <= CASE", "AND due_at < CASE"),
            edited(write_claim, "MAKE_ROOM", "AND due_at <= CASE", "AND due_at < CASE"),
        ),
        alone=False,
    ),
    "claim: the other clock": Plant(
        "a job that counts steady time is claimed by the wall clock, before its time",
        both(
            edited(write_claim, "CANDIDATES", "WHEN 0 THEN ?2 ELSE ?3", "WHEN 0 THEN ?2 ELSE max(?2, ?3)"),
            edited(write_claim, "SPECIAL", "WHEN 0 THEN ?2 ELSE ?3", "WHEN 0 THEN ?2 ELSE max(?2, ?3)"),
            edited(write_claim, "OPEN", "THEN ?3 ELSE ?2", "THEN max(?2, ?3) ELSE ?2"),
            edited(write_claim, "MAKE_ROOM", "THEN ?3 ELSE ?2", "THEN max(?2, ?3) ELSE ?2"),
        ),
    ),
    "claim without the state": Plant(
        "a job that runs, or has ended, is claimed again",
        both(
            edited(write_claim, "CANDIDATES", "j.state = 0 AND", ""),
            edited(write_claim, "SPECIAL", "j.state = 0 AND", ""),
            edited(write_claim, "EXTRAS", "j.state = 0 AND", ""),
            edited(write_claim, "OPEN", "AND state = 0", ""),
            edited(write_claim, "MAKE_ROOM", "AND state = 0", ""),
        ),
    ),
    "attempts are forgotten": Plant(
        "the row of the attempt before is not kept when the next one begins",
        edited(write_claim, "MAKE_ROOM", "AND attempt > 0", "AND attempt > 1"),
    ),
    "a last chance too many": Plant(
        "jobs that killed the process run side by side",
        lambda monkeypatch: monkeypatch.setattr(write_claim, "LAST_CHANCE_LOSSES", 99),
        alone=False,
    ),
    "no epoch": Plant(
        "an owner that was succeeded goes on writing",
        edited(batch, "STAMP", "AND epoch = ?5", "AND ?5 > 0"),
    ),
    "the same epoch twice": Plant("a new owner writes under the old one's epoch", _takes_over_without_an_epoch),
    "a commit in two": Plant("a batch is written in two transactions", _commit_in_two),
    "an early answer": Plant("a commit that failed is taken for a success", _answer_before_the_commit),
    "no rollback": Plant("what a failed batch wrote so far is kept", _no_rollback),
    "unknown is nothing": Plant("an error from COMMIT is told as: nothing was written", _unknown_taken_for_nothing),
    "remembered too early": Plant(
        "rows of a transaction that was rolled back are used in the next",
        _remembered_too_early,
        alone=False,
        examples=400,
    ),
    "cancel of the ended": Plant(
        "a cancel that came too late changes a job that has ended",
        edited(write_verbs, "CANCELS", "AND state < 3", "AND state < 7"),
    ),
    "a moved job runs on": Plant(
        "a reschedule moves a job whose handler was entered",
        both(
            *(
                edited(write_verbs, name, "(j.state = 2 AND NOT r.entered)", "j.state = 2")
                for name in ("LANES_OF_MOVES", "BEFORE_MOVES", "MOVES")
            )
        ),
    ),
    "a key's last microsecond": Plant(
        "a key is kept one microsecond too long",
        lambda monkeypatch: monkeypatch.setattr(admission, "KEY_KEEPING_US", KEY_KEEPING_US + 1),
        alone=False,
        examples=300,
    ),
    "keys of the living": Plant(
        "keys are forgotten while they are held",
        edited(write_rest, "OLD_HOLDERS", "AND finished_at < ?1", "AND coalesce(finished_at, 0) < ?1"),
    ),
    "unhold whoever waits": Plant(
        "a job is released that waits for something else",
        both(
            *(edited(write_rest, name, "AND j.reason = ?1", "AND ?1 <> ''") for name in ("WAITING", "WAITING_OF_THESE"))
        ),
    ),
    "limits never move": Plant("the state of a limit stays at the first value saved", _saves_the_first_value),
    "recovery of the living": Plant(
        "recovery is shown attempts of the present owner",
        _own_attempts_too,
    ),
    "a page begins twice": Plant("a page of the due index begins with the last key of the page before", _from_the_key),
}

"""Bugs to plant in the SQLite adapter's ways with schedules, keys and take-overs (see `tests.conformance.planted`)."""

from tests.conformance.planted import Plant, both, edited
from timewheel.store.changes import Reschedule
from timewheel_storage.sqlite import (
    keys,
    read_schedules,
    write_plan,
    write_schedules,
    write_take_over,
    write_verbs,
)


def _a_claim_takes_no_keys(monkeypatch):
    monkeypatch.setattr(keys.Keys, "take", lambda *_: True)


def _a_reschedule_ends_nothing(monkeypatch):
    honest = write_take_over._named_by
    monkeypatch.setattr(
        write_take_over, "_named_by", lambda batch: honest([one for one in batch if not isinstance(one, Reschedule)])
    )


def _no_version(monkeypatch):
    monkeypatch.setattr(write_schedules, "_conflict", lambda *_: None)


PLANTED = {
    "plan without the version": Plant(
        "a schedule is planned by the rule it had before an edit",
        edited(write_plan, "CONFLICTS", "WHERE s.version IS NOT r.value ->> 1", "WHERE s.version IS NULL"),
    ),
    "edit without the version": Plant("an edit is lost under another that did not know of it", _no_version),
    "a slot runs twice": Plant(
        "planning again writes the rows again, and makes the jobs again",
        both(
            edited(write_plan, "ROWS_THERE", "AND w.kind = r.value ->> 6", "AND w.kind = r.value ->> 6 AND false"),
            edited(write_plan, "ADD_ROWS", "INSERT INTO", "INSERT OR REPLACE INTO"),
        ),
    ),
    "a turn is no other slot": Plant(
        "a slot that a step of the clock brings again is taken for the one that was",
        edited(write_plan, "ROWS_THERE", "AND w.turn = r.value ->> 5", ""),
        examples=600,
    ),
    "the position stays": Plant(
        "a schedule's rows and jobs are written, and its position is not",
        edited(write_plan, "MOVE_ON", "coalesce(r.value ->> 1, schedules.position)", "schedules.position"),
    ),
    "a pause that ended ends again": Plant(
        "a schedule that a plan ended or resumed keeps the end of its pause",
        edited(write_plan, "MOVE_ON", "CASE WHEN r.value ->> 2 IS NULL THEN schedules.until END", "schedules.until"),
    ),
    "what is only due holds nothing": Plant(
        "a job overlaps one of its schedule that was made and did not begin",
        edited(write_plan, "BUSY", "j.state IN (0, 1, 2))", "j.state IN (0, 1, 2) AND j.state <> 0)"),
    ),
    "supersede whoever waits": Plant(
        "a newer job ends one that waits for its key, or whose handler cannot be stopped",
        edited(write_plan, "TO_SUPERSEDE", "AND j.reason = 'overlap'", ""),
    ),
    "an overrun gives up its key": Plant(
        "a job begins while the handler of another with its key cannot be stopped",
        edited(keys, "KEY_HOLDERS", "AND o.reason = 'overrun'", "AND false"),
        examples=600,
    ),
    "two of a batch take one key": Plant(
        "jobs with one key that are claimed together run side by side",
        _a_claim_takes_no_keys,
    ),
    "a key of nobody": Plant(
        "a job waits for a key that nobody holds any more",
        edited(keys, "KEY_HOLDERS", "AND o.state = 2", "AND o.state IN (1, 2)"),
    ),
    "the youngest first": Plant(
        "whoever has waited longest does not go first",
        both(
            *(
                edited(write_take_over, name, "ORDER BY w.due_at, w.job_id", "ORDER BY w.job_id")
                for name in ("FIRST_OF_SCHEDULES", "FIRST_OF_KEYS", "MORE_OF_KEYS")
            )
        ),
        examples=180,
    ),
    "an attempt is no job": Plant(
        "whoever waits for a job of its schedule goes on while that one runs",
        edited(write_take_over, "FIRST_OF_SCHEDULES", "AND b.state = 2)", "AND b.state = 2 AND false)"),
    ),
    "a reschedule ends nothing": Plant(
        "a job that was moved away while it held a key leaves those behind that waited for it",
        _a_reschedule_ends_nothing,
        examples=300,
    ),
    "a moved job goes on": Plant(
        "moving a job that waits lets it overlap what it waited for",
        both(
            *(
                edited(
                    write_verbs, name, "j.reason IN ('overlap', 'key', 'task', 'dependency') AS stays", "false AS stays"
                )
                for name in ("LANES_OF_MOVES", "BEFORE_MOVES", "MOVES")
            )
        ),
    ),
    "who waits is not unfinished": Plant(
        "the planner is not shown jobs that wait, and makes more than the policy allows",
        edited(read_schedules, "UNFINISHED", "u.state IN (0, 1, 2)", "u.state IN (0, 1, 2) AND u.state <> 1"),
    ),
    "a ledger's page begins twice": Plant(
        "a page of a ledger begins with the last row of the page before",
        edited(read_schedules, "LEDGER", "number < ?2", "number <= ?2"),
    ),
}

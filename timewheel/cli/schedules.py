"""`schedules list`, `show`, `preview`, `pause`, `resume`, `trigger`, `backfill`, `delete`: of a running server."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from urllib.parse import quote

from timewheel.checks import counted
from timewheel.cli import output
from timewheel.cli.client import Answer, Client
from timewheel.cli.exits import DATA, OK, USAGE, Exit
from timewheel.cli.listing import show_list
from timewheel.cli.schedule_bodies import rule_body

SCHEDULES = "/api/v1/schedules"
PREVIEW = "/api/v1/preview"
_COLUMNS = ("id", "task", "state", "next at", "rule", "reason")
_RUN_COLUMNS = ("at", "local time", "due", "note")
_LEDGER_COLUMNS = ("nominal at", "kind", "fate", "reason", "slots", "job", "job state")


def path_of(schedule_id: str, *more: str) -> str:
    """A schedule's path."""
    return "/".join([SCHEDULES, quote(schedule_id, safe=""), *more])


async def list_schedules(options: Namespace) -> int:
    """The schedules that match, by id, at most `--limit` of them (0: all)."""
    return await show_list(options, SCHEDULES, ("queue", "task"), _COLUMNS, _row, "no schedule matches")


def _row(schedule: dict[str, Any]) -> tuple[Any, ...]:
    words = (schedule["in_words"] or "(unreadable)").partition(";")[0]
    return schedule["id"], schedule["task"], schedule["state"], schedule["next_at"], words, schedule["reason"]


async def show_schedules(options: Namespace) -> int:
    """Each schedule in full, with what became of its latest occurrences."""
    async with Client(options.url) as client:
        for number, schedule_id in enumerate(options.id):
            schedule = (await client.get(path_of(schedule_id))).good().body
            query = {"page_size": str(options.occurrences)}
            ledger = (await client.get(path_of(schedule_id, "occurrences"), query)).good().body["items"]
            if options.json:
                output.json_line({"schedule": schedule, "occurrences": ledger})
                continue
            if number:
                output.result("")
            shown = schedule | (schedule["options"] or {}) | {"options": None, "rule": None}
            output.facts({name: value for name, value in shown.items() if value not in (None, [], {}, "")})
            if ledger:
                output.result("")
                output.table(_LEDGER_COLUMNS, [_ledger_row(row) for row in ledger])
    return OK


def _ledger_row(row: dict[str, Any]) -> tuple[Any, ...]:
    when = row["nominal_at"] if row["count"] == 1 else f"{row['nominal_at']} to {row['last_at']}"
    return when, row["kind"], row["fate"], row["reason"], row["count"], row["job_id"], row["job_state"]


async def preview_schedule(options: Namespace) -> int:
    """What a schedule, or a rule that is not saved, will do."""
    rule = rule_body(options)
    if rule and options.id is not None:
        raise Exit(USAGE, f"name a schedule or give a rule, not both: {', '.join(rule)} is of a rule")
    if not rule and options.id is None:
        raise Exit(USAGE, "name a schedule, or give a rule with --cron, --every, --days or --weeks")
    asked = {"n": str(options.n)} | ({} if options.after is None else {"after": options.after})
    async with Client(options.url) as client:
        if rule:
            answer = await client.post(PREVIEW, {**rule, **asked, "n": options.n})
        else:
            answer = await client.get(path_of(options.id, "preview"), asked)
    found = answer.good().body
    if options.json:
        output.json_line(found)
        return OK
    output.result(found["in_words"])
    if found["items"]:
        output.table(_RUN_COLUMNS, [_run_row(run) for run in found["items"]])
    else:
        output.say("it does not run any more")
    return OK


def _run_row(run: dict[str, Any]) -> tuple[Any, ...]:
    notes = list(run["notes"])
    if run["reason"] not in (None, "past"):
        times = f"{run['count']} times" if run["count"] > 1 else "left out"
        notes = [f"{times}: {run['reason']}" if run["count"] == 1 else f"{times} left out: {run['reason']}"]
    elif run["nominal"][:19] != run["local"][:19]:
        notes.append(f"instead of {run['nominal']}")
    if run["reason"] == "past":
        notes.insert(0, "past")
    due = run["scheduled_at"] if run["scheduled_at"] != run["at"] else None
    return run["at"], run["local"], due, ", ".join(notes)


async def pause_schedules(options: Namespace) -> int:
    """Pause each schedule."""
    body = {"note": options.note, "until": options.until}
    return await _each(options, "pause", {name: value for name, value in body.items() if value is not None})


async def resume_schedules(options: Namespace) -> int:
    """Resume each schedule."""
    return await _each(options, "resume", {})


async def _each(options: Namespace, verb: str, body: dict[str, Any]) -> int:
    code = OK
    async with Client(options.url) as client:
        for schedule_id in options.id:
            answer = await client.post(path_of(schedule_id, verb), body)
            code = max(code, _tell(options, schedule_id, answer))
    return code


def _tell(options: Namespace, schedule_id: str, answer: Answer) -> int:
    """What became of a schedule; 65 when there is none of this id."""
    if not answer.ok and answer.status != 404:
        raise answer.exit()
    if options.json:
        output.json_line({"id": schedule_id, "schedule": answer.body if answer.ok else None})
    elif answer.ok:
        next_at = f", next at {answer.body['next_at']}" if answer.body["next_at"] else ""
        output.result(f"{schedule_id} is {answer.body['state']}{next_at}")
    else:
        output.result(f"{schedule_id} is not known here")
    return OK if answer.ok else DATA


async def delete_schedules(options: Namespace) -> int:
    """Forget each schedule; 65 when one is unknown."""
    code = OK
    async with Client(options.url) as client:
        for schedule_id in options.id:
            answer = await client.delete(path_of(schedule_id))
            if not answer.ok and answer.status != 404:
                raise answer.exit()
            code = code if answer.ok else DATA
            if options.json:
                output.json_line({"id": schedule_id, "deleted": answer.ok})
            else:
                output.result(f"{schedule_id} {'is deleted' if answer.ok else 'is not known here'}")
    return code


async def trigger_schedule(options: Namespace) -> int:
    """Run it once now; 65 when its overlap policy left that out."""
    async with Client(options.url) as client:
        answer = (await client.post(path_of(options.id, "trigger"), {"force": options.force})).good()
    job = answer.body["job"]
    if options.json:
        output.json_line(answer.body)
    elif job is None:
        output.result(f"{options.id} was not run: its overlap policy left it out; --force runs it all the same")
    else:
        output.result(job["id"])
    return DATA if job is None else OK


async def backfill_schedule(options: Namespace) -> int:
    """Run the slots of a time that did not run; without --run only count them."""
    body = {"start": options.start, "end": options.end, "dry_run": not options.run_them}
    async with Client(options.url) as client:
        answer = (await client.post(path_of(options.id, "backfill"), {**body, "at_once": options.at_once})).good()
    found = answer.body
    if options.json:
        output.json_line(found)
        return OK
    jobs = counted(found["made"], "job")
    made = f"{jobs} made" if options.run_them else f"{jobs} to make" + (": --run makes them" if found["made"] else "")
    output.result(f"{counted(found['slots'], 'slot')}, {found['already_ran']} ran before, {made}")
    for job_id in found["job_ids"]:
        output.result(job_id)
    return OK

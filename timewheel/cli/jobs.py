"""`jobs list`, `jobs show`, `jobs cancel`: what a running server knows, for people and with --json for programs."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from urllib.parse import quote

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import DATA, OK
from timewheel.cli.listing import show_list

JOBS = "/api/v1/jobs"
_COLUMNS = ("id", "task", "queue", "state", "attempt", "scheduled at", "reason or error")
_ATTEMPT_COLUMNS = ("attempt", "state", "started at", "lag ms", "fault", "reason or error")


async def list_jobs(options: Namespace) -> int:
    """The newest jobs that match, at most `--limit` of them (0: all)."""
    return await show_list(options, JOBS, ("queue", "task", "tag"), _COLUMNS, _row, "no job matches")


def _row(job: dict[str, Any]) -> tuple[Any, ...]:
    when = job["scheduled_at"]
    return job["id"], job["task"], job["queue"], job["state"], job["attempt"], when, _why(job)


def _why(shown: dict[str, Any]) -> str:
    """The reason and the first line of the error, of a job or an attempt, where there are any."""
    error = (shown["error"] or "").partition("\n")[0]
    return ": ".join(part for part in (shown["reason"], error) if part)


async def show_jobs(options: Namespace) -> int:
    """Each job in full, with its attempts."""
    async with Client(options.url) as client:
        for number, job_id in enumerate(options.id):
            path = f"{JOBS}/{quote(job_id, safe='')}"
            job, attempts = await client.get(path), await client.get(f"{path}/attempts")
            for answer in (job, attempts):
                if not answer.ok:
                    raise answer.exit()
            if options.json:
                output.json_line({"job": job.body, "attempts": attempts.body["items"]})
            else:
                _show(job.body, attempts.body["items"], first=number == 0)
    return OK


def _show(job: dict[str, Any], attempts: list[dict[str, Any]], *, first: bool) -> None:
    if not first:
        output.result("")
    output.facts({name: value for name, value in job.items() if value not in (None, [], {}, "")})
    if attempts:
        output.result("")
        output.table(_ATTEMPT_COLUMNS, [_attempt_row(attempt) for attempt in attempts])


def _attempt_row(attempt: dict[str, Any]) -> tuple[Any, ...]:
    shown = [attempt[name] for name in ("number", "state", "started_at", "start_lag_ms", "fault")]
    return *shown, _why(attempt)


async def cancel_jobs(options: Namespace) -> int:
    """Cancel each job and say what came of it; 65 when one was final already or is unknown."""
    code = OK
    async with Client(options.url) as client:
        for job_id in options.id:
            answer = await client.post(f"{JOBS}/{quote(job_id, safe='')}/cancel", {"reason": options.reason})
            if not answer.ok and answer.status != 404:
                raise answer.exit()
            told = answer.body["answer"] if answer.ok else "unknown"
            state = answer.body["job"]["state"] if answer.ok else None
            if told in ("too_late", "unknown"):
                code = DATA
            if options.json:
                output.json_line({"id": job_id, "answer": told, "state": state})
            else:
                output.result(f"{job_id} {_TOLD[told].format(state=state)}")
    return code


_TOLD = {
    "cancelled": "cancelled: it will never start",
    "requested": "runs; it was asked to stop",
    "too_late": "too late: it is {state}",
    "unknown": "is not known here",
}

"""`dlq ls`, `dlq replay`, `dlq discard`, `jobs retry`: dead letters, and how they come back."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from urllib.parse import quote

from timewheel.checks import counted
from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import DATA, OK
from timewheel.cli.jobs import JOBS
from timewheel.cli.listing import show_list
from timewheel.cli.operations import actor_of, show_operation, watch

LETTERS = "/api/v1/dead-letters"
_WHICH = ("queue", "task", "tag", "fingerprint", "since", "until")
_COLUMNS = ("id", "task", "queue", "attempt", "died at", "error")
_GROUP_COLUMNS = ("letters", "task", "fingerprint", "newest", "last at", "error")
_TOLD = {
    "replayed": "runs again",
    "too_late": "was not replayed: it is {state}",
    "unknown": "is not known here",
}


def who(options: Namespace) -> dict[str, str]:
    """Who acts, and why, for the audit."""
    said = {"actor": actor_of(options), "reason": options.reason}
    cause = getattr(options, "cause_fixed", None)
    return said if cause is None else {**said, "cause_fixed": cause}


async def list_letters(options: Namespace) -> int:
    """The dead letters that match, or their groups."""
    if options.groups:
        return await _list_groups(options)
    options.state = None
    return await show_list(options, LETTERS, _WHICH, _COLUMNS, _row, "no dead letter matches")


def _row(job: dict[str, Any]) -> tuple[Any, ...]:
    return job["id"], job["task"], job["queue"], job["attempt"], job["finished_at"], _first_line(job["error"])


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


async def _list_groups(options: Namespace) -> int:
    query: dict[str, str | list[str]] = {**_which(options), "limit": str(min(options.limit or 1_000, 1_000))}
    async with Client(options.url) as client:
        groups = (await client.get(f"{LETTERS}/groups", query)).good().body["items"]
    if options.json:
        for group in groups:
            output.json_line(group)
        return OK
    rows = [
        (one["letters"], one["task"], one["fingerprint"], one["newest"], one["last_at"], _first_line(one["error"]))
        for one in groups
    ]
    output.table(_GROUP_COLUMNS, rows) if rows else output.say("no dead letter matches")
    return OK


def _which(options: Namespace) -> dict[str, str]:
    return {name: getattr(options, name) for name in _WHICH if getattr(options, name) is not None}


async def replay(options: Namespace) -> int:
    """Replay those that match; without --yes only count them."""
    rate = None if options.rate is None else {"count": options.rate}
    return await _operate(options, "replay", {"canary": options.canary, "rate": rate})


async def discard(options: Namespace) -> int:
    """Discard those that match; without --yes only count them."""
    return await _operate(options, "discard", {})


async def _operate(options: Namespace, kind: str, terms: dict[str, Any]) -> int:
    body = {**_which(options), **who(options), **terms, "dry_run": not options.yes}
    async with Client(options.url) as client:
        operation = (await client.post(f"{LETTERS}/{kind}", body)).good().body
        if options.yes and options.wait:
            operation = await watch(client, operation)
    if not options.yes and not options.json:
        found = operation["matched"]
        output.result(f"{counted(found, 'dead letter')} {'matches' if found == 1 else 'match'}: --yes does it")
    else:
        show_operation(options, operation)
    return DATA if operation["state"] == "STOPPED" else OK


async def retry_jobs(options: Namespace) -> int:
    """Replay each job and say what came of it; 65 when one was in no state for it, or is unknown."""
    code = OK
    async with Client(options.url) as client:
        for job_id in options.id:
            answer = await client.post(f"{JOBS}/{quote(job_id, safe='')}/replay", who(options))
            if not answer.ok and answer.status != 404:
                raise answer.exit()
            told = answer.body["answer"] if answer.ok else "unknown"
            state = answer.body["job"]["state"] if answer.ok else None
            if told != "replayed":
                code = DATA
            if options.json:
                output.json_line({"id": job_id, "answer": told, "state": state})
            else:
                output.result(f"{job_id} {_TOLD[told].format(state=state)}")
    return code

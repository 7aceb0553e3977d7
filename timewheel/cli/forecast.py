"""`forecast`: which jobs fall due when, and which schedules cause the peaks."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from timewheel.checks import counted
from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import OK

FORECAST = "/api/v1/forecast"
_BUCKET_COLUMNS = ("from", "jobs", "pending", "most of the others from")


async def show_forecast(options: Namespace) -> int:
    """What falls due when: the fullest buckets, or with --all every one that is not empty."""
    asked = {"from": options.start, "to": options.end, "bucket_s": options.bucket}
    query: dict[str, str | list[str]] = {name: str(value) for name, value in asked.items() if value is not None}
    async with Client(options.url) as client:
        found = (await client.get(FORECAST, query)).good().body
    if options.json:
        output.json_line(found)
        return OK
    buckets = found["buckets"] if options.all else found["peaks"]
    if buckets:
        output.table(_BUCKET_COLUMNS, [_bucket_row(bucket) for bucket in buckets])
    span = f"from {found['start']} to {found['end']}, in buckets of {found['bucket_s']:g} s"
    output.result(f"{counted(found['jobs'], 'job')} {span}")
    if found["overdue"]:
        output.say(f"{found['overdue']} more {'is' if found['overdue'] == 1 else 'are'} overdue")
    if not found["complete"]:
        output.say("there are more pending jobs than were counted")
    if found["unknown"]:
        output.say(f"not foreseen (paused, parked, or counted from each run's end): {', '.join(found['unknown'][:20])}")
    return OK


def _bucket_row(bucket: dict[str, Any]) -> tuple[Any, ...]:
    causes = ", ".join(f"{cause['schedule']} ({cause['jobs']})" for cause in bucket["schedules"])
    return bucket["start"], bucket["jobs"], bucket["pending"], causes

"""`schedules add`: a schedule from the options of the command line."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import OK
from timewheel.cli.schedule_bodies import schedule_body

SCHEDULES = "/api/v1/schedules"


async def add_schedule(options: Namespace) -> int:
    """Make a schedule, or bring the one with this id to what is said."""
    body = schedule_body(options)
    async with Client(options.url) as client:
        made = (await client.post(SCHEDULES, body)).good().body
    if options.json:
        output.json_line(made)
        return OK
    schedule = made["schedule"]
    named = schedule["id"] if schedule is not None else options.id or options.task
    output.result(f"{named} {'would be ' if made['dry_run'] and made['change'] != 'unchanged' else ''}{made['change']}")
    for name, change in made["changes"].items():
        output.result(f"    {name}: {change['before']!r} -> {change['after']!r}")
    if schedule is not None and not made["dry_run"]:
        output.result(f"    {schedule['in_words']}")
        output.result(f"    {_next(schedule)}")
    return OK


def _next(schedule: dict[str, Any]) -> str:
    """When it runs next, or why it does not."""
    if schedule["next_at"] is not None or schedule["state"] == "ACTIVE":
        return f"next at {schedule['next_at'] or '(known once a run has ended)'}"
    return f"it is {schedule['state']}" + (f": {schedule['reason']}" if schedule["reason"] else "")

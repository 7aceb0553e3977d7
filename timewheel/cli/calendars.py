"""`calendars list`, `show`, `put`: days on which nothing runs."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from urllib.parse import quote

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import DATA, OK

CALENDARS = "/api/v1/calendars"


async def list_calendars(options: Namespace) -> int:
    """Every saved calendar."""
    async with Client(options.url) as client:
        items = (await client.get(CALENDARS)).good().body["items"]
    for calendar in items:
        if options.json:
            output.json_line(calendar)
    if not options.json:
        rows = [(one["name"], len(one["exclude"]), ", ".join(one["weekend"])) for one in items]
        output.table(("name", "dates and ranges", "weekend"), rows) if rows else output.say("no calendar is saved")
    return OK


async def show_calendars(options: Namespace) -> int:
    """The days of each calendar."""
    code = OK
    async with Client(options.url) as client:
        for name in options.name:
            answer = await client.get(_path(name))
            if answer.status == 404:
                output.say(answer.detail)
                code = DATA
                continue
            calendar = answer.good().body
            if options.json:
                output.json_line(calendar)
            else:
                days = [one if isinstance(one, str) else " to ".join(one) for one in calendar["exclude"]]
                shown = {"name": name, "weekend": ", ".join(calendar["weekend"]), "exclude": "\n".join(days)}
                output.facts(shown)
    return code


async def put_calendar(options: Namespace) -> int:
    """Save a calendar, in the place of the one there is."""
    exclude = [text.split("..", 1) if ".." in text else text for text in options.exclude]
    body: dict[str, Any] = {"exclude": exclude}
    if options.weekend is not None:
        body["weekend"] = [day for day in options.weekend.lower().split(",") if day]
    async with Client(options.url) as client:
        saved = (await client.put(_path(options.name), body)).good().body
    if options.json:
        output.json_line(saved)
    else:
        output.result(f"{options.name} is saved")
    return OK


def _path(name: str) -> str:
    return f"{CALENDARS}/{quote(name, safe='')}"

"""`dependencies ls`, `show`, `history`, `open`, `close`, `auto`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from urllib.parse import quote

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import OK
from timewheel.cli.operations import actor_of

DEPENDENCIES = "/api/v1/dependencies"
_NUMBERS = ("failures", "successes", "waiting", "starts", "retries", "retries_waiting")
_COLUMNS = ("dependency", "breaker", "open until", *(name.replace("_", " ") for name in _NUMBERS))
_HISTORY_COLUMNS = ("at", "before", "after", "open until", "reason")


async def list_dependencies(options: Namespace) -> int:
    """How each dependency stands."""
    async with Client(options.url) as client:
        found = await _all(client)
    if options.json:
        for one in found:
            output.json_line(one)
    elif found:
        output.table(_COLUMNS, [*map(_row, found)])
    else:
        output.say("no dependency is declared, and no task names one")
    return OK


async def _all(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(DEPENDENCIES)).good().body["items"]
    return found


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    return one["name"], one["breaker"] or "none", one["open_until"], *(one[name] for name in _NUMBERS)


async def show_dependencies(options: Namespace) -> int:
    """Each dependency in full, with what became of its breaker."""
    async with Client(options.url) as client:
        await _warn_of_strangers(client, options.dependency)
        for number, name in enumerate(options.dependency):
            page = (await client.get(_path(name))).good().body
            if options.json:
                output.json_line(page)
            else:
                _show(page, first=number == 0)
    return OK


def _show(page: dict[str, Any], *, first: bool) -> None:
    if not first:
        output.result("")
    facts = {name: value for name, value in page.items() if name != "history" and value is not None}
    output.facts({**facts, "breaker": page["breaker"] or "none"})
    if page["history"]:
        output.result("")
        _show_history(page["history"])


async def show_history(options: Namespace) -> int:
    """What became of a breaker, newest first."""
    async with Client(options.url) as client:
        await _warn_of_strangers(client, [options.dependency])
        events = (await client.get(_path(options.dependency))).good().body["history"]
    if options.json:
        for event in events:
            output.json_line(event)
    elif events:
        _show_history(events)
    else:
        output.say(f"nothing happened to the breaker of {options.dependency} yet")
    return OK


def _show_history(events: list[dict[str, Any]]) -> None:
    names = ("at", "before", "after", "open_until", "reason")
    output.table(_HISTORY_COLUMNS, [tuple(event[name] for name in names) for event in events])


async def open_breakers(options: Namespace) -> int:
    """Let none of their jobs start."""
    return await _force(options, "FORCED_OPEN")


async def close_breakers(options: Namespace) -> int:
    """Let all of their jobs start."""
    return await _force(options, "FORCED_CLOSED")


async def free_breakers(options: Namespace) -> int:
    """Let their breakers go by themselves again."""
    return await _force(options, "AUTO")


async def _force(options: Namespace, breaker: str) -> int:
    body = {"breaker": breaker, "reason": options.reason, "actor": actor_of(options)}
    async with Client(options.url) as client:
        await _warn_of_strangers(client, options.dependency)
        for name in options.dependency:
            page = (await client.patch(_path(name), body)).good().body
            if options.json:
                output.json_line(page)
            else:
                output.result(f"{name} is {page['breaker']}")
    return OK


async def _warn_of_strangers(client: Client, names: list[str]) -> None:
    """A dependency exists as soon as it is named: so does one that is misspelt."""
    known = [one["name"] for one in await _all(client)]
    there_are = f"there are {', '.join(known)}" if known else "there is none"
    for name in names:
        if name not in known:
            output.say(f"no dependency {name} is declared, and no task names it: {there_are}")


def _path(name: str) -> str:
    return f"{DEPENDENCIES}/{quote(name, safe='')}"

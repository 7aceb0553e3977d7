"""`queues ls`, `show`, `pause`, `resume`, `set`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any
from urllib.parse import quote

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import OK, USAGE, Exit
from timewheel.cli.operations import actor_of
from timewheel.cli.parser_repairs import NONE

QUEUES = "/api/v1/queues"
_COLUMNS = ("queue", "state", "running", "due", "scheduled", "oldest due at", "limits")
_LIMITS = ("rate", "concurrency", "weight", "key_rate", "key_concurrency", "retry_budget")


async def list_queues(options: Namespace) -> int:
    """How each queue stands."""
    async with Client(options.url) as client:
        queues = (await client.get(QUEUES)).good().body["items"]
    if options.json:
        for queue in queues:
            output.json_line(queue)
    elif queues:
        output.table(_COLUMNS, [*map(_row, queues)])
    else:
        output.say("there is no queue yet")
    return OK


async def show_queues(options: Namespace) -> int:
    """Each queue in full."""
    async with Client(options.url) as client:
        for number, name in enumerate(options.queue):
            queue = (await client.get(_path(name))).good().body
            if options.json:
                output.json_line(queue)
                continue
            if number:
                output.result("")
            limits = {limit: _limit(queue[limit]) for limit in _LIMITS}
            output.facts({name: value for name, value in {**queue, **limits}.items() if value is not None})
    return OK


def _row(queue: dict[str, Any]) -> tuple[Any, ...]:
    state = "paused" if queue["paused"] else "open"
    shown = queue["name"], state, queue["running"], queue["due"], queue["scheduled"], queue["oldest_due_at"]
    return *shown, _limits(queue)


def _limits(queue: dict[str, Any]) -> str:
    """Those that there are: `rate 10/s, concurrency 5`."""
    said = []
    for name in _LIMITS:
        value = queue[name]
        if value is None or (name == "weight" and value == 1):
            continue
        said.append(f"{name.replace('_', ' ')} {_limit(value)}")
    return ", ".join(said)


def _limit(value: Any) -> Any:
    """A rate as `10/60s`, a retry budget as `0.2/60s+10`, the others as they are."""
    if not isinstance(value, dict):
        return value
    if "share" in value:
        return f"{value['share']:g}/{value['window_s']:g}s+{value['at_least']}"
    return f"{value['count']}/{value['per_s']:g}s" + (f" burst {value['burst']}" if value["burst"] != 1 else "")


async def pause_queues(options: Namespace) -> int:
    """Start no more of their jobs."""
    return await _change(options, options.queue, {"paused": True})


async def resume_queues(options: Namespace) -> int:
    """Start their jobs again."""
    return await _change(options, options.queue, {"paused": False})


async def set_queue(options: Namespace) -> int:
    """Give a queue other limits."""
    given = {name: getattr(options, name) for name in _LIMITS if getattr(options, name) is not None}
    if not given:
        raise Exit(USAGE, "nothing is to change: name a limit, like --rate 10 (see queues set --help)")
    return await _change(options, [options.queue], {name: None if v == NONE else v for name, v in given.items()})


async def _change(options: Namespace, queues: list[str], change: dict[str, Any]) -> int:
    change = {**change, "actor": actor_of(options), "reason": options.reason}
    async with Client(options.url) as client:
        for name in queues:
            queue = (await client.patch(_path(name), change)).good().body
            if options.json:
                output.json_line(queue)
            else:
                state = "is paused" if queue["paused"] else "is open"
                output.result(f"{name} {state}{', ' if _limits(queue) else ''}{_limits(queue)}")
    return OK


def _path(name: str) -> str:
    return f"{QUEUES}/{quote(name, safe='')}"

"""`operations ls`, `show`, `stop`, and `audit`."""

from __future__ import annotations

import asyncio
import getpass
from argparse import Namespace
from typing import Any
from urllib.parse import quote

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import DATA, OK
from timewheel.cli.listing import show_list

OPERATIONS, AUDIT = "/api/v1/operations", "/api/v1/audit"
LOOK_S = 0.5
_COLUMNS = ("id", "kind", "state", "done", "of", "skipped", "asked by", "reason")
_AUDIT_COLUMNS = ("at", "actor", "action", "of", "reason")
_AUDITED = ("job_id", "operation_id", "queue", "dependency")


async def list_operations(options: Namespace) -> int:
    """The newest operations."""
    options.state = None
    return await show_list(options, OPERATIONS, (), _COLUMNS, _row, "there is no operation")


def _row(one: dict[str, Any]) -> tuple[Any, ...]:
    of = one["matched"]
    return one["id"], one["kind"], one["state"], one["done"], of, one["skipped"], one["actor"], one["reason"]


async def show_operations(options: Namespace) -> int:
    """Each operation in full; 65 when one is unknown."""
    code = OK
    async with Client(options.url) as client:
        for operation_id in options.id:
            answer = await client.get(_path(operation_id))
            if answer.status == 404:
                output.say(answer.detail)
                code = DATA
            elif options.json:
                output.json_line(answer.good().body)
            else:
                facts = answer.good().body.items()
                output.facts({name: value for name, value in facts if value not in (None, "", False)})
    return code


async def stop_operations(options: Namespace) -> int:
    """Stop each operation; 65 when one is unknown."""
    code = OK
    body = {"actor": actor_of(options), "reason": options.reason}
    async with Client(options.url) as client:
        for operation_id in options.id:
            answer = await client.post(f"{_path(operation_id)}/stop", body)
            if answer.status == 404:
                output.say(answer.detail)
                code = DATA
            else:
                show_operation(options, answer.good().body)
    return code


async def show_audit(options: Namespace) -> int:
    """Who did what."""
    options.state = None
    return await show_list(options, AUDIT, (), _AUDIT_COLUMNS, _audit_row, "nobody did anything yet")


def _audit_row(entry: dict[str, Any]) -> tuple[Any, ...]:
    of = next((entry[name] for name in _AUDITED if entry.get(name)), None)
    return entry["at"], entry["actor"], entry["action"], of, entry["reason"]


def actor_of(options: Namespace) -> str:
    """Who acts, for the audit: as it was said, else the name of the user."""
    return options.actor or getpass.getuser()


def show_operation(options: Namespace, operation: dict[str, Any]) -> None:
    """One operation, in a line."""
    if options.json:
        output.json_line(operation)
        return
    so_far = f"{operation['done']} of {operation['matched']}"
    why = f": {operation['reason']}" if operation["reason"] else ""
    output.result(f"{operation['id']} {operation['kind']} {operation['state']} {so_far}{why}")


async def watch(client: Client, operation: dict[str, Any]) -> dict[str, Any]:
    """Wait until an operation is over."""
    while operation["state"] == "RUNNING":
        await asyncio.sleep(LOOK_S)
        operation = (await client.get(_path(operation["id"]))).good().body
    return operation


def _path(operation_id: str) -> str:
    return f"{OPERATIONS}/{quote(operation_id, safe='')}"

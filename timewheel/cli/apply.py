"""`schedules apply FILE`: a TOML file is the desired set. Shows the difference, asks, and then carries it out.

The file owns what it made before: such a schedule that stands in it no longer is ended. Others are left alone, and
one that code declares is taken over only with `--take-over`. The format stands in `schedules apply --help`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from timewheel.cli import output
from timewheel.cli.client import Answer, Client
from timewheel.cli.desired import MANAGED, MOST_BYTES, Desired, NotDesired, read
from timewheel.cli.exits import DATA, OK, PERMISSION, Exit
from timewheel.periodic import IN_CODE

SCHEDULES = "/api/v1/schedules"
CALENDARS = "/api/v1/calendars"
_IN_CODE = (
    "it was declared in code (@scheduler.periodic): --take-over makes it the file's; take it out of the code as well, "
    "which takes it back at its next start"
)


@dataclass
class Difference:
    """What has to be done. `changes`: id -> what changes, by name. `ends`: id -> the version that is there.

    `taken`: those that were declared in code, and are the file's from then on.
    """

    calendars: list[str] = field(default_factory=list)
    creates: list[str] = field(default_factory=list)
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    same: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether nothing has to be done."""
        return not (self.calendars or self.creates or self.changes or self.ends)


async def apply(options: Namespace) -> int:
    """Bring the schedules to what a file says. 65 when some of it cannot be."""
    desired = _read(options.file)
    async with Client(options.url) as client:
        difference = await _compare(client, desired, take_over=options.take_over)
        if options.json:
            return await _apply_quietly(client, options, desired, difference)
        _show(difference)
        if difference.faults:
            output.say("nothing was applied: mend these first")
            return DATA
        if difference.empty:
            output.result(f"nothing to do: {difference.same} unchanged")
            return OK
        if not options.yes and not _agreed():
            output.say("nothing was applied; --yes applies it without asking")
            return OK
        failed = await _carry_out(client, desired, difference)
    for line in failed:
        output.say(line)
    return _finish(difference, failed)


async def _apply_quietly(client: Client, options: Namespace, desired: Desired, difference: Difference) -> int:
    applies = options.yes and not difference.faults
    failed = await _carry_out(client, desired, difference) if applies else []
    done: dict[str, Any] = {
        "calendars": difference.calendars,
        "created": difference.creates,
        "updated": difference.changes,
        "ended": list(difference.ends),
        "taken_over": difference.taken,
        "unchanged": difference.same,
        "applied": applies,
        "refused": difference.faults + failed,
    }
    output.json_line(done)
    return DATA if difference.faults or failed else OK


def _finish(difference: Difference, failed: list[str]) -> int:
    counts = {"created": difference.creates, "updated": difference.changes, "ended": difference.ends}
    told = ", ".join(f"{len(ids)} {word}" for word, ids in counts.items())
    output.result(f"{told}, {difference.same} unchanged, {len(failed)} refused")
    return DATA if failed else OK


def _read(name: str) -> Desired:
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if name == "-" else Path(name).read_bytes()
        if len(data) > MOST_BYTES:
            raise Exit(DATA, f"{name}: it has more than {MOST_BYTES:,} bytes")
        return read(data.decode())
    except PermissionError as error:
        raise Exit(PERMISSION, f"{name} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise Exit(DATA, f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Exit(DATA, f"{name}: it is not UTF-8: {error.reason} at byte {error.start + 1}") from None
    except NotDesired as error:
        raise Exit(DATA, f"{name}: {error}") from None


# ---- the difference --------------------------------------------------------------------------------------------------


async def _compare(client: Client, desired: Desired, *, take_over: bool) -> Difference:
    difference = Difference()
    saved = {calendar["name"]: calendar for calendar in (await client.get(CALENDARS)).good().body["items"]}
    for name, body in desired.calendars.items():
        if saved.get(name) != {"name": name, **body}:
            difference.calendars.append(name)
    there = {schedule["id"]: schedule async for schedule in client.pages(SCHEDULES, {"page_size": "1000"})}
    new = {name for name in difference.calendars if name not in saved}
    for schedule_id, body in desired.schedules.items():
        if schedule_id in there and there[schedule_id]["managed"] == IN_CODE:
            if not take_over:
                difference.faults.append(f"{schedule_id}: {_IN_CODE}")
                continue
            difference.taken.append(schedule_id)
        await _compare_one(client, schedule_id, body, difference, blind=body.get("calendar") in new, there=there)
    difference.ends = {
        schedule_id: schedule["version"]
        for schedule_id, schedule in there.items()
        if schedule["managed"] == MANAGED and schedule_id not in desired.schedules
    }
    return difference


async def _compare_one(
    client: Client,
    schedule_id: str,
    body: dict[str, Any],
    difference: Difference,
    *,
    blind: bool,
    there: dict[str, Any],
) -> None:
    """Ask the server what would change. `blind`: its calendar is not saved yet, so the server cannot say."""
    if blind:
        if schedule_id in there:
            difference.changes[schedule_id] = {"calendar": {"before": None, "after": body["calendar"]}}
        else:
            difference.creates.append(schedule_id)
        return
    answer = await client.post(SCHEDULES, {**body, "dry_run": True})
    if answer.status in (409, 422):
        difference.faults.append(f"{schedule_id}: {answer.detail}")
    elif not answer.ok:
        raise answer.exit()
    elif answer.body["change"] == "created":
        difference.creates.append(schedule_id)
    elif answer.body["change"] == "updated":
        difference.changes[schedule_id] = answer.body["changes"]
    else:
        difference.same += 1


def _show(difference: Difference) -> None:
    for name in difference.calendars:
        output.result(f"~ calendar {name}")
    for schedule_id in difference.creates:
        output.result(f"+ {schedule_id}")
    for schedule_id, changes in difference.changes.items():
        output.result(f"~ {schedule_id}")
        for name, change in changes.items():
            output.result(f"    {name}: {_short(change['before'])} -> {_short(change['after'])}")
    for schedule_id in difference.ends:
        output.result(f"- {schedule_id}")
    for fault in difference.faults:
        output.result(f"! {fault}")


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _agreed() -> bool:
    if not sys.stdin.isatty():
        return False
    output.say("apply this? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---- carrying it out -------------------------------------------------------------------------------------------------


async def _carry_out(client: Client, desired: Desired, difference: Difference) -> list[str]:
    """What was refused all the same, one line each. Raises Exit when the server takes nothing any more."""
    failed: list[str] = []
    for name in difference.calendars:
        answer = await client.put(f"{CALENDARS}/{quote(name, safe='')}", desired.calendars[name])
        _note(failed, f"calendar {name}", answer)
    for schedule_id in [*difference.creates, *difference.changes]:
        _note(failed, schedule_id, await client.post(SCHEDULES, desired.schedules[schedule_id]))
    for schedule_id, version in difference.ends.items():
        answer = await client.delete(f"{SCHEDULES}/{quote(schedule_id, safe='')}", version)
        if answer.status != 404:  # it is gone: just what was wanted
            _note(failed, schedule_id, answer)
    return failed


def _note(failed: list[str], what: str, answer: Answer) -> None:
    if answer.ok:
        return
    if answer.status not in (409, 412, 422):
        raise answer.exit()
    failed.append(f"{what}: {answer.detail}")

"""`import crontab FILE...`: shows what schedules the lines of crontabs would become; with `--apply` makes them.

What is shown needs no server. Each schedule keeps cron's ways unless told otherwise: no retry, a slot that was missed
is skipped, and a command that still runs keeps no other from starting.
"""

from __future__ import annotations

import os
import pwd
import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.crontab import Crontab, Entry, Format, Remark, TooLarge, read
from timewheel.cli.crontab_schedules import schedules_of
from timewheel.cli.exits import DATA, OK, PERMISSION, USAGE, Exit
from timewheel.errors import InvalidRule
from timewheel.zones import zone

SCHEDULES = "/api/v1/schedules"
SHOWN_RUNS = 3
SHOWN_COMMAND = 300
_SYSTEM_FOLDERS = ("cron.d",)
_SPOOLS = ("crontabs", "cron")  # .../spool/cron/crontabs/alice, .../spool/cron/alice
_CRON_READS = re.compile(r"[A-Za-z0-9_-]+")


class Source(NamedTuple):
    """One file, as read."""

    path: str
    crontab: Crontab
    schedules: list[dict[str, Any]]  # in the order of its entries


async def import_crontabs(options: Namespace) -> int:
    """Show the schedules, and with --apply make them. 65 when a line could not be converted or was refused."""
    form_zone = options.tz or local_zone()
    try:
        zone(form_zone)
    except InvalidRule as error:
        raise Exit(USAGE, f"{error}; name the zone that cron counts in with --tz") from None
    sources = _read_all(options, form_zone)
    results: dict[str, str] = {}
    refused: list[str] = []
    if options.apply:
        async with Client(options.url) as client:
            for source in sources:
                await _make(client, source, results, refused)
    if options.json:
        output.json_line(_document(sources, results, refused))
    else:
        _show(sources, results, applied=options.apply)
        for line in refused:
            output.say(line)
    return DATA if refused or any(source.crontab.left for source in sources) else OK


def local_zone() -> str:
    """The zone that this machine's cron counts in, by its name; UTC where nothing says so."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return "UTC"
    _, found, name = target.partition("/zoneinfo/")
    if found:
        return name
    try:
        return Path("/etc/timezone").read_text(encoding="utf-8").strip() or "UTC"
    except (OSError, UnicodeDecodeError):
        return "UTC"


# ---- reading ---------------------------------------------------------------------------------------------------------


def _read_all(options: Namespace, form_zone: str) -> list[Source]:
    common = {"misfire": options.misfire, "overlap": options.overlap, "retry": options.attempts}
    if options.queue is not None:
        common["queue"] = options.queue
    taken: set[str] = set()
    sources = []
    for path in (found for name in options.file for found in _files(name)):
        form = Format(_is_system(path, options.system), form_zone, _owner(path), _may_be)
        try:
            crontab = read(_bytes(path), form)
        except TooLarge as error:
            raise Exit(DATA, f"{path}: {error}") from None
        name = "crontab" if path == "-" else Path(path).name
        sources.append(Source(path, crontab, schedules_of(name, crontab.entries, common, taken)))
    return sources


def _files(name: str) -> Iterator[str]:
    """The file, or of a folder those that cron would read."""
    if name == "-" or not Path(name).is_dir():
        yield name
        return
    for path in sorted(Path(name).iterdir()):
        if path.is_file() and _CRON_READS.fullmatch(path.name):
            yield str(path)
        elif path.is_file() and not path.name.startswith("."):
            output.say(f"{path}: not read, as cron would not read it: its name has other than letters, digits, _ and -")


def _bytes(path: str) -> bytes:
    if Path(path).name == "anacrontab":
        raise Exit(DATA, f"{path}: an anacrontab is no crontab: its lines name periods in days, not times")
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except PermissionError as error:
        raise Exit(PERMISSION, f"{path} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise Exit(DATA, f"{path} cannot be read: {error.strerror}") from None


def _is_system(path: str, told: bool | None) -> bool:
    """Whether a file's lines name users: as told, else /etc/crontab and what lies in a folder cron.d."""
    if told is not None:
        return told
    absolute = Path(path).absolute()
    return absolute.parent.name in _SYSTEM_FOLDERS or (absolute.name == "crontab" and absolute.parent.name == "etc")


def _owner(path: str) -> str | None:
    """Whose crontab a file is by its place; None: nothing says so."""
    parent = Path(path).absolute().parent
    spooled = parent.name in _SPOOLS and "spool" in parent.parts
    return Path(path).name if spooled else None


def _may_be(user: str) -> bool:
    if os.geteuid() == 0:
        return True
    try:
        return pwd.getpwnam(user).pw_uid == os.geteuid()
    except KeyError:
        return False


# ---- making ----------------------------------------------------------------------------------------------------------


async def _make(client: Client, source: Source, results: dict[str, str], refused: list[str]) -> None:
    """Have the server take each schedule. Raises Exit when it cannot take any."""
    for entry, schedule in zip(source.crontab.entries, source.schedules, strict=True):
        answer = await client.post(SCHEDULES, schedule)
        if answer.ok:
            results[schedule["id"]] = answer.body["change"]
        elif answer.status in (409, 422):
            results[schedule["id"]] = "refused"
            refused.append(f"{source.path}:{entry.line}: {answer.detail}")
        else:
            raise answer.exit()


# ---- showing ---------------------------------------------------------------------------------------------------------


def _runs(entry: Entry) -> list[str]:
    """The next runs, in local time with its offset."""
    after, found = datetime.now(UTC), []
    tz = zone(entry.rule.tz or "UTC")
    for _ in range(SHOWN_RUNS):
        nearest = entry.rule.next_after(after)
        if nearest is None:
            break
        found.append(nearest.astimezone(tz).isoformat())
        after = nearest
    return found


def _show(sources: list[Source], results: dict[str, str], *, applied: bool) -> None:
    for source in sources:
        for entry, schedule in zip(source.crontab.entries, source.schedules, strict=True):
            told = f" ({results[schedule['id']]})" if schedule["id"] in results else ""
            output.result(f"{source.path}:{entry.line}: {schedule['id']}{told}")
            whose = f"as {entry.user}: " if entry.user else ""
            output.result(f"    {whose}{entry.command[:SHOWN_COMMAND]}")
            output.result(f"    {entry.rule.expr}: {entry.rule.explain().partition(';')[0]}")
            output.result(f"    next: {', '.join(_runs(entry)) or 'never'}")
    for source in sources:
        _tell(source, source.crontab.remarks, "note")
        _tell(source, source.crontab.left, "not converted")
    made = sum(len(source.schedules) for source in sources)
    left = sum(len(source.crontab.left) for source in sources)
    if applied:
        number = {word: list(results.values()).count(word) for word in ("created", "updated", "unchanged", "refused")}
        output.result(", ".join(f"{count} {word}" for word, count in number.items()) + f", {left} not converted")
        return
    output.result(f"{made} schedule{'' if made == 1 else 's'}, {left} line{'' if left == 1 else 's'} not converted")
    output.say("nothing was made: the same command with --apply makes them, in a serve that has --allow-shell")


def _tell(source: Source, remarks: list[Remark], what: str) -> None:
    for remark in remarks:
        output.result(f"{source.path}:{remark.line}: {what}: {remark.text[:SHOWN_COMMAND]}: {remark.reason}")


def _document(sources: list[Source], results: dict[str, str], refused: list[str]) -> dict[str, Any]:
    def lines(kind: str) -> list[dict[str, Any]]:
        return [
            {"file": source.path, **remark._asdict()} for source in sources for remark in getattr(source.crontab, kind)
        ]

    shown = [
        {
            "file": source.path,
            "line": entry.line,
            "schedule": schedule,
            "in_words": entry.rule.explain(),
            "next": _runs(entry),
            "result": results.get(schedule["id"]),
        }
        for source in sources
        for entry, schedule in zip(source.crontab.entries, source.schedules, strict=True)
    ]
    return {"schedules": shown, "not_converted": lines("left"), "notes": lines("remarks"), "refused": refused}

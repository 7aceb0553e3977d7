"""The options of the commands about schedules: `schedules`, `calendars`, `forecast`, `import crontab`."""

from __future__ import annotations

import argparse
from typing import Any

from timewheel.cli.parsing import Parser, count, positive, run_later, seconds, verb
from timewheel.schedule_records import ScheduleState

MISFIRES = ("SKIP", "LATEST", "COALESCE", "ALL")
OVERLAPS = ("SKIP", "QUEUE_ONE", "REPLACE", "ALLOW", "QUEUE_ALL")
FORMAT = """the format of FILE:

    [[calendar]]
    name = "bank"
    exclude = [2026-12-25, [2026-12-28, 2026-12-31]]      # dates, and ranges of dates
    weekend = ["sat", "sun"]

    [[schedule]]
    id = "payroll"                                        # required here: it tells what the file owns
    task = "pay.run"
    args = ["monthly"]                                    # and kwargs = { ... }
    cron = "0 18 L * *"                                   # or every = "5m", or days = / weeks = with anchor =
    tz = "Europe/London"
    calendar = "bank"
    roll = "preceding"
    overlap = { kind = "ALLOW", limit = 5 }               # or a name, as misfire

Every other key of a schedule is the option that `POST /api/v1/schedules` takes under this name. `every` is a number of
seconds, or a text with a unit: "90s", "5m", "2h", "1d".

A server has one such file: what this or another file made before, and this one does not name, is ended. Calendars
stay. A schedule that was declared in code is refused, unless --take-over makes it the file's.
"""
INSTANT = "RFC 3339, like 2026-01-05T00:00:00Z"


def add(commands: Any) -> None:
    """Add them all."""
    _add_schedules(commands)
    _add_calendars(commands)
    _add_forecast(commands)
    _add_import(commands)


def _add_schedules(commands: Any) -> None:
    schedules = commands.add_parser(
        "schedules", help="look at and change the schedules of a running server", allow_abbrev=False
    )
    verbs = schedules.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    lists = verb(verbs, "list", "the schedules, by id", _in_schedules("list_schedules"))
    lists.add_argument(
        "--state", action="append", type=str.upper, choices=[state.value for state in ScheduleState], help="repeatable"
    )
    lists.add_argument("--queue")
    lists.add_argument("--task")
    lists.add_argument("--limit", type=count, default=0, metavar="N", help="0 lists all (default: %(default)s)")
    show = verb(verbs, "show", "schedules in full, with what became of them", _in_schedules("show_schedules"))
    show.add_argument("id", nargs="+")
    show.add_argument("--occurrences", type=positive, default=10, metavar="N", help="rows of the ledger (default: 10)")
    _add_add(verbs)
    for name, text, function in (
        ("pause", "make no jobs until they are resumed", "pause_schedules"),
        ("resume", "end a pause", "resume_schedules"),
        ("delete", "forget schedules; jobs and ledger stay", "delete_schedules"),
    ):
        command = verb(verbs, name, text, _in_schedules(function))
        command.add_argument("id", nargs="+")
        if name == "pause":
            command.add_argument("--note", help="kept with the schedule")
            command.add_argument("--until", help=f"when it resumes by itself: {INSTANT}")
    _add_runs(verbs)
    apply = verb(verbs, "apply", "a TOML file is the desired set: show the difference, ask, and do it", _APPLY)
    apply.add_argument("file", metavar="FILE", help="- reads stdin; tables [[schedule]] and [[calendar]]")
    apply.formatter_class, apply.epilog = argparse.RawDescriptionHelpFormatter, FORMAT
    apply.add_argument("--yes", action="store_true", help="do it without asking")
    apply.add_argument("--take-over", action="store_true", help="also schedules that were declared in code")


def _add_runs(verbs: Any) -> None:
    trigger = verb(verbs, "trigger", "run a schedule once now", _in_schedules("trigger_schedule"))
    trigger.add_argument("id")
    trigger.add_argument("--force", action="store_true", help="whatever its overlap policy says")
    backfill = verb(verbs, "backfill", "run the slots of a time that did not run", _in_schedules("backfill_schedule"))
    backfill.add_argument("id")
    backfill.add_argument("start", help=INSTANT)
    backfill.add_argument("end", help="the first instant that is not meant any more")
    backfill.add_argument("--run", dest="run_them", action="store_true", help="make the jobs; without it, count them")
    backfill.add_argument("--at-once", type=positive, default=1, metavar="N", help="run N at a time (default: 1)")
    preview = verb(verbs, "preview", "the next runs of a schedule, or of a rule", _in_schedules("preview_schedule"))
    preview.add_argument("id", nargs="?", help="a schedule; without it, a rule")
    preview.add_argument("-n", type=positive, default=10, metavar="N", help="how many (default: 10)")
    preview.add_argument("--after", help=f"those after this instant: {INSTANT}")
    _add_rule(preview)


def _add_rule(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cron", metavar="TEXT", help='like "0 9 * * mon"')
    command.add_argument("--every", type=float, metavar="S", help="seconds of elapsed time")
    command.add_argument("--after-completion", action="store_true", help="of --every: counted from each run's end")
    command.add_argument("--days", type=positive, metavar="N", help="every N days at the anchor's time")
    command.add_argument("--weeks", type=positive, metavar="N", help="every N weeks")
    command.add_argument("--anchor", metavar="TIME", help="the first slot, like 2026-01-09T09:00:00")
    command.add_argument("--tz", metavar="ZONE", help="like Europe/Berlin")
    command.add_argument("--gap", type=str.upper, choices=("AUTO", "SKIP", "FIRE_AFTER", "KEEP_OFFSET"))
    command.add_argument("--fold", type=str.upper, choices=("AUTO", "FIRST", "SECOND", "BOTH"))
    command.add_argument("--calendar", metavar="NAME", help="a saved calendar")
    command.add_argument("--roll", choices=("following", "preceding", "modified_following"))


def _add_add(verbs: Any) -> None:
    add = verb(verbs, "add", "make a schedule, or change the one with this id", _ADD)
    add.add_argument("task", help="the name of a registered task")
    add.add_argument("--id", help="without it: the task's name")
    add.add_argument("--arg", action="append", default=[], metavar="VALUE", help="JSON or text; repeatable")
    add.add_argument("--kwarg", action="append", default=[], metavar="NAME=VALUE", help="repeatable")
    _add_rule(add)
    add.add_argument("--misfire", type=str.upper, choices=MISFIRES, help="of times that were missed")
    add.add_argument("--overlap", metavar="POLICY", help=f"{', '.join(OVERLAPS)}, ALLOW:5, SERIALIZE:KEY")
    add.add_argument("--jitter", dest="jitter_s", type=seconds, metavar="S", help="jobs are due so much later, at most")
    add.add_argument("--queue")
    add.add_argument("--priority", type=count, metavar="N", help="0 (first) to 9")
    add.add_argument("--attempts", type=positive, metavar="N", help="of a job that fails")
    add.add_argument("--timeout", dest="timeout_s", type=float, metavar="S", help="of one attempt")
    _add_flow(add)
    add.add_argument("--tag", action="append", help="repeatable")
    add.add_argument("--start", help=f"the first instant that may be a slot: {INSTANT}")
    add.add_argument("--end", help="the first instant that is none any more")
    add.add_argument("--max-runs", type=positive, metavar="N")
    add.add_argument("--if-exists", choices=("update", "keep", "fail"), help="(default: update)")
    add.add_argument("--dry-run", action="store_true", help="only say what would change")


def _add_flow(add: argparse.ArgumentParser) -> None:
    """What a schedule says of when its jobs may start and when they are given up."""
    keys = {"concurrency": "jobs with one run one at a time", "rate": "starts with one have a rate"}
    keys["partition"] = "jobs with different ones share their queue fairly"
    for name, meaning in keys.items():
        add.add_argument(f"--{name}-key", metavar="KEY", help=meaning)
    add.add_argument("--cost", type=positive, metavar="N", help="what a start takes of the rate of its key")
    ends = {"heartbeat_timeout_s": "longest silence of a handler", "expires_after_s": "after that it does not start"}
    ends["deadline_after_s"] = "after that it is given up"
    for name, meaning in ends.items():
        add.add_argument(f"--{name[:-2].replace('_', '-')}", dest=name, type=float, metavar="S", help=meaning)


def _add_calendars(commands: Any) -> None:
    calendars = commands.add_parser("calendars", help="days on which nothing runs", allow_abbrev=False)
    verbs = calendars.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    verb(verbs, "list", "the saved calendars", _in_calendars("list_calendars"))
    show = verb(verbs, "show", "the days of calendars", _in_calendars("show_calendars"))
    show.add_argument("name", nargs="+")
    put = verb(verbs, "put", "save a calendar, in the place of the one there is", _in_calendars("put_calendar"))
    put.add_argument("name")
    put.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="DAY",
        help="2026-12-25, 2026-12-28..2026-12-31; repeatable",
    )
    put.add_argument("--weekend", metavar="DAYS", help='like fri,sat; "" for none (default: sat,sun)')


def _add_forecast(commands: Any) -> None:
    forecast = verb(commands, "forecast", "which jobs fall due when, and which schedules cause them", _FORECAST)
    forecast.add_argument("--from", dest="start", help=f"(default: now) {INSTANT}")
    forecast.add_argument("--to", dest="end", help="(default: 24 hours later)")
    forecast.add_argument("--bucket", type=float, metavar="S", help="seconds (default: 60)")
    forecast.add_argument("--all", action="store_true", help="every bucket that is not empty (default: the fullest)")


def _add_import(commands: Any) -> None:
    imports = commands.add_parser("import", help="make schedules of what others run", allow_abbrev=False)
    kinds = imports.add_subparsers(metavar="KIND", required=True, parser_class=Parser)
    crontab = verb(kinds, "crontab", "show what schedules crontabs become; with --apply make them", _CRONTAB)
    crontab.add_argument("file", nargs="+", metavar="FILE", help="a crontab, or a folder of them; - reads stdin")
    crontab.add_argument("--apply", action="store_true", help="make them, in a serve that has --allow-shell")
    crontab.add_argument(
        "--system",
        action=argparse.BooleanOptionalAction,
        help="whether lines name a user before the command (default: in /etc/crontab and in a folder cron.d)",
    )
    crontab.add_argument("--tz", metavar="ZONE", help="the zone that cron counts in (default: this machine's)")
    crontab.add_argument("--queue", help="of the jobs (default: default)")
    crontab.add_argument(
        "--misfire", choices=MISFIRES, default="SKIP", help="of times that were missed (default: SKIP, as cron does)"
    )
    crontab.add_argument(
        "--overlap", choices=OVERLAPS, default="ALLOW", help="while a command still runs (default: ALLOW, as cron does)"
    )
    crontab.add_argument(
        "--attempts", type=positive, default=1, metavar="N", help="of a command that fails (default: 1, as cron does)"
    )


def _in_schedules(function: str) -> Any:
    return run_later("timewheel.cli.schedules", function)


def _in_calendars(function: str) -> Any:
    return run_later("timewheel.cli.calendars", function)


_APPLY = run_later("timewheel.cli.apply", "apply")
_ADD = run_later("timewheel.cli.schedule_add", "add_schedule")
_FORECAST = run_later("timewheel.cli.forecast", "show_forecast")
_CRONTAB = run_later("timewheel.cli.crontab_import", "import_crontabs")

"""The options of the commands about schedules: `schedules`, `calendars`, `forecast`, `import crontab`."""

from __future__ import annotations

import argparse
from typing import Any

from timewheel.cli.parsing import Parser, positive, run, verb

MISFIRES = ("SKIP", "LATEST", "COALESCE", "ALL")
OVERLAPS = ("SKIP", "QUEUE_ONE", "REPLACE", "ALLOW", "QUEUE_ALL")


def add(commands: Any) -> None:
    """Add them all."""
    _add_import(commands)


def _add_import(commands: Any) -> None:
    imports = commands.add_parser("import", help="make schedules of what others run", allow_abbrev=False)
    kinds = imports.add_subparsers(metavar="KIND", required=True, parser_class=Parser)
    crontab = verb(kinds, "crontab", "show what schedules crontabs become; with --apply make them", _run_crontab)
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


def _run_crontab(options: argparse.Namespace) -> int:
    from timewheel.cli.crontab_import import import_crontabs

    return run(import_crontabs(options))

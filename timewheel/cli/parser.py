"""The options of the command line, and which function each command runs."""

from __future__ import annotations

import argparse
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from timewheel.cli import parser_dependencies, parser_repairs, parser_schedules
from timewheel.cli.parsing import Parser, age, count, port, positive, run, seconds, verb
from timewheel.model import JobState

DISTRIBUTION = "timewheel-jobs"


def parser() -> argparse.ArgumentParser:
    """The whole command line; parsed options have `run`, the command's function."""
    top = Parser(prog="timewheel", description="A durable job scheduler: one process, one file.", allow_abbrev=False)
    top.add_argument("--version", action="version", version=f"timewheel {_version()}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    _add_serve(commands)
    _add_jobs(commands)
    parser_repairs.add(commands)
    parser_dependencies.add(commands)
    parser_schedules.add(commands)
    verify = commands.add_parser("verify", help="check a journal (reads only)", allow_abbrev=False)
    verify.add_argument("--db", default="timewheel.db", metavar="FILE", help="the journal (default: %(default)s)")
    verify.add_argument("--json", action="store_true", help="print one JSON document")
    verify.set_defaults(run=_run_verify)
    return top


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # a checkout on the path
        return "(not installed)"


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser("serve", help="run the scheduler with an HTTP API", allow_abbrev=False)
    serve.add_argument("--db", metavar="FILE", help="the journal, made when missing (default: timewheel.db)")
    serve.add_argument(
        "--app", metavar="MODULE:NAME", help="serve the Scheduler of your own application, with its tasks"
    )
    serve.add_argument("--host", default="127.0.0.1", help="loopback address to listen on (default: %(default)s)")
    serve.add_argument("--port", type=port, default=8400, help="0 takes a free one (default: %(default)s)")
    serve.add_argument("--rate", type=positive, metavar="N", help="start at most N jobs a second (default: no limit)")
    serve.add_argument("--concurrency", type=positive, metavar="N", help="run at most N jobs at once (default: 100)")
    serve.add_argument(
        "--durability", choices=("power", "process"), help="what an accepted job survives (default: power, a power cut)"
    )
    serve.add_argument(
        "--forget",
        type=age,
        action="append",
        metavar="STATE=AGE",
        help="forget jobs so long after they ended, like completed=7d or discarded=12h; repeatable (default: never)",
    )
    serve.add_argument(
        "--allow-http",
        nargs="+",
        action="extend",
        metavar="HOST",
        help="hosts that http.request may call, private ones too; * is any host with public addresses (default: none)",
    )
    serve.add_argument(
        "--allow-shell",
        action="store_true",
        help="have shell.run: whoever can open a socket on this machine may then run commands as this user",
    )
    serve.add_argument(
        "--grace",
        type=seconds,
        default=10.0,
        metavar="S",
        help="seconds that running jobs get at the end (default: 10)",
    )
    serve.set_defaults(run=_run_serve)


def _add_jobs(commands: Any) -> None:
    jobs = commands.add_parser("jobs", help="look at and change the jobs of a running server", allow_abbrev=False)
    verbs = jobs.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    lists = verb(verbs, "list", "the newest jobs", _run_list)
    states = [state.value for state in JobState]
    lists.add_argument("--state", action="append", type=str.upper, choices=states, help="repeatable")
    for name in ("queue", "task", "tag"):
        lists.add_argument(f"--{name}")
    lists.add_argument("--limit", type=count, default=50, metavar="N", help="0 lists all (default: %(default)s)")
    show = verb(verbs, "show", "jobs in full, with their attempts", _run_show)
    show.add_argument("id", nargs="+")
    cancel = verb(verbs, "cancel", "cancel jobs", _run_cancel)
    cancel.add_argument("id", nargs="+")
    cancel.add_argument("--reason", default="", help="kept with the job")
    parser_repairs.add_retry(verbs)
    imports = verb(verbs, "import", "schedule the jobs of a file, one JSON object a line", _run_import)
    imports.add_argument("file", metavar="FILE", help="- reads stdin")
    imports.add_argument(
        "--patience",
        type=seconds,
        default=60.0,
        metavar="S",
        help="how long to wait for a server that is away (default: 60)",
    )


def _run_serve(options: argparse.Namespace) -> int:
    from timewheel.cli.serve import serve

    return serve(options)


def _run_verify(options: argparse.Namespace) -> int:
    from timewheel.cli.verify import verify

    return verify(options)


def _run_list(options: argparse.Namespace) -> int:
    from timewheel.cli.jobs import list_jobs

    return run(list_jobs(options))


def _run_show(options: argparse.Namespace) -> int:
    from timewheel.cli.jobs import show_jobs

    return run(show_jobs(options))


def _run_cancel(options: argparse.Namespace) -> int:
    from timewheel.cli.jobs import cancel_jobs

    return run(cancel_jobs(options))


def _run_import(options: argparse.Namespace) -> int:
    from timewheel.cli.imports import import_jobs

    return run(import_jobs(options))

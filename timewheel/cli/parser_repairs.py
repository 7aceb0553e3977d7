"""The options of the commands that repair: `dlq`, `operations`, `audit`, `queues`, `jobs retry`."""

from __future__ import annotations

import argparse
from typing import Any

from timewheel.cli.parsing import Parser, count, positive, run_later, verb

INSTANT = "RFC 3339, like 2026-01-05T00:00:00Z"
NONE = "none"


def add(commands: Any) -> None:
    """Add them all, but `jobs retry`."""
    _add_letters(commands)
    _add_operations(commands)
    _add_queues(commands)


def add_retry(verbs: Any) -> None:
    """Add `jobs retry`."""
    retry = verb(verbs, "retry", "run jobs again that are DEAD, SKIPPED or CANCELLED", _in_letters("retry_jobs"))
    retry.add_argument("id", nargs="+")
    add_who(retry, cause=True)


def add_who(command: argparse.ArgumentParser, *, cause: bool = False, required: bool = True) -> None:
    """Add --actor and --reason, and with `cause` --cause-fixed."""
    command.add_argument("--actor", metavar="NAME", help="who does it, for the audit (default: your user name)")
    command.add_argument("--reason", required=required, metavar="TEXT", help="why, for the audit")
    if cause:
        command.add_argument(
            "--cause-fixed", required=True, metavar="TEXT", help="what was done about the cause: else they fail again"
        )


def _add_letters(commands: Any) -> None:
    letters = commands.add_parser("dlq", help="dead letters: jobs that failed for good", allow_abbrev=False)
    verbs = letters.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    ls = verb(verbs, "ls", "the dead letters, newest first", _in_letters("list_letters"))
    _add_which(ls)
    ls.add_argument("--groups", action="store_true", help="what failed alike, the largest groups first")
    ls.add_argument("--limit", type=count, default=50, metavar="N", help="0 lists all (default: %(default)s)")
    show = verb(verbs, "show", "dead letters in full, with their attempts", run_later(_JOBS, "show_jobs"))
    show.add_argument("id", nargs="+")
    replay = verb(verbs, "replay", "run those again that match: without --yes only count", _in_letters("replay"))
    _add_which(replay)
    add_who(replay, cause=True)
    replay.add_argument(
        "--canary", type=count, default=1, metavar="N", help="so many first; the rest when these completed (default: 1)"
    )
    replay.add_argument("--rate", type=positive, metavar="N", help="then N a second (default: 10)")
    discard = verb(verbs, "discard", "take those that match out of the list: without --yes only count", _DISCARD)
    _add_which(discard)
    add_who(discard)
    for command in (replay, discard):
        command.add_argument("--yes", action="store_true", help="do it")
        command.add_argument("--wait", action="store_true", help="of --yes: until it is over")


def _add_which(command: argparse.ArgumentParser) -> None:
    for name in ("queue", "task", "tag"):
        command.add_argument(f"--{name}")
    command.add_argument("--fingerprint", help="of a group")
    command.add_argument("--since", metavar="TIME", help=f"they died then or later: {INSTANT}")
    command.add_argument("--until", metavar="TIME", help="they died then or before")


def _add_operations(commands: Any) -> None:
    operations = commands.add_parser("operations", help="replays and discards of many jobs", allow_abbrev=False)
    verbs = operations.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    ls = verb(verbs, "ls", "the operations, newest first", run_later(_OPERATIONS, "list_operations"))
    ls.add_argument("--limit", type=count, default=20, metavar="N", help="0 lists all (default: %(default)s)")
    show = verb(verbs, "show", "how far operations are", run_later(_OPERATIONS, "show_operations"))
    show.add_argument("id", nargs="+")
    stop = verb(verbs, "stop", "stop operations; what they did stays done", run_later(_OPERATIONS, "stop_operations"))
    stop.add_argument("id", nargs="+")
    add_who(stop)
    audit = verb(commands, "audit", "who did what, and why, newest first", run_later(_OPERATIONS, "show_audit"))
    audit.add_argument("--limit", type=count, default=50, metavar="N", help="0 lists all (default: %(default)s)")


def _add_queues(commands: Any) -> None:
    queues = commands.add_parser("queues", help="look at and change the queues of a running server", allow_abbrev=False)
    verbs = queues.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    verb(verbs, "ls", "how the queues stand", run_later(_QUEUES, "list_queues"))
    show = verb(verbs, "show", "queues in full", run_later(_QUEUES, "show_queues"))
    show.add_argument("queue", nargs="+")
    for name, text in (("pause", "start none of their jobs"), ("resume", "start their jobs again")):
        command = verb(verbs, name, text, run_later(_QUEUES, f"{name}_queues"))
        command.add_argument("queue", nargs="+")
        add_who(command, required=False)
    change = verb(verbs, "set", "give a queue other limits; what is not named stays", run_later(_QUEUES, "set_queue"))
    change.add_argument("queue")
    change.add_argument("--rate", type=_rate, metavar="N[/S]", help=f"N starts in S seconds (1); {NONE}: no limit")
    change.add_argument("--concurrency", type=_limit, metavar="N", help=f"jobs at once; {NONE}: no limit")
    change.add_argument("--weight", type=_limit, metavar="N", help=f"share of starts; {NONE}: 1")
    change.add_argument("--key-rate", type=_rate, metavar="N[/S]", help="of the starts with one rate key")
    change.add_argument("--key-concurrency", type=_limit, metavar="N", help="jobs with one concurrency key at once")
    help_of_budget = f"like 0.2/60+10: a fifth of the starts of 60 s (60) may be retries, and 10 (10); {NONE}: no limit"
    change.add_argument("--retry-budget", type=_budget, metavar="SHARE[/S][+N]", help=help_of_budget)
    add_who(change, required=False)


def _limit(text: str) -> Any:
    """A whole number above 0, or none."""
    return NONE if text == NONE else positive(text)


def _rate(text: str) -> Any:
    """`10`, `10/60`, or none."""
    if text == NONE:
        return NONE
    number, _, span = text.partition("/")
    try:
        per_s = float(span or "1")
    except ValueError:
        per_s = 0.0
    if not 0 < per_s < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no rate like 10, or 10/60: so many in so many seconds")
    return {"count": positive(number), "per_s": per_s}


def _budget(text: str) -> Any:
    """`0.2`, `0.2/60`, `0.2/60+10`, or none."""
    if text == NONE:
        return NONE
    rest, plus, at_least = text.partition("+")
    share, slash, window_s = rest.partition("/")
    try:
        found = {"share": float(share)} | ({"window_s": float(window_s)} if slash else {})
    except ValueError:
        found = {"share": -1.0}
    if not 0 <= found["share"] <= 1 or not 0 < found.get("window_s", 1) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no retry budget like 0.2, 0.2/60, or 0.2/60+10")
    return found | ({"at_least": count(at_least)} if plus else {})


def _in_letters(function: str) -> Any:
    return run_later("timewheel.cli.letters", function)


_JOBS, _OPERATIONS, _QUEUES = "timewheel.cli.jobs", "timewheel.cli.operations", "timewheel.cli.queues"
_DISCARD = run_later("timewheel.cli.letters", "discard")

"""From the options of the command line to the body of a request about a schedule. Pure."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from timewheel.cli.exits import USAGE, Exit

_RULE = ("cron", "days", "weeks", "anchor", "tz", "gap", "fold", "calendar", "roll")
_PLAIN = (
    *("id", "queue", "priority", "timeout_s", "misfire", "jitter_s", "start", "end", "max_runs", "if_exists"),
    *("concurrency_key", "rate_key", "partition_key", "cost"),
    *("heartbeat_timeout_s", "expires_after_s", "deadline_after_s"),
)


def rule_body(options: Namespace) -> dict[str, Any]:
    """The rule that was given; {} when none was."""
    body = {name: getattr(options, name) for name in _RULE if getattr(options, name) is not None}
    if options.every is not None:
        body["every_s"] = options.every
    if options.after_completion:
        body["after_completion"] = True
    return body


def schedule_body(options: Namespace) -> dict[str, Any]:
    """The schedule that was asked for. Raises Exit."""
    body = {"task": options.task, **rule_body(options)}
    body |= {name: getattr(options, name) for name in _PLAIN if getattr(options, name) is not None}
    if options.attempts is not None:
        body["retry"] = options.attempts
    if options.tag:
        body["tags"] = options.tag
    if options.overlap is not None:
        body["overlap"] = _overlap(options.overlap)
    body["args"] = [value_of(text) for text in options.arg]
    body["kwargs"] = dict(map(_pair, options.kwarg))
    return body | {"dry_run": options.dry_run}


def value_of(text: str) -> Any:
    """An argument: JSON where it is that, else the text as it stands.

    >>> value_of("7"), value_of('{"a": null}'), value_of("hello world")
    (7, {'a': None}, 'hello world')
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _pair(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Exit(USAGE, f"--kwarg {text}: write NAME=VALUE")
    return name, value_of(value)


def _overlap(text: str) -> str | dict[str, Any]:
    """ALLOW, or with a limit or a key ALLOW:5, SERIALIZE:key."""
    kind, colon, more = text.partition(":")
    if not colon:
        return text.upper()
    if kind.upper() == "SERIALIZE":
        return {"kind": "SERIALIZE", "key": more}
    if not more.isascii() or not more.isdecimal():
        raise Exit(USAGE, f"--overlap {text}: write ALLOW:5 or QUEUE_ALL:5 for a limit, SERIALIZE:KEY for a key")
    return {"kind": kind.upper(), "limit": int(more[:9])}

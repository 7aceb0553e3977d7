"""What the parsers of all commands share: how they refuse, the options of those that speak to a server, and numbers."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, NoReturn

from timewheel.cli.exits import USAGE, Exit


class Parser(argparse.ArgumentParser):
    """Errors of usage end with 64, and say what is possible."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """What no command knows is refused here, by the command that was given it, not by the one above."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        """Raises Exit."""
        raise Exit(USAGE, f"{message} (see {self.prog} --help)")


def verb(verbs: Any, name: str, text: str, run_it: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    """A command that speaks to a server; its function is `run_it`."""
    url = os.environ.get("TIMEWHEEL_URL", "http://127.0.0.1:8400")
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.add_argument("--url", default=url, help="the server (default: TIMEWHEEL_URL, else http://127.0.0.1:8400)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs, and nothing else, on stdout")
    parser.set_defaults(run=run_it)
    return parser


def run(command: Coroutine[Any, Any, int]) -> int:
    """Run a command on an event loop of its own."""
    return asyncio.run(command)


def run_later(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """A command whose module is imported when it runs: others must not need what it needs."""

    def run_it(options: argparse.Namespace) -> int:
        return run(getattr(import_module(module), function)(options))

    return run_it


def port(text: str) -> int:
    """A port, 0 for any."""
    return _whole(text, 0, 65_535)


def positive(text: str) -> int:
    """A whole number above 0."""
    return _whole(text, 1, 1_000_000)


def count(text: str) -> int:
    """A whole number, 0 included."""
    return _whole(text, 0, 10**9)


def _whole(text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or not least <= int(text[:12]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def seconds(text: str) -> float:
    """Seconds, at most a day."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0 to 86400")
    return value


_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_ENDS = ("completed", "cancelled", "skipped", "dead", "discarded")


def age(text: str) -> tuple[str, float]:
    """How jobs ended, and how long such are kept: `completed=7d` -> ("completed_s", 604800)."""
    state, _, rest = text.partition("=")
    number, unit = (rest[:-1], rest[-1:]) if rest[-1:] in _UNITS else (rest, "s")
    if state not in _ENDS or not number.isascii() or not number.isdecimal() or len(number) > 9:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not like completed=7d: one of {', '.join(_ENDS)}, and a number of seconds, or one with s, m, "
            f"h or d"
        )
    return f"{state}_s", float(int(number) * _UNITS[unit])

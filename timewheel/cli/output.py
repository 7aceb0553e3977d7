"""What the commands print: results on stdout, the rest on stderr. What comes from a job is shown as text only."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from timewheel.cli.logs import one_line


def say(text: str) -> None:
    """One line for a person, on stderr."""
    print(one_line(text), file=sys.stderr)


def result(text: str) -> None:
    """One line of a result, on stdout."""
    print(one_line(text))


def json_line(value: Any) -> None:
    """One JSON document on a line of its own, on stdout."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table on stdout, as wide as the terminal; in a pipe as wide as it needs to be."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else 400, highlight=False, markup=False, emoji=False)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold" if column == "id" else "ellipsis", no_wrap=column != "id")
    for row in rows:
        shown.add_row(*(Text(one_line("" if cell is None else str(cell))) for cell in row))
    console.print(shown)


def facts(values: Mapping[str, Any]) -> None:
    """Names and values, one pair a line, on stdout; further lines of a text stand under its first."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for line in text.splitlines() or [""]:
            print(f"{name:<{width}}  {one_line(line)}")
            name = ""

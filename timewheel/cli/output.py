"""What the commands print: results on stdout, the rest on stderr. What comes from a job is shown as text only."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from timewheel.cli.logs import one_line

MOST_PADDED = 40  # characters of a column in a pipe; a longer cell moves the rest of its row


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
    """A table on stdout, as wide as the terminal; in a pipe nothing is cut, and nothing follows the last column."""
    texts = [[one_line("" if cell is None else str(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        _plain_table([list(columns), *texts])
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold" if column == "id" else "ellipsis", no_wrap=column != "id")
    for row in texts:
        shown.add_row(*map(Text, row))
    console.print(shown)


def _plain_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [min(max(map(len, column)), MOST_PADDED) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def facts(values: Mapping[str, Any]) -> None:
    """Names and values, one pair a line, on stdout; further lines of a text stand under its first."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for line in text.splitlines() or [""]:
            print(f"{name:<{width}}  {one_line(line)}")
            name = ""

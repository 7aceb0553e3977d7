"""What `jobs list` and `schedules list` share: page after page of a collection, as a table or as JSON lines."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from timewheel.cli import output
from timewheel.cli.client import Client
from timewheel.cli.exits import OK

_PAGE = 1_000


async def show_list(
    options: Namespace,
    path: str,
    conditions: Sequence[str],
    columns: Sequence[str],
    row: Callable[[dict[str, Any]], tuple[Any, ...]],
    nothing: str,
) -> int:
    """Those that match `options` (state, and each of `conditions`), at most `--limit` of them (0: all).

    `nothing` is what people read when there is none.
    """
    query: dict[str, str | list[str]] = {"page_size": str(min(options.limit or _PAGE, _PAGE))}
    if options.state:
        query["state"] = options.state
    for name in conditions:
        if getattr(options, name) is not None:
            query[name] = getattr(options, name)
    rows: list[tuple[Any, ...]] = []
    shown = 0
    async with Client(options.url) as client:
        async for item in client.pages(path, query):
            if options.json:
                output.json_line(item)
            else:
                rows.append(row(item))
            shown += 1
            if shown == options.limit:
                break
    if rows:
        output.table(columns, rows)
    elif not options.json:
        output.say(nothing)
    return OK

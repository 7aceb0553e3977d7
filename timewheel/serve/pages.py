"""The answer that every list gives: the items of a page, shown a few in a turn of the event loop, and how to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from timewheel.serve.views import json_response

if TYPE_CHECKING:
    from starlette.responses import Response

    from timewheel.handles import Page

T = TypeVar("T")


async def page_response(page: Page[T], view: Callable[[T], dict[str, Any]], at_a_time: int) -> Response:
    """The page as JSON; `at_a_time` of its items take a few milliseconds."""
    items: list[dict[str, Any]] = []
    for start in range(0, len(page), at_a_time):
        items += map(view, page.items[start : start + at_a_time])
        await asyncio.sleep(0)
    return json_response({"items": items, "next_page_token": page.next_page_token})

"""A bound in virtual time for what must end: a scheduler that leaves callers without an answer would go on for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from timewheel.testing.invariants import Violated

LAST_WORD_S = 1  # whoever waited for a scheduler that has stopped has been told by then
STOP_S = 600  # after its grace a stop has ended by then, whatever the journal does
PEACE_S = 10_000  # beyond all bounds of peace together


async def ends_within(limit_s: float, work: Awaitable[None], what: str) -> None:
    """Await `work`, of which `what` is a name. I29: it ends within `limit_s`."""
    myself = asyncio.current_task()
    assert myself is not None, "it runs in a task"
    late = asyncio.get_running_loop().call_later(limit_s, myself.cancel)
    try:
        await work
    except asyncio.CancelledError:
        raise Violated("I29", f"{what} had not ended after {limit_s:.0f} s") from None
    finally:
        late.cancel()

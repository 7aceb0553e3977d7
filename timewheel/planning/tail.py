"""Where the newest so-many slots of a stretch begin.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from timewheel.planning.drafts import Span
from timewheel.planning.slots import Slots


def newest_from(slots: Slots, span: Span, most: int) -> int:
    """The first of the newest `most` slots of the span; `most` is at least 1 and at most span.count."""
    low, high = _stretch(slots, span, most)
    while low < high:
        middle = (low + high) // 2
        if slots.count(middle, span.last) >= most:
            low = middle + 1
        else:
            high = middle
    return low


def _stretch(slots: Slots, span: Span, most: int) -> tuple[int, int]:
    """Where to look for it: first as near to the end as slots usually lie apart, so that counting stays cheap."""
    width = 2 * most * max(1, (span.last - span.first) // span.count)
    high = span.last
    while span.last - width > span.first:
        low = span.last - width
        if slots.count(low, span.last) >= most:
            return low, high
        high, width = low, width * 4
    return span.first, high

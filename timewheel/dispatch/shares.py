"""Who may claim how many, when there is room for fewer than could start? Queues share by their weights. Pure.

Start-time fair queueing (Goyal, Vin and Cheng, 1996) with starts of one size: each queue has a *tag*, which a start
moves on by 1/weight, and the least tag goes first. A queue that did not ask when others did begins at the least tag of
these (or at that of the last start, if that is more), so that nobody saves up turns while idle; one that is ahead of
it, because it had its turns, keeps its tag. Of equal tags a newcomer's comes last: nobody who waits is overtaken by a
stream of them.

The tags of two queues that both could use more than they get the whole time never differ by more than a start of the
one that is ahead. So in any such stretch, whatever others do meanwhile:

    | starts of A / weight of A - starts of B / weight of B |  <=  1 / weight of A + 1 / weight of B

While there is room for all, nobody is counted.

Worked example, mail of weight 3 and reports of weight 1, one slot, all tags at 0: mail and reports have a turn each
(tags 1/3 and 1), then mail has two more (tag 1): of every four starts three are mail's.

Tags are counted in `UNIT`s, rounded down a start: a share is wrong by less than one in a billion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heapreplace

UNIT = 1 << 40  # what a start of a queue of weight 1 moves its tag on by


class Shares:
    """See the module. Only queues whose tags are ahead of the clock, or who asked at last, are remembered."""

    def __init__(self) -> None:
        self._weights: dict[str, int] = {}
        self._tags: dict[str, int] = {}
        self._asking: frozenset[str] = frozenset()
        self._clock = 0

    def weigh(self, queue: str, weight: int) -> None:
        """This queue weighs so much from now on; 1 until it is said."""
        self._weights.pop(queue, None)
        if weight != 1:
            self._weights[queue] = weight

    def divide(self, room: int, wants: Mapping[str, int], others: Collection[str] = ()) -> dict[str, int]:
        """How many of `room` each queue gets, of those that it `wants` (above 0); what each gets counts as started.

        Of equal tags newcomers' come last; otherwise the order is that of `wants`. `others`: queues that could use
        more, but not now (a claim of theirs is under way): they keep their places.
        """
        if not others and sum(wants.values()) <= room:
            self._tags.clear()
            self._asking = frozenset()
            return dict(wants)
        newcomers = {*wants, *others} - self._asking
        self._admit({*wants, *others})
        heap = [(self._tags[queue], queue in newcomers, place, queue) for place, queue in enumerate(wants)]
        heapify(heap)
        return self._serve(room, heap, wants)

    def give_back(self, queue: str, starts: int) -> None:
        """So many that were counted did not start."""
        if queue in self._tags:
            self._tags[queue] -= starts * self._step(queue)

    def _step(self, queue: str) -> int:
        return UNIT // self._weights.get(queue, 1)

    def _admit(self, asking: Collection[str]) -> None:
        kept = {queue: self._tags[queue] for queue in self._asking if queue in asking}
        begin = max(self._clock, min(kept.values(), default=0))
        ahead = {queue: tag for queue, tag in self._tags.items() if tag > begin}
        self._tags = {**dict.fromkeys(asking, begin), **ahead, **kept}
        self._asking = frozenset(asking)

    def _serve(self, room: int, heap: list[tuple[int, bool, int, str]], wants: Mapping[str, int]) -> dict[str, int]:
        given: dict[str, int] = {}
        while room > 0 and heap:
            tag, new, place, queue = heap[0]
            starts = min(room, wants[queue] - given.get(queue, 0)) if len(heap) == 1 else 1
            room -= starts
            given[queue] = given.get(queue, 0) + starts
            step = self._step(queue)
            self._clock = max(self._clock, tag + (starts - 1) * step)
            self._tags[queue] = tag + starts * step
            if given[queue] == wants[queue]:
                heappop(heap)
            else:
                heapreplace(heap, (self._tags[queue], new, place, queue))
        return given

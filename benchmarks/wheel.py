"""What does a timer cost in the wheel, in a heap, and in the event loop's own call_at?

    python -m benchmarks.wheel [--full]

Dues are random over the next five minutes; then a made-up clock walks through them in steps in which about a hundred
fire. Bytes an entry are traced while up to 10**6 entries are inserted, the integers they keep alive included. The
longest call is the longest single step: one `advance` of the wheel, all pops that were due of a heap, one turn of the
loop. All times are processor time of the thread, so that a busy neighbour does not count. The loop's firing time
includes running an empty callback: it has no other way to fire.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from time import thread_time_ns

from timewheel.wheel.wheel import Wheel

NOW_US = 1_750_000_000_000_000
SPAN_US = 300_000_000
FIRST_ID = 5 << 40
PAGE = 10_000
LIMIT = 1_000
A_STEP = 100

SIZES = (10_000, 100_000, 1_000_000)
FULL_SIZES = (*SIZES, 10_000_000)
LOOP_MOST = 1_000_000
"""The loop is left out above this: it needs some 400 bytes a timer."""


class OneByOne:
    """The wheel, one insert a timer."""

    name = "wheel.insert"
    in_order = False

    def __init__(self) -> None:
        self.wheel = Wheel(NOW_US)

    def fill(self, dues: Sequence[int]) -> None:
        """Insert all."""
        insert, job_id = self.wheel.insert, FIRST_ID
        for due_us in dues:
            insert(due_us, job_id, 1)
            job_id += 1

    def fire(self, clock: Sequence[int]) -> Iterator[int]:
        """Fire all; yields after every call how many came."""
        wheel = self.wheel
        for now_us in clock:
            yield len(wheel.advance(now_us, LIMIT))
            while wheel.behind(now_us):
                yield len(wheel.advance(now_us, LIMIT))


class Pages(OneByOne):
    """The wheel, filled as the loader fills it: in pages in due order."""

    name = "wheel.extend"
    in_order = True

    def fill(self, dues: Sequence[int]) -> None:
        """Insert all."""
        for at in range(0, len(dues), PAGE):
            page = dues[at : at + PAGE]
            self.wheel.extend(page, range(FIRST_ID + at, FIRST_ID + at + len(page)), 1)


class Heap:
    """heapq of (due_us, job_id, lane)."""

    name = "heapq"
    in_order = False

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int]] = []

    def fill(self, dues: Sequence[int]) -> None:
        """Insert all."""
        heap, push, job_id = self.heap, heapq.heappush, FIRST_ID
        for due_us in dues:
            push(heap, (due_us, job_id, 1))
            job_id += 1

    def fire(self, clock: Sequence[int]) -> Iterator[int]:
        """Fire all; yields after every step how many came."""
        heap, pop = self.heap, heapq.heappop
        for now_us in clock:
            fired = []
            while heap and heap[0][0] <= now_us:
                fired.append(pop(heap))
            yield len(fired)


class Loop:
    """loop.call_at of asyncio's own loop, on the made-up clock."""

    name = "call_at"
    in_order = False

    def __init__(self) -> None:
        self.loop = asyncio.SelectorEventLoop()
        self.now_us = NOW_US
        self.fired = 0
        self.loop.time = lambda: self.now_us / 1e6  # type: ignore[method-assign]

    def _run(self, job_id: int, lane: int) -> None:
        self.fired += 1

    def fill(self, dues: Sequence[int]) -> None:
        """Insert all."""
        call_at, run, job_id = self.loop.call_at, self._run, FIRST_ID
        for due_us in dues:
            call_at(due_us / 1e6, run, job_id, 1)
            job_id += 1

    def fire(self, clock: Sequence[int]) -> Iterator[int]:
        """Fire all; yields after every turn of the loop how many came."""
        loop = self.loop
        for self.now_us in clock:
            self.fired = 0
            loop.call_soon(loop.stop)
            loop.run_forever()
            yield self.fired
        loop.close()


Contender = OneByOne | Heap | Loop


def measure(make: Callable[[], Contender], entries: int) -> dict[str, object]:
    """One row: fill, fire, and, in a second filling, trace."""
    rng = random.Random(entries)
    dues = [NOW_US + rng.randrange(SPAN_US) for _ in range(entries)]
    contender = make()
    if contender.in_order:
        dues = [
            due_us + 1 for due_us in sorted(dues)
        ]  # new integers, side by side in memory like those of a fresh page
    gc.collect()
    before = thread_time_ns()
    contender.fill(dues)
    insert_ns = thread_time_ns() - before
    steps = entries // A_STEP
    clock = [NOW_US + SPAN_US * step // steps for step in range(1, steps + 1)]
    fired, fire_ns, longest_ns = walk(contender, [*clock, NOW_US + SPAN_US + 1_000_000])
    assert fired == entries, f"{contender.name} fired {fired} of {entries}"
    return {
        "structure": contender.name,
        "entries": entries,
        "insert_ns": round(insert_ns / entries),
        "fire_ns": round(fire_ns / entries),
        "bytes_an_entry": round(traced(make(), dues[:LOOP_MOST] if entries > LOOP_MOST else dues), 1),
        "longest_call_ms": round(longest_ns / 1e6, 2),
    }


def walk(contender: Contender, clock: Sequence[int]) -> tuple[int, int, int]:
    """(entries fired, nanoseconds of all calls, of the longest one)."""
    fired = total = longest = 0
    before = thread_time_ns()
    for count in contender.fire(clock):
        took = thread_time_ns() - before
        fired += count
        total += took
        longest = max(longest, took)
        before = thread_time_ns()
    return fired, total, longest


def traced(contender: Contender, dues: Sequence[int]) -> float:
    """Bytes an entry that are held after filling, own copies of the dues included."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for at in range(0, len(dues), PAGE):
        contender.fill([due_us + 1 for due_us in dues[at : at + PAGE]])
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    if isinstance(contender, Loop):
        contender.loop.close()
    return held / len(dues)


def run(full: bool = False) -> list[dict[str, object]]:
    """All rows: nanoseconds an insert and a fired entry, bytes an entry, the longest single call."""
    rows = []
    for entries in FULL_SIZES if full else SIZES:
        for make in (OneByOne, Pages, Heap, Loop):
            if make is not Loop or entries <= LOOP_MOST:
                rows.append(measure(make, entries))
                gc.collect()
    return rows


def main() -> None:
    """Print the table."""
    print(f"Python {sys.version.split()[0]}; processor time in ns an entry")
    rows = run("--full" in sys.argv[1:])
    print("  ".join(f"{name:>15}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{cell:>15}" for cell in row.values()))


if __name__ == "__main__":
    main()

"""How many slots a schedule has in each of many equal stretches of time, without visiting each where there are many.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from timewheel.model import MAX_TIME_US, ClockKind, Now
from timewheel.planning.definition import Definition
from timewheel.planning.slots import Slots, offset_us, slots_of
from timewheel.recurrence.interval import Every
from timewheel.recurrence.rule import Rule
from timewheel.schedule_records import Position

Count = Callable[[int, int], int]


class Window(NamedTuple):
    """Buckets of `bucket_us` from `start_us` on, `buckets` of them; wall microseconds."""

    start_us: int
    bucket_us: int
    buckets: int

    @property
    def end_us(self) -> int:
        """The first instant after the last bucket."""
        return self.start_us + self.buckets * self.bucket_us

    def bucket_of(self, instant_us: int) -> int | None:
        """The number of the bucket that an instant falls into; None: into none."""
        number = (instant_us - self.start_us) // self.bucket_us
        return number if 0 <= number < self.buckets else None


def foreseen(definition: Definition, position: Position, now: Now, window: Window) -> Iterator[tuple[int, int]]:
    """(bucket, slots) of each bucket in which the schedule has slots, in order; each step counts once or twice.

    Only slots that are still to come. Of a fixed delay at most the one that is known. `max_runs` ends it.
    """
    shift = offset_us(now) if position.clock is ClockKind.STEADY else 0
    before = 0
    if definition.fixed_delay:
        known = None if position.next_at is None else window.bucket_of(position.next_at + shift)
        found = iter(()) if known is None else iter([(known, 1)])
    else:
        slots = slots_of(definition, position, now)
        begun = max(position.at, now.on(position.clock))

        def count(first: int, end: int) -> int:
            after = max(window.start_us + first * window.bucket_us - 1 - shift, begun)
            until = window.start_us + end * window.bucket_us - 1 - shift
            return slots.count(after, until) if until > after else 0

        after = max(window.start_us - 1 - shift, begun)
        if isinstance(slots.rule, Every):
            found = _spaced(slots, slots.rule.interval_us, after, window, shift)
        elif (total := count(0, window.buckets)) <= window.buckets:
            found = _visited(slots, after, window, shift)
        else:
            found = _split(0, window.buckets, total, count)
        if definition.max_runs is not None and window.start_us - 1 - shift > begun:
            before = slots.count(begun, window.start_us - 1 - shift)
    return found if definition.max_runs is None else _at_most(found, definition.max_runs - position.made - before)


def shared_key(definition: Definition, position: Position, now: Now) -> tuple[Rule, int | None, int | None] | None:
    """Schedules with the same key have the same slots to come; None: this one is like no other."""
    alone = definition.max_runs is not None or position.clock is ClockKind.STEADY or position.at > now.wall_us
    return None if alone else (definition.rule, definition.start_us, definition.end_us)


def _split(first: int, end: int, total: int, count: Count) -> Iterator[tuple[int, int]]:
    """Halve the buckets [first, end), which have `total` slots, until each part is empty or one bucket."""
    waiting = [(first, end, total)]
    while waiting:
        first, end, total = waiting.pop()
        if total == 0:
            continue
        if end - first == 1:
            yield first, total
            continue
        middle = (first + end) // 2
        left = count(first, middle)
        waiting += [(middle, end, total - left), (first, middle, left)]


def _spaced(slots: Slots, interval_us: int, after: int, window: Window, shift: int) -> Iterator[tuple[int, int]]:
    """Of slots at equal distances: reckoned, bucket by bucket."""
    slot = slots.first(after)
    last = min(slots.within(window.end_us - 1 - shift), MAX_TIME_US)
    while slot is not None and slot <= last:
        bucket = (slot + shift - window.start_us) // window.bucket_us
        end = window.start_us + (bucket + 1) * window.bucket_us - shift
        number = (min(end - 1, last) - slot) // interval_us + 1
        yield bucket, number
        slot += number * interval_us


def _visited(slots: Slots, after: int, window: Window, shift: int) -> Iterator[tuple[int, int]]:
    """Visit the slots one by one: less work than halving the buckets where most of them are empty."""
    bucket, number = -1, 0
    while (slot := slots.first(after)) is not None and (here := window.bucket_of(slot + shift)) is not None:
        after = slot
        if here != bucket and number:
            yield bucket, number
            number = 0
        bucket, number = here, number + 1
    if number:
        yield bucket, number


def _at_most(found: Iterator[tuple[int, int]], left: int) -> Iterator[tuple[int, int]]:
    for bucket, slots in found:
        if left <= 0:
            return
        yield bucket, min(slots, left)
        left -= slots

"""Levels of 64 slots of packed entries, each with one word that says which slots hold any, and where an entry goes.

A tick read in base 64 has one digit a level. As seen from the tick `now`, a later tick belongs to the level of the
highest digit in which the two differ, and there to the slot of its own digit.

An entry is 24 bytes in its slot's buffer: due_us, job_id and lane, a signed 64-bit integer each. Three equal fields,
because a buffer of them is also a plain array of integers: pages are packed, and their due instants read, by strided
copies in C. A buffer grows by an eighth at a time; an empty slot is None and costs a pointer.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from operator import le
from typing import TypeAlias

Entry: TypeAlias = tuple[int, int, int]
"""(due_us, job_id, lane)"""

ENTRY = struct.Struct("=qqq")
ENTRY_BYTES = ENTRY.size
SLOT_BITS = 6
SLOTS = 1 << SLOT_BITS

PLACE = [(level, level * SLOT_BITS) for level in (max(bits - 1, 0) // SLOT_BITS for bits in range(65))]
"""For the number of bits in which two ticks differ: the level of their highest differing digit, and its shift."""

_RUN = 512  # shorter ascending blocks are placed entry by entry: cutting a block into slots costs by the slot

_entries_of, _unpack = ENTRY.iter_unpack, ENTRY.unpack
_records_of = struct.Struct(f"{ENTRY_BYTES}s").iter_unpack


class Level:
    """64 slots, each as wide as a turn of the level below; `shift` moves this level's digit to the units place."""

    __slots__ = ("occupied", "shift", "slots")

    def __init__(self, index: int) -> None:
        self.shift = index * SLOT_BITS
        self.slots: list[bytearray | None] = [None] * SLOTS
        self.occupied = 0
        """Bit d is set exactly while slot d holds entries, so that empty slots are never looked at."""

    def add(self, digit: int, block: bytes | bytearray | memoryview) -> None:
        """Append packed entries to the slot `digit`."""
        slot = self.slots[digit]
        if slot is None:
            self.slots[digit] = bytearray(block)
            self.occupied |= 1 << digit
        else:
            slot += block

    def first(self) -> int:
        """The lowest digit whose slot holds entries; the level must not be empty."""
        return (self.occupied & -self.occupied).bit_length() - 1

    def take(self, digit: int) -> bytearray:
        """Empty the slot `digit` and return what it held, at least one entry."""
        slot = self.slots[digit]
        assert slot, "a bit was set for an empty slot"
        self.slots[digit] = None
        self.occupied ^= 1 << digit
        return slot

    def start(self, tick: int, digit: int) -> int:
        """The first tick of the slot `digit` in the turn of this level that holds `tick`."""
        turn = self.shift + SLOT_BITS
        return (tick >> turn << turn) + (digit << self.shift)


def pack(dues: Sequence[int], job_ids: Sequence[int], lane: int) -> bytearray:
    """Entries of one lane as one block, in the order given."""
    count = len(dues)
    block = bytearray(count * ENTRY_BYTES)
    with memoryview(block).cast("q") as fields:
        fields[0::3] = memoryview(struct.pack(f"={count}q", *dues)).cast("q")
        fields[1::3] = memoryview(struct.pack(f"={count}q", *job_ids)).cast("q")
        fields[2::3] = memoryview(struct.pack("=q", lane) * count).cast("q")
    return block


def dues_of(block: bytes | bytearray) -> list[int]:
    """The due_us of every entry of a block, in order."""
    with memoryview(block).cast("q") as fields, fields[0::3] as dues:
        return dues.tolist()


def level_at(levels: list[Level], index: int) -> Level:
    """The level `index`, made now if it is the first time that something lies so far away."""
    while index >= len(levels):
        levels.append(Level(len(levels)))
    return levels[index]


def place(levels: list[Level], now: int, tick_us: int, dues: Sequence[int], block: bytearray) -> list[Entry]:
    """Put a block of entries, with these dues, where they belong as seen from the tick `now`.

    Returns those that belong nowhere, as their tick is not after `now`.
    """
    if len(dues) >= _RUN and all(map(le, dues, islice(dues, 1, None))):
        return _place_run(levels, now, tick_us, dues, block)
    return _place_each(levels, now, tick_us, dues, block)


def _place_run(levels: list[Level], now: int, tick_us: int, dues: Sequence[int], block: bytearray) -> list[Entry]:
    """Place an ascending block: cut it where slots end."""
    at, end = bisect_left(dues, (now + 1) * tick_us), len(dues)
    late: list[Entry] = list(_entries_of(memoryview(block)[: at * ENTRY_BYTES]))
    while at < end:
        tick = dues[at] // tick_us
        index, shift = PLACE[(tick ^ now).bit_length()]
        after = bisect_left(dues, ((tick >> shift) + 1 << shift) * tick_us, at)
        piece = memoryview(block)[at * ENTRY_BYTES : after * ENTRY_BYTES]
        level_at(levels, index).add(tick >> shift & 63, piece)
        at = after
    return late


def _place_each(levels: list[Level], now: int, tick_us: int, dues: Sequence[int], block: bytearray) -> list[Entry]:
    """Place a block in any order."""
    late: list[Entry] = []
    last = max(dues, default=0) // tick_us
    if last > now:
        level_at(levels, PLACE[(last ^ now).bit_length()][0])
    for due_us, (record,) in zip(dues, _records_of(block), strict=True):
        tick = due_us // tick_us
        if tick <= now:
            late.append(_unpack(record))
            continue
        index, shift = PLACE[(tick ^ now).bit_length()]
        level = levels[index]
        digit = tick >> shift & 63
        slot = level.slots[digit]
        if slot is None:
            level.add(digit, record)
        else:
            slot += record
    return late

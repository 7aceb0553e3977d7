"""The timing wheel: which jobs are due now, and when to ask again. Pure: it is told the time and never sleeps.

**How it works.** Time is cut into ticks (1 ms). Read in base 64, a tick is a row of digits, one a level. The wheel
stands at a tick; an entry is kept on the level of the highest digit in which its tick differs from that tick, in the
slot of that digit. So all of level 0 comes before all of level 1, and so on, and the next thing to happen is always
the first occupied slot of the first occupied level: one bit operation, however far away it is. Eight levels reach the
year 9999.

When the time of a slot comes, the wheel steps to its first tick and opens it. A slot with few entries (`PORTION`) is
sorted into `near`, a short sorted list. One with many is spread over the levels below, a portion a step (the
cascade), so that what is sorted is small. Whatever has been reached fires from `near` once its own microsecond has
come: a slot says when to look, never when to fire. So an entry fires at the first `advance` at or after its due_us:
never early, and no later than the caller asks.

An entry whose tick is not after the wheel's (past, now, or in a slot already opened) goes to `late`, a heap; it
fires at the next `advance`. What one call returns is in the order (due_us, job_id, lane) and, as long as nothing
earlier is inserted in between, so is the row of all calls.

    >>> wheel = Wheel(now_us=0)                  # at tick 0; a tick is 1,000 us
    >>> wheel.insert(5_500, 1, 0)                # tick 5: level 0, slot 5
    >>> wheel.insert(70_000, 2, 0)               # tick 70 = 1 * 64 + 6: level 1, slot 1
    >>> wheel.insert(64_200, 3, 0)               # tick 64 = 1 * 64 + 0: level 1, slot 1, too
    >>> wheel.next_due_us()
    5500
    >>> wheel.advance(5_499, limit=10), wheel.advance(5_500, limit=10)
    ([], [(5500, 1, 0)])
    >>> wheel.insert(5_200, 4, 0)                # the wheel is at tick 5 already: late, so it fires next
    >>> wheel.advance(64_000, limit=10)          # opens slot 1 of level 1: both entries are near, neither is due
    [(5200, 4, 0)]
    >>> wheel.next_due_us(), len(wheel)
    (64200, 2)
    >>> wheel.advance(10**15, limit=1)           # a jump of 31 years costs what the entries cost, at most `limit`
    [(64200, 3, 0)]
    >>> wheel.behind(10**15)
    True
    >>> wheel.advance(10**15, limit=1), wheel.behind(10**15), wheel.next_due_us()
    ([(70000, 2, 0)], False, None)

**What it costs.** 24 bytes an entry in its slot, up to an eighth more for growth; about 200 while it is near or late,
when it is a tuple. A call works on at most about `limit` entries and two portions, plus the part of `near` it merges
with (a portion a level at the very worst). More than `PORTION` entries in one tick go through the heap, which costs
several times as much an entry. Nothing is deleted: an entry that no longer matters is recognised when it fires.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import itemgetter

from .level import ENTRY, ENTRY_BYTES, PLACE, Entry, Level, dues_of, level_at, pack, place

PORTION = 4_096
"""The most entries that are sorted or cascaded in one step, and the least budget of a call."""

_EXACT = 64  # slots up to this size are searched for their earliest entry, which spares a wake-up just to open them
_FEW = 16  # packing a block has a fixed cost that fewer entries do not earn back
_NEVER = 1 << 80  # an instant after every other

_pack_entry, _entries_of = ENTRY.pack, ENTRY.iter_unpack
_due_of = itemgetter(0)


class Wheel:
    """Entries (due_us, job_id, lane) by due_us; duplicates are kept. Not thread-safe; nothing here survives a crash.

    `now_us` is the instant to start from, not negative; `tick_us` the width of a tick.
    """

    __slots__ = ("_late", "_len", "_levels", "_near", "_opening", "_tick", "_tick_us", "last_work")

    def __init__(self, now_us: int, *, tick_us: int = 1000) -> None:
        if now_us < 0 or tick_us < 1:
            raise ValueError(f"now_us must not be negative and tick_us at least 1, not {now_us} and {tick_us}")
        self._tick_us = tick_us
        self._tick = now_us // tick_us
        self._levels: list[Level] = []
        self._near: list[Entry] = []  # sorted
        self._late: list[Entry] = []  # a heap
        self._opening: bytearray | None = None  # what is left of a large slot; it starts at self._tick
        self._len = 0
        self.last_work = 0
        """How many entries the last `advance` moved, sorted, merged or fired."""

    def insert(self, due_us: int, job_id: int, lane: int) -> None:
        """Add an entry due at any instant below 2**63 us. O(1); a past one is O(log n), and fires next."""
        now = self._tick
        tick = due_us // self._tick_us
        if tick <= now:
            heappush(self._late, (due_us, job_id, lane))
        else:
            level, shift = PLACE[(tick ^ now).bit_length()]
            digit = tick >> shift & 63
            try:
                slot = self._levels[level].slots[digit]
            except IndexError:
                slot = None
            if slot is None:
                level_at(self._levels, level).add(digit, _pack_entry(due_us, job_id, lane))
            else:
                slot += _pack_entry(due_us, job_id, lane)
        self._len += 1

    def extend(self, dues: Sequence[int], job_ids: Sequence[int], lane: int) -> None:
        """Add entries of one lane. Several times faster than `insert` if `dues` ascend, as a page of an index does."""
        if len(dues) != len(job_ids):
            raise ValueError(f"{len(dues)} dues for {len(job_ids)} job_ids")
        if len(dues) < _FEW:
            for due_us, job_id in zip(dues, job_ids, strict=True):
                self.insert(due_us, job_id, lane)
        else:
            self._place(dues, pack(dues, job_ids, lane))
            self._len += len(dues)

    def advance(self, now_us: int, limit: int) -> list[Entry]:
        """Take out the first entries with due_us <= now_us, at most `limit` (at least 1), in order.

        The work is bounded too, cascades included, so fewer, or none, may come although more are due: call again
        while `behind(now_us)`. A `now_us` below an earlier one is allowed and fires only what is due by then.
        """
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        budget = max(limit, PORTION)
        edge = self._edge_us()
        work = self._bring_late(min(now_us, edge - 1), limit) if self._late else 0
        while edge <= now_us and work < budget and not self._has_before(edge, limit):
            work += self._open()
            edge = self._edge_us()
        if edge > now_us:
            # Nothing is kept between the wheel's tick and this one, so every entry's highest differing digit stays.
            self._tick = max(self._tick, now_us // self._tick_us)
        reached = min(now_us, edge - 1)
        if self._late:
            work += self._bring_late(reached, limit)
        count = min(len(self._near), limit)
        if count and self._near[count - 1][0] > reached:
            count = bisect_right(self._near, reached, 0, count, key=_due_of)
        fired = self._near[:count]
        del self._near[:count]
        self._len -= count
        self.last_work = work + count
        return fired

    def behind(self, now_us: int) -> bool:
        """Whether `advance(now_us)` has more to do: it stopped at its budget, or something due was inserted since."""
        return self._edge_us() <= now_us or self._first_known_us() <= now_us

    def next_due_us(self) -> int | None:
        """When to call `advance` next; None when empty. Never late.

        Exact while the first occupied slot holds few entries; else perhaps early, by less than that slot's width.
        """
        due, edge = self._first_known_us(), self._edge_us()
        if edge < due:
            level = None if self._opening else self._first_level()
            slot = level.slots[level.first()] if level else None
            if slot and len(slot) <= _EXACT * ENTRY_BYTES:
                edge = min(dues_of(slot))
            due = min(due, edge)
        return due if due < _NEVER else None

    def __len__(self) -> int:
        return self._len

    def entries(self) -> Iterator[Entry]:
        """All entries, in no particular order; for tests and inspection."""
        yield from self._near
        yield from self._late
        yield from _entries_of(self._opening or b"")
        for level in self._levels:
            for slot in level.slots:
                yield from _entries_of(slot or b"")

    def _first_level(self) -> Level | None:
        for level in self._levels:
            if level.occupied:
                return level
        return None

    def _edge_us(self) -> int:
        """The start of the first slot that is not wholly opened: what is due before it is in `near` or `late`."""
        if self._opening:
            return self._tick * self._tick_us
        level = self._first_level()
        return level.start(self._tick, level.first()) * self._tick_us if level else _NEVER

    def _first_known_us(self) -> int:
        near, late = self._near, self._late
        due = near[0][0] if near else _NEVER
        return late[0][0] if late and late[0][0] < due else due

    def _has_before(self, edge_us: int, count: int) -> bool:
        return len(self._near) >= count and self._near[count - 1][0] < edge_us

    def _open(self) -> int:
        """Step to the first slot and open it, or one portion of it; return the work done."""
        block = self._opening
        if block is None:
            level = self._first_level()
            assert level
            digit = level.first()
            self._tick = level.start(self._tick, digit)
            block = level.take(digit)
            if len(block) <= PORTION * ENTRY_BYTES:
                return self._merge(sorted(_entries_of(block)))
        # From the end, so that what remains need not be moved. Entries of the very tick stepped to become late ones.
        portion = block[-PORTION * ENTRY_BYTES :]
        del block[-PORTION * ENTRY_BYTES :]
        self._opening = block or None
        self._place(dues_of(portion), portion)
        return len(portion) // ENTRY_BYTES

    def _merge(self, rows: list[Entry]) -> int:
        """Merge sorted rows into `near`; return the work done."""
        near = self._near
        if not near or near[-1] <= rows[0]:
            near += rows
            return len(rows)
        low = bisect_left(near, rows[0])
        high = bisect_right(near, rows[-1], low)
        rows += near[low:high]
        rows.sort()  # two sorted runs: a merge
        near[low:high] = rows
        return len(rows)

    def _bring_late(self, reached_us: int, limit: int) -> int:
        """Move to `near` the late entries that are due and belong among its first `limit`; return the work done."""
        near, late = self._near, self._late
        rows: list[Entry] = []
        while late and late[0][0] <= reached_us and (room := limit - len(rows)):
            if room <= len(near) and near[room - 1] <= late[0]:
                break
            rows.append(heappop(late))
        return self._merge(rows) if rows else 0

    def _place(self, dues: Sequence[int], block: bytearray) -> None:
        for entry in place(self._levels, self._tick, self._tick_us, dues, block):
            heappush(self._late, entry)

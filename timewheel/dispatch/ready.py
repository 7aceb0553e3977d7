"""Which due job goes first? One queue a lane, and the order among the lanes of a queue.

Inside a lane the order is (due_at, id). Among the lanes of a queue the head with the least *key* goes first:

    key = due_at (on the wall scale) + priority * aging

A steady due time is put on the wall scale with the present offset (wall - steady), at every take. Equal keys: the more
urgent priority first, then the lower id. So a waiting job is overtaken only by jobs of its queue that are due at most
(its priority - theirs) * aging after it, 9 * aging at the most: whatever keeps coming in at a better priority, nothing
starves.

Worked example, aging 60 s: a job of priority 9 due at 12:00 has the key 12:09; those of priority 0 due until 12:09 go
before it, the one due at 12:09:01 does not.

All this holds among the jobs of one *partition*. Those of a queue that have jobs take turns, one job each; one that had
none comes last. So between the moment at which a partition gets its first job and that job, each other partition gives
one at most: as many jobs go before it as other partitions have some, however many these have. A partition's job that is
not its first waits so long for each that goes before it in its own partition. Turns are counted as jobs are taken, also
of entries that turn out to be stale; a queue without partitions has one and pays nothing.

Entries come from the wheel nearly in order, so a lane is a deque that is only appended to, beside a heap for what comes
late (a retry, a page of the loader, a moved job). Nothing is removed out of turn: cancelled, moved and double entries
come out like all others and die at the claim.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from timewheel.model import ClockKind, Lane, Now

if TYPE_CHECKING:
    from collections.abc import Iterator

Entry = tuple[int, int, int]  # due_us on the lane's clock, job_id, lane number
Rank = tuple[int, int, int, int]  # key, priority, job_id, lane number: the order among lanes


class _Row:
    """One lane's entries: `line` is in order, `late` is a heap; the head is the lesser of the two heads.

    An entry is late because it goes before the line's last one, so `late` is empty whenever `line` is.
    """

    __slots__ = ("handicap", "lane", "late", "line", "partition", "steady")

    def __init__(self, lane: Lane, aging_us: int, partition: _Partition) -> None:
        self.lane = lane
        self.partition = partition
        self.handicap = lane.priority * aging_us
        self.steady = lane.clock is ClockKind.STEADY
        self.line: deque[Entry] = deque()
        self.late: list[Entry] = []

    def __len__(self) -> int:
        return len(self.line) + len(self.late)

    def pop(self) -> Entry:
        if self.late and self.late[0] < self.line[0]:
            return heappop(self.late)
        return self.line.popleft()

    def pop_many(self, limit: int) -> list[Entry]:
        taken: list[Entry] = []
        while self.late and len(taken) < limit:
            taken.append(self.pop())
        popleft = self.line.popleft
        taken += [popleft() for _ in range(min(limit - len(taken), len(self.line)))]
        return taken

    def rank(self, offset_us: int) -> Rank:
        head = self.late[0] if self.late and self.late[0] < self.line[0] else self.line[0]
        key = head[0] + self.handicap + (offset_us if self.steady else 0)
        return key, self.lane.priority, head[1], head[2]


class _Partition:
    """The lanes of one partition of a queue; `filled` are those that have entries."""

    __slots__ = ("filled",)

    def __init__(self) -> None:
        self.filled: list[_Row] = []

    def pop(self, offset_us: int) -> Entry:
        rows = self.filled
        row = rows[0] if len(rows) == 1 else min(rows, key=lambda row: row.rank(offset_us))
        entry = row.pop()
        if not row.line:
            rows.remove(row)
        return entry

    def pop_many(self, limit: int, offset_us: int) -> list[Entry]:
        rows = self.filled
        taken = rows[0].pop_many(limit) if len(rows) == 1 else _merge(rows, limit, offset_us)
        self.filled = [row for row in rows if row.line]
        return taken


class Ready:
    """The due jobs of every lane, by queue. `aging_us` is what one level of priority is worth, in microseconds."""

    def __init__(self, aging_us: int = 60_000_000) -> None:
        if aging_us < 0:
            raise ValueError(f"aging_us must not be negative, got {aging_us}")
        self._aging_us = aging_us
        self._rows: dict[int, _Row] = {}
        self._lines: dict[int, deque[Entry]] = {}  # each row's line once more, for `push`
        self._partitions: dict[tuple[str, str], _Partition] = {}
        self._busy: dict[str, deque[_Partition]] = {}  # the queues that have entries, longest busy first; of each the
        # partitions that have some, in turn

    def add_lane(self, lane: Lane) -> None:
        """Make a lane known; again, and nothing changes. A number keeps its meaning for ever: ValueError otherwise."""
        known = self._rows.get(lane.number)
        if known is not None:
            if known.lane != lane:
                raise ValueError(f"lane {lane.number} is {known.lane}, it cannot become {lane}")
            return
        partition = self._partitions.setdefault((lane.queue, lane.partition), _Partition())
        row = _Row(lane, self._aging_us, partition)
        self._rows[lane.number] = row
        self._lines[lane.number] = row.line

    def push(self, due_us: int, job_id: int, lane_number: int) -> None:
        """Add an entry; `due_us` counts on the lane's clock. KeyError for a lane that was not added."""
        entry = (due_us, job_id, lane_number)
        line = self._lines[lane_number]
        if not line:
            line.append(entry)
            self._fill(self._rows[lane_number])
        elif entry >= line[-1]:
            line.append(entry)
        else:
            heappush(self._rows[lane_number].late, entry)

    def _fill(self, row: _Row) -> None:
        if not row.partition.filled:
            self._busy.setdefault(row.lane.queue, deque()).append(row.partition)
        row.partition.filled.append(row)

    def take(self, queue: str, limit: int, now: Now) -> list[Entry]:
        """Remove and return up to `limit` entries of a queue, best first: (due_us, job_id, lane number) each."""
        turns = self._busy.get(queue)
        if turns is None:
            return []
        offset_us = now.wall_us - now.steady_us
        taken: list[Entry] = []
        while len(taken) < limit and len(turns) > 1:
            partition = turns.popleft()
            taken.append(partition.pop(offset_us))
            if partition.filled:
                turns.append(partition)
        if len(taken) < limit:
            taken += turns[0].pop_many(limit - len(taken), offset_us)
            if not turns[0].filled:
                del self._busy[queue]
        return taken

    def head_key(self, queue: str, now: Now) -> int | None:
        """The least key of a queue's heads, in wall microseconds; None when it has none."""
        offset = now.wall_us - now.steady_us
        return min((row.rank(offset)[0] for row in self._filled(queue)), default=None)

    def oldest(self, queue: str, now: Now) -> int | None:
        """The earliest due time of a queue on the wall scale, in microseconds; None when it has none."""
        offset = now.wall_us - now.steady_us
        return min((row.rank(offset)[0] - row.handicap for row in self._filled(queue)), default=None)

    def queues(self, served: str = "") -> list[str]:
        """The names of the queues that have entries, longest busy first; after `served` it is the next one's turn."""
        names = list(self._busy)
        turn = names.index(served) + 1 if served in self._busy else 0
        return names[turn:] + names[:turn]

    def size(self, lane_number: int) -> int:
        """How many entries a lane has."""
        return len(self._rows[lane_number])

    def queue_size(self, queue: str, most: int | None = None) -> int:
        """How many entries the lanes of a queue have together; with `most`, no more than that are counted."""
        size = 0
        for partition in self._busy.get(queue, ()):
            size += sum(map(len, partition.filled))
            if most is not None and size >= most:
                return most
        return size

    def __len__(self) -> int:
        return sum(map(self.queue_size, self._busy))

    def clear(self, lane_number: int) -> None:
        """Forget every entry of a lane (a step of its clock: the loader reads it afresh)."""
        row = self._rows[lane_number]
        if not row.line:
            return
        row.line.clear()
        row.late.clear()
        row.partition.filled.remove(row)
        if not row.partition.filled:
            turns = self._busy[row.lane.queue]
            turns.remove(row.partition)
            if not turns:
                del self._busy[row.lane.queue]

    def ids(self, lane_number: int) -> Iterator[int]:
        """The job ids in a lane as of now, in no particular order, doubles included."""
        row = self._rows[lane_number]
        return iter([entry[1] for source in (row.line, row.late) for entry in source])

    def _filled(self, queue: str) -> Iterator[_Row]:
        return (row for partition in self._busy.get(queue, ()) for row in partition.filled)


def _merge(rows: list[_Row], limit: int, offset_us: int) -> list[Entry]:
    """Up to `limit` entries of several filled lanes, by rank; a lane number is unique, so no two ranks are equal."""
    heads = [(row.rank(offset_us), row) for row in rows]
    heapify(heads)
    taken: list[Entry] = []
    while heads and len(taken) < limit:
        row = heads[0][1]
        taken.append(row.pop())
        if row.line:
            heapreplace(heads, (row.rank(offset_us), row))
        else:
            heappop(heads)
    return taken

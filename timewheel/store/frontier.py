"""How far the jobs of a lane are in memory: its frontier, and what is known to lie behind it. Pure."""

from __future__ import annotations

from timewheel.model import ZERO_KEY, DueKey, Lane

LAST_ID = (1 << 63) - 1
FAR = 1 << 62
NOTHING = DueKey(FAR, LAST_ID)
SHARED = 100_000  # ids in memory from which on the lanes of partitions get no more than FEW each
FEW = 100


def share(lane: Lane, in_memory: int, most: int) -> int:
    """How many more ids a lane may bring into memory at once: `most`, or, of the lane of a partition, an eighth of what
    is left of SHARED by those `in_memory`, at least FEW.

    So 1,000 lanes hold at most about SHARED + 1,000 * FEW ids together, and a few busy ones have full pages.
    """
    if not lane.partition:
        return most
    return min(most, max(FEW, (SHARED - in_memory) // 8))


def before(key: DueKey) -> DueKey:
    """The last key that is less."""
    return DueKey(key.due_at, key.job_id - 1)


class Book:
    """What the loader knows of a lane: every SCHEDULED job of it whose key is not above `frontier` is in memory."""

    __slots__ = ("beyond", "frontier", "generation", "heard", "lane", "page", "room", "swept")

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.frontier = ZERO_KEY
        self.beyond: DueKey | None = None  # no SCHEDULED job lies between the frontier and this key; None: not known
        self.heard = NOTHING  # the least key above the frontier that was committed since `beyond` was asked for
        self.swept = ZERO_KEY  # where the next sweep goes on: each looks at a page, so that none takes long
        self.page = FAR  # how many ids it was last given at once: with less than half of that it wants more
        self.room = 0  # how many more may be placed before the entries in memory are counted again
        self.generation = 0  # grows when the lane is reset: a page read before that is thrown away

    def lower(self, frontier: DueKey) -> None:
        """What lies above this key is only on disk."""
        self.frontier = min(self.frontier, frontier)
        self.beyond = None

    def covered(self) -> DueKey:
        """The last key of which it is known that nothing up to it is only on disk."""
        return self.frontier if self.beyond is None else max(self.frontier, before(self.beyond))

    def hear(self, key: DueKey, horizon_us: int) -> bool:
        """A job with a key above the frontier was committed; whether the frontier was lifted over it.

        It is when nothing lies between, and the job is due before the horizon.
        """
        self.heard = min(self.heard, key)
        if self.beyond is None or key > self.beyond:
            return False
        if key.due_at < horizon_us:
            self.frontier = min(before(self.beyond), DueKey(horizon_us - 1, LAST_ID))
            return True
        self.beyond = key
        return False

    def seen(self, frontier: DueKey, first: DueKey) -> None:
        """`first` was the first key above `frontier` when `heard` was last forgotten."""
        if self.frontier == frontier:  # else it was lowered meanwhile
            self.beyond = min(self.heard, first)

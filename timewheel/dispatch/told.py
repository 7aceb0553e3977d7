"""Jobs that were told an instant at which to come again, as a meter remembers them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import NamedTuple

FAR_BACK = 1_000
MOST_REMEMBERED = 100_000  # jobs, of all meters together: about 25 MB


class Told(NamedTuple):
    """A job that was told to come at `instant_us`, for so many tokens (0: it waits for another meter's)."""

    instant_us: int
    tokens: int
    partition: str = ""


class Memory:
    """How many jobs the meters that share it remember by id."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs = 0

    @property
    def is_full(self) -> bool:
        """Whether no more are to be remembered."""
        return self.jobs >= MOST_REMEMBERED


class Line:
    """Jobs that were told an instant, in the order in which they were told, and the sum of their tokens."""

    __slots__ = ("_memory", "partitions", "tokens", "who")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.partitions: dict[str, int] = {}  # how many of the tokens are for each, where there are any
        self.who: OrderedDict[int, Told] = OrderedDict()  # a plain dict is slow to tell its first after many have gone
        self.tokens = 0

    def add(self, job_id: int, told: Told) -> None:
        """A job was told an instant, for the first time or once more: then it keeps its place."""
        if (before := self.who.get(job_id)) is None:
            self._memory.jobs += 1
        else:
            self._count(before.partition, -before.tokens)
        self.who[job_id] = told
        self._count(told.partition, told.tokens)

    def drop(self, job_id: int) -> None:
        """Forget a job, if it is here."""
        if (told := self.who.pop(job_id, None)) is not None:
            self._memory.jobs -= 1
            self._count(told.partition, -told.tokens)

    def _count(self, partition: str, tokens: int) -> None:
        self.tokens += tokens
        left = self.partitions.get(partition, 0) + tokens
        if left:
            self.partitions[partition] = left
        else:
            self.partitions.pop(partition, None)

    def clear(self) -> None:
        """Forget all."""
        self._memory.jobs -= len(self.who)
        self.who.clear()
        self.partitions.clear()
        self.tokens = 0

    def before(self, job_id: int) -> int:
        """The tokens of those in front of this job; of a place far back: all, for that is not worth the search."""
        tokens = 0
        for other, told in islice(self.who.items(), FAR_BACK):
            if other == job_id:
                return tokens
            tokens += told.tokens
        return self.tokens

    def drop_absent(self, before_us: int) -> None:
        """Forget those in front whose instant has long passed."""
        while self.who:
            job_id = next(iter(self.who))
            if self.who[job_id].instant_us >= before_us:
                return
            self.drop(job_id)

"""How many more may start: concurrency and rates, of the whole scheduler and of each queue. Pure.

Rates and concurrency of tasks and keys, which are asked before the claim, are the admission's.

A job holds a *slot* of its queue and of the whole from the moment its claim is asked for until its handler has ended or
its claim came to nothing. It takes a *token* of each rate when it enters its handler. Between the two it is promised:
promised jobs count against the room for further claims, so that no more are claimed than may start in time.

Claims cost a commit, so those for the slots that will be free by then are asked for ahead: as many more as slots lately
came free in `ahead_us` (`Pace`), at most the concurrency once more. Who may *enter* is decided by what runs alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from timewheel.dispatch.admission import Admission
from timewheel.dispatch.meter import bucket_of, period_us
from timewheel.dispatch.shares import Shares

if TYPE_CHECKING:
    from timewheel.dispatch.bucket import Bucket
    from timewheel.policies import Queue, Rate
    from timewheel.safeguards import Dependency

UNLIMITED = 1_000_000
SPANS = 5
WHOLE = "*"  # the name under which the whole scheduler's limits are kept


class Pace:
    """How many slots came free lately: what will come free in as long a time again.

    Measured over `SPANS` times that time, so that a slot that comes free now and then promises nothing.
    """

    __slots__ = ("_began_us", "_lately", "freed")

    def __init__(self) -> None:
        self.freed = 0  # since the last measure
        self._began_us = 0
        self._lately = 0

    def in_span(self, now_us: int, span_us: int) -> int:
        """How many whole slots came free in `span_us`."""
        elapsed = now_us - self._began_us
        if elapsed >= SPANS * span_us > 0:
            self._lately = self.freed * span_us // elapsed
            self.freed = 0
            self._began_us = now_us
        return self._lately


class Limit:
    """The limits and the use of one queue, or of the whole."""

    __slots__ = ("bucket", "concurrency", "pace", "paused", "promised", "used")

    def __init__(self, concurrency: int | None, bucket: Bucket | None) -> None:
        self.concurrency = UNLIMITED if concurrency is None else concurrency
        self.bucket = bucket
        self.paused = False
        self.pace = Pace()
        self.used = 0  # slots held: claims asked for, claimed, running
        self.promised = 0  # of those, the ones that have not taken their token yet

    @property
    def has_slot(self) -> bool:
        """Whether fewer jobs run than may."""
        return self.used - self.promised < self.concurrency

    def room(self, now_us: int, ahead_us: int) -> int:
        """How many more may be claimed now, to start within `ahead_us`."""
        if self.paused:
            return 0
        ahead = min(self.concurrency, self.pace.in_span(now_us, ahead_us))
        room = self.concurrency + ahead - self.used
        if self.bucket is not None and room > 0:
            room = min(room, self.bucket.room(now_us, self.promised, ahead_us))
        return room


class Limits:
    """Every limit of a scheduler. Instants are steady microseconds."""

    def __init__(
        self,
        concurrency: int,
        rate: Rate | None,
        queues: Mapping[str, Queue],
        saved: Mapping[str, int],
        now_us: int,
        dependencies: Mapping[str, Dependency] | None = None,
    ) -> None:
        self._saved = saved
        self.admission = Admission(saved, dependencies, now_us)
        self.shares = Shares()
        self.whole = Limit(concurrency, bucket_of(rate, saved.get(WHOLE), now_us) if rate else None)
        self._queues: dict[str, Limit] = {}
        for name, settings in queues.items():
            self.shape(name, settings, now_us)

    def of(self, queue: str) -> Limit:
        """The limits of a queue, unlimited until it is shaped."""
        limit = self._queues.get(queue)
        if limit is None:
            limit = self._queues[queue] = Limit(None, None)
        return limit

    def shape(self, queue: str, settings: Queue, now_us: int) -> None:
        """Give a queue new limits and its weight; what it uses, what it spent and whether it is paused stay."""
        self.admission.declared.shape(queue, settings)
        self.admission.guards.shape(queue, settings.retry_budget)
        self.shares.weigh(queue, settings.weight)
        limit = self.of(queue)
        limit.concurrency = UNLIMITED if settings.concurrency is None else settings.concurrency
        rate = settings.rate
        if rate is None:
            limit.bucket = None
        elif limit.bucket is None:
            limit.bucket = bucket_of(rate, self._saved.get(queue), now_us)
        else:
            limit.bucket.rerate(rate.count, period_us(rate), rate.burst, now_us)

    def rated(self, queue: str) -> bool:
        """Whether a rate concerns the starts of a queue."""
        return self.whole.bucket is not None or self.of(queue).bucket is not None

    def room(self, queue: str, now_us: int, ahead_us: int) -> int:
        """How many jobs of a queue may be claimed now."""
        whole = self.whole.room(now_us, ahead_us)
        return min(whole, self.of(queue).room(now_us, ahead_us)) if whole > 0 else 0

    def room_of_whole(self, now_us: int, ahead_us: int) -> int:
        """How many jobs of any queue may be claimed now."""
        return self.whole.room(now_us, ahead_us)

    def take_slots(self, queue: str, n: int) -> None:
        """`n` claims of a queue are asked for."""
        for limit in (self.whole, self.of(queue)):
            limit.used += n
            limit.promised += n

    def return_slots(self, queue: str, n: int, *, entered: bool) -> None:
        """`n` jobs hold their slots no more: they ended (`entered`), or their claims came to nothing."""
        for limit in (self.whole, self.of(queue)):
            limit.used -= n
            if entered:
                limit.pace.freed += n
            else:
                limit.promised -= n
            assert limit.used >= 0, f"more slots of {queue!r} came back than were taken"
            assert limit.promised >= 0, f"more promises of {queue!r} came back than were made"
        if not entered:
            self.shares.give_back(queue, n)

    def enter(self, queue: str, now_us: int) -> bool:
        """Let a promised job run: with a slot free, and a token of every rate that concerns it; False: not now."""
        own = self.of(queue)
        if not (own.has_slot and self.whole.has_slot):
            return False
        if own.bucket is not None and own.bucket.room(now_us) < 1:
            return False
        if self.whole.bucket is not None and not self.whole.bucket.spend(now_us):
            return False
        if own.bucket is not None:
            own.bucket.spend(now_us)
        own.promised -= 1
        self.whole.promised -= 1
        return True

    def promise_again(self, queue: str) -> None:
        """A job that had taken its tokens goes back to the gate; the tokens stay spent."""
        self.whole.promised += 1
        self.of(queue).promised += 1

    def next_room(self, queue: str, now_us: int) -> int:
        """The steady instant from which the rates of a queue allow one more start (now, or earlier: they do)."""
        instant = 0
        for limit in (self.whole, self.of(queue)):
            if limit.bucket is not None:
                instant = max(instant, limit.bucket.ready_at(limit.promised, now_us))
        return instant

    def to_save(self, latest_start_us: int, now_us: int) -> dict[str, int | None]:
        """The state of every rate, with promised jobs counted as started (at `latest_start_us`): the strict side.

        Of tasks, keys and breakers only those that have changed; None: the journal is to forget it.
        """
        values = self.admission.meters.to_save(latest_start_us, now_us) | self.admission.guards.to_save()
        for name, limit in ((WHOLE, self.whole), *self._queues.items()):
            if limit.bucket is not None:
                values[name] = limit.bucket.promised(latest_start_us, limit.promised)
        return values

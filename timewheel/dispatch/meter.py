"""A meter: the rate of a task or of a key, with what is promised of it and who comes later. Pure.

A job that finds no token is not tried again and again: it is told an instant at which one will be there, and is moved
there in the journal (Defer). So that 10,000 jobs of one key are told 10,000 instants, and each is moved about once, a
meter counts tokens in three kinds besides those that were spent:

- *promised*: of jobs that may start and have not entered yet;
- *late*: of jobs that came at the instant they were told and still found none (the machine slept, others were slow);
- *booked*: of jobs that were told an instant and are not back yet.

A job that was told nothing waits behind all three, a booked one behind the promised and the late, a late one behind the
promised alone. So nobody overtakes those who wait, and a job that needs many tokens gets them together. Only between
partitions (tenants) the instants are shared as if these took turns: the first job of one that comes when another has
10,000 booked is told one of the next instants, and whose instant that was is late, and moved once more.

Who was told an instant is remembered by id, for `MOST_REMEMBERED` jobs in all; of further ones only until when there
are any: then a job that is due on the steady clock before that counts as one of them. What is forgotten costs moves,
never a start too many: tokens are taken at the gate, from the bucket alone. Nobody tells of jobs that were cancelled
meanwhile: they are forgotten `ABSENT_US` after their instant, and all at once when the bucket has been full for
`IDLE_US`, for then it is not they who use it.

Worked example, 1 a second with burst 1, five jobs at 0: the first starts, the others are told 1, 2, 3 and 4 s. A sixth
that comes at 0.5 s is told 5 s.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from timewheel.dispatch.bucket import Bucket
from timewheel.dispatch.told import Line, Memory, Told
from timewheel.model import SECOND_US

if TYPE_CHECKING:
    from timewheel.policies import Rate

IDLE_US = SECOND_US
ABSENT_US = 10 * SECOND_US


def bucket_of(rate: Rate, saved: int | None, now_us: int) -> Bucket:
    """The limiter of a Rate, going on from its saved state."""
    return Bucket.of(rate.count, period_us(rate), rate.burst, saved, now_us=now_us)


def period_us(rate: Rate) -> int:
    """The period of a Rate, rounded up: never more starts than were asked for."""
    return ceil(Fraction(str(rate.per_s)) * SECOND_US)


class Meter:
    """See the module. Instants are steady microseconds."""

    __slots__ = ("_beyond_us", "_booked", "_late", "_memory", "_unnamed", "bucket", "promised", "rate")

    def __init__(self, rate: Rate, saved: int | None, now_us: int, memory: Memory | None = None) -> None:
        self.rate = rate
        self.bucket = bucket_of(rate, saved, now_us)
        self.promised = 0
        self._memory = memory or Memory()
        self._booked, self._late = Line(self._memory), Line(self._memory)
        self._unnamed = 0  # tokens of those that are not remembered by id
        self._beyond_us = 0  # the last instant that one of those was told

    def rerate(self, rate: Rate, now_us: int) -> None:
        """Change the rate; what was spent stays spent (see Bucket.rerate)."""
        self.rate = rate
        self.bucket.rerate(rate.count, period_us(rate), rate.burst, now_us)

    # ---- whose turn it is --------------------------------------------------------------------------------------------

    def earliest(
        self, job_id: int, tokens: int, now_us: int, steady_due_us: int | None = None, partition: str = ""
    ) -> int:
        """The instant from which this job may have its tokens, as things stand; one gone by means now.

        `steady_due_us`: its due time, if that is on the steady clock. `partition`: of those it shares the rate with.
        """
        self._forget_absent(now_us)
        if job_id in self._late.who:
            return self._ready_at(0, tokens, now_us)
        if self._was_booked(job_id, steady_due_us):
            return self._ready_at(self._late.tokens, tokens, now_us)
        if not self.promised and self.bucket.is_full(now_us - IDLE_US):
            self.forget_told()
        return self._ready_at(self._before(tokens, partition), tokens, now_us)

    def turn(self, job_id: int, tokens: int, now_us: int, steady_due_us: int | None = None, partition: str = "") -> int:
        """The instant that a job is told which may not have its tokens now: behind all that were told one before it,
        but for the share of its partition."""
        if job_id in self._late.who:
            others = self._late.before(job_id)
        elif self._was_booked(job_id, steady_due_us):
            others = self._late.tokens
        else:
            others = self._before(tokens, partition)
        return self._ready_at(others, tokens, now_us)

    def tell(
        self, job_id: int, tokens: int, instant_us: int, steady_due_us: int | None = None, partition: str = ""
    ) -> None:
        """This job is told to come at its `turn`."""
        if self._was_told(job_id, steady_due_us):
            self._forget_booked(job_id, tokens, steady_due_us)
            self._late.add(job_id, Told(instant_us, tokens))
        elif not self._memory.is_full:
            self._booked.add(job_id, Told(instant_us, tokens, partition))
        else:
            self._unnamed += tokens
            self._beyond_us = max(self._beyond_us, instant_us)

    def stand_aside(self, job_id: int, tokens: int, until_us: int, steady_due_us: int | None = None) -> None:
        """This job waits for another meter, or for a slot: whoever comes later does not overtake it here, and meanwhile
        it reserves nothing."""
        self._forget_booked(job_id, tokens, steady_due_us)
        if job_id in self._late.who or not self._memory.is_full:
            self._late.add(job_id, Told(until_us, 0))

    # ---- promises ----------------------------------------------------------------------------------------------------

    def promise(self, job_id: int, tokens: int, steady_due_us: int | None = None) -> None:
        """This job may start: its tokens are set aside until `spend` or `take_back`."""
        self._forget(job_id, tokens, steady_due_us)
        self.promised += tokens

    def take_back(self, job_id: int, tokens: int, now_us: int) -> None:
        """A job that was promised its tokens does not start now. If it comes again soon, it has its rank."""
        self.promised -= tokens
        assert self.promised >= 0, "more tokens came back than were promised"
        self._late.add(job_id, Told(now_us, 0))

    def has(self, tokens: int, now_us: int) -> bool:
        """Whether so many tokens are there for a job that was promised them."""
        return self.bucket.room(now_us) >= tokens

    def spend(self, tokens: int, now_us: int) -> None:
        """A job that was promised its tokens starts. Only when it `has` them."""
        spent = self.bucket.spend(now_us, tokens)
        assert spent, "a job started without its tokens"
        self.promised -= tokens
        assert self.promised >= 0, "more tokens were spent than were promised"

    def to_save(self, latest_start_us: int) -> int:
        """The bucket's state with promised jobs counted as started (at `latest_start_us`): the strict side."""
        return self.bucket.promised(latest_start_us, self.promised) if self.promised else self.bucket.tat

    def is_idle(self, now_us: int) -> bool:
        """Whether it is as a new one."""
        return not self.promised and not self._waiting and self.bucket.is_full(now_us)

    # ---- who was told ------------------------------------------------------------------------------------------------

    @property
    def _waiting(self) -> int:
        return self._late.tokens + self._booked.tokens + self._unnamed

    def _before(self, tokens: int, partition: str) -> int:
        """How many tokens go before those of a job that was told nothing: of all who wait, or where partitions share
        the rate, those that come before it when they take turns."""
        booked = self._booked.partitions
        rivals = len(booked) + (partition not in booked)
        if rivals < 2:
            return self._waiting
        return min(self._waiting, self._late.tokens + (booked.get(partition, 0) + tokens) * rivals - tokens)

    def _ready_at(self, before: int, tokens: int, now_us: int) -> int:
        return self.bucket.ready_at(self.promised + before + tokens - 1, now_us)

    def _was_booked(self, job_id: int, steady_due_us: int | None) -> bool:
        if job_id in self._booked.who:
            return True
        return self._unnamed > 0 and steady_due_us is not None and steady_due_us <= self._beyond_us

    def _was_told(self, job_id: int, steady_due_us: int | None) -> bool:
        return job_id in self._late.who or self._was_booked(job_id, steady_due_us)

    def _forget(self, job_id: int, tokens: int, steady_due_us: int | None) -> None:
        if job_id in self._late.who:
            self._late.drop(job_id)
        else:
            self._forget_booked(job_id, tokens, steady_due_us)

    def _forget_booked(self, job_id: int, tokens: int, steady_due_us: int | None) -> None:
        if job_id in self._late.who:
            return
        if job_id in self._booked.who:
            self._booked.drop(job_id)
        elif self._was_booked(job_id, steady_due_us):
            self._unnamed = max(0, self._unnamed - tokens)

    def _forget_absent(self, now_us: int) -> None:
        self._booked.drop_absent(now_us - ABSENT_US)
        self._late.drop_absent(now_us - ABSENT_US)
        if self._beyond_us < now_us - ABSENT_US:
            self._unnamed = 0

    def forget_told(self) -> None:
        """Nobody is waited for any more."""
        self._booked.clear()
        self._late.clear()
        self._unnamed = self._beyond_us = 0

"""A meter: the rate of a task or of a key, with what is promised of it and who comes later. Pure.

A job that finds no token is not tried again and again: it is told an instant at which one will be there, and is moved
there in the journal (Defer). So that 10,000 jobs of one key are told 10,000 instants, and each is moved about once, a
meter counts tokens in three kinds besides those that were spent:

- *promised*: of jobs that may start and have not entered yet;
- *late*: of jobs that came at the instant they were told and still found none (the machine slept, others were slow);
- *booked*: of jobs that were told an instant and are not back yet.

A job that was told nothing waits behind all three, a booked one behind the promised and the late, a late one behind the
promised alone. So nobody overtakes those who wait, and a job that needs many tokens gets them together.

Who was told an instant is remembered by id, for `MOST_REMEMBERED` jobs in all; of further ones only until when there
are any: then a job that is due on the steady clock before that counts as one of them. What is forgotten costs moves,
never a start too many: tokens are taken at the gate, from the bucket alone. Nobody tells of jobs that were cancelled
meanwhile: they are forgotten `ABSENT_US` after their instant, and all at once when the bucket has been full for
`IDLE_US`, for then it is not they who use it.

Worked example, 1 a second with burst 1, five jobs at 0: the first starts, the others are told 1, 2, 3 and 4 s. A sixth
that comes at 0.5 s is told 5 s.
"""

from __future__ import annotations

from collections import OrderedDict
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from timewheel.dispatch.bucket import Bucket
from timewheel.model import SECOND_US

if TYPE_CHECKING:
    from timewheel.policies import Rate

MOST_REMEMBERED = 100_000  # jobs that were told an instant, of all meters together: about 25 MB
IDLE_US = SECOND_US
ABSENT_US = 10 * SECOND_US


def bucket_of(rate: Rate, saved: int | None, now_us: int) -> Bucket:
    """The limiter of a Rate, going on from its saved state."""
    return Bucket.of(rate.count, period_us(rate), rate.burst, saved, now_us=now_us)


def period_us(rate: Rate) -> int:
    """The period of a Rate, rounded up: never more starts than were asked for."""
    return ceil(Fraction(str(rate.per_s)) * SECOND_US)


class _Told(NamedTuple):
    """A job that was told to come at `instant_us`, for so many tokens (0: it waits for another meter's)."""

    instant_us: int
    tokens: int


class Memory:
    """How many jobs the meters that share it remember by id."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs = 0

    @property
    def is_full(self) -> bool:
        """Whether no more are to be remembered."""
        return self.jobs >= MOST_REMEMBERED


class _Line:
    """Jobs that were told an instant, in the order in which they were told, and the sum of their tokens."""

    __slots__ = ("_memory", "tokens", "who")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.who: OrderedDict[int, _Told] = OrderedDict()  # a plain dict is slow to tell its first after many have gone
        self.tokens = 0

    def add(self, job_id: int, told: _Told) -> None:
        self.drop(job_id)
        self._memory.jobs += 1
        self.who[job_id] = told
        self.tokens += told.tokens

    def drop(self, job_id: int) -> None:
        if (told := self.who.pop(job_id, None)) is not None:
            self._memory.jobs -= 1
            self.tokens -= told.tokens

    def clear(self) -> None:
        self._memory.jobs -= len(self.who)
        self.who.clear()
        self.tokens = 0

    def tokens_of(self, job_id: int) -> int:
        """How many of the tokens are this job's."""
        told = self.who.get(job_id)
        return 0 if told is None else told.tokens

    def drop_absent(self, before_us: int) -> None:
        """Forget those in front whose instant has long passed."""
        while self.who:
            job_id = next(iter(self.who))
            if self.who[job_id].instant_us >= before_us:
                return
            self.drop(job_id)


class Meter:
    """See the module. Instants are steady microseconds."""

    __slots__ = ("_beyond_us", "_booked", "_late", "_memory", "_unnamed", "bucket", "promised", "rate")

    def __init__(self, rate: Rate, saved: int | None, now_us: int, memory: Memory | None = None) -> None:
        self.rate = rate
        self.bucket = bucket_of(rate, saved, now_us)
        self.promised = 0
        self._memory = memory or Memory()
        self._booked, self._late = _Line(self._memory), _Line(self._memory)
        self._unnamed = 0  # tokens of those that are not remembered by id
        self._beyond_us = 0  # the last instant that one of those was told

    def rerate(self, rate: Rate, now_us: int) -> None:
        """Change the rate; what was spent stays spent (see Bucket.rerate)."""
        self.rate = rate
        self.bucket.rerate(rate.count, period_us(rate), rate.burst, now_us)

    # ---- whose turn it is --------------------------------------------------------------------------------------------

    def earliest(self, job_id: int, tokens: int, now_us: int, steady_due_us: int | None = None) -> int:
        """The instant from which this job may have its tokens, as things stand; one gone by means now.

        `steady_due_us`: its due time, if that is on the steady clock.
        """
        self._forget_absent(now_us)
        if job_id in self._late.who:
            return self._ready_at(0, tokens, now_us)
        if self._was_booked(job_id, steady_due_us):
            return self._ready_at(self._late.tokens, tokens, now_us)
        if not self.promised and self.bucket.is_full(now_us - IDLE_US):
            self.forget_told()
        return self._ready_at(self._waiting, tokens, now_us)

    def turn(self, job_id: int, tokens: int, now_us: int, steady_due_us: int | None = None) -> int:
        """The instant that a job is told which may not have its tokens now: behind all that were told one before it."""
        if self._was_told(job_id, steady_due_us):
            others = self._late.tokens - self._late.tokens_of(job_id)
        else:
            others = self._waiting
        return self._ready_at(others, tokens, now_us)

    def tell(self, job_id: int, tokens: int, instant_us: int, steady_due_us: int | None = None) -> None:
        """This job is told to come at its `turn`."""
        if self._was_told(job_id, steady_due_us):
            self._forget(job_id, tokens, steady_due_us)
            self._late.add(job_id, _Told(instant_us, tokens))
        elif not self._memory.is_full:
            self._booked.add(job_id, _Told(instant_us, tokens))
        else:
            self._unnamed += tokens
            self._beyond_us = max(self._beyond_us, instant_us)

    def stand_aside(self, job_id: int, tokens: int, until_us: int, steady_due_us: int | None = None) -> None:
        """This job waits for another meter, or for a slot: whoever comes later does not overtake it here, and meanwhile
        it reserves nothing."""
        self._forget(job_id, tokens, steady_due_us)
        if not self._memory.is_full:
            self._late.add(job_id, _Told(until_us, 0))

    # ---- promises ----------------------------------------------------------------------------------------------------

    def promise(self, job_id: int, tokens: int, steady_due_us: int | None = None) -> None:
        """This job may start: its tokens are set aside until `spend` or `take_back`."""
        self._forget(job_id, tokens, steady_due_us)
        self.promised += tokens

    def take_back(self, job_id: int, tokens: int, now_us: int) -> None:
        """A job that was promised its tokens does not start now. If it comes again soon, it has its rank."""
        self.promised -= tokens
        assert self.promised >= 0, "more tokens came back than were promised"
        self._late.add(job_id, _Told(now_us, 0))

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
        elif job_id in self._booked.who:
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

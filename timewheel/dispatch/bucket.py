"""How many may start now? One rate limit as a generic cell rate algorithm (GCRA), in exact integers.

The whole state is one instant, the theoretical arrival time (TAT): when the bucket is full again. A start at `t` is
allowed when max(TAT, t) + T <= t + burst * T, and moves TAT to max(TAT, t) + T, where T is the interval of the rate
(ITU-T I.371 annex A; "leaky bucket as a meter"). From this follows the law (I17), for n starts in a window of width w:

    TAT rises by at least T a start, so after the last of them    TAT >= t_first + n * T
    and the last was allowed, so                                  TAT <= t_last + burst * T
    hence                                                         n <= w / T + burst = rate * w + burst

T is seldom a whole number of microseconds (3 a second: 333333.33...), so TAT is counted inside in parts of a
microsecond, 1/q for T = p/q: nothing is rounded, and neither the law nor the rate drifts. Only the saved value is
rounded, up, to whole microseconds: a restart may cost less than a microsecond and never gives a start away. It counts
steady time, so that no step of the wall clock fills or empties a bucket. Instants are whole microseconds, so with burst
1 the gaps are whole too (333334); with more, the burst makes up for it and the rate is reached exactly.

Worked example, 3 a second with burst 2, asked as early as allowed from 0:

    starts at   0   0   333334   666667   1000000        TAT after each: 333333.3, 666666.7, 1000000, ...
"""

from __future__ import annotations

import math
from fractions import Fraction

from timewheel.errors import InvalidOption

MAX_DEPTH_US = 10**18  # burst * interval, about 31,700 years: now + it still fits a store's 64-bit integer


def _exact(count: int | float) -> Fraction:
    """The rate the caller wrote: 0.1 is one tenth, not the binary fraction next to it."""
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 < count < math.inf:
        raise InvalidOption(f"a rate needs a count above 0, got {count!r}")
    return Fraction(repr(float(count))) if isinstance(count, float) else Fraction(count)


class Bucket:
    """The rate limit `count` starts every `period_us`, with up to `burst` at once.

    `tat` is a saved `Bucket.tat` or `Bucket.promised` in steady microseconds (0: full). Every `now_us` is a steady
    instant. Raises InvalidOption for a rate or burst that makes no limit.
    """

    __slots__ = ("_burst", "_parts", "_step", "_tat")

    def __init__(self, period_us: int, count: int, burst: int, tat: int = 0) -> None:
        self._shape(Fraction(period_us), Fraction(count), burst)
        self._tat = tat * self._parts

    @classmethod
    def of(
        cls, count: int | float, per_us: int, burst: int, tat: int | None = None, *, now_us: int | None = None
    ) -> Bucket:
        """The bucket of `count` starts per `per_us`, as saved in `tat` (None: full).

        With `now_us` a `tat` further off than this rate could ever bring it is cut back to an empty bucket, so that
        a value saved under a slower rate does not hold a faster one up. That is safe after a crash as well: every
        start that happened left its TAT at most burst intervals ahead of it.
        """
        interval = Fraction(per_us) / _exact(count)
        bucket = cls(interval.numerator, interval.denominator, burst, tat or 0)
        if now_us is not None:
            bucket._cut(now_us)
        return bucket

    def _shape(self, period: Fraction, count: Fraction, burst: int) -> None:
        if period <= 0 or count <= 0:
            raise InvalidOption(f"a rate needs a period and a count above 0, got {count} per {period} us")
        if isinstance(burst, bool) or not isinstance(burst, int) or burst < 1:
            raise InvalidOption(f"a burst is a whole number of at least 1, got {burst!r}")
        interval = period / count
        if interval * burst > MAX_DEPTH_US:
            raise InvalidOption(f"too slow a rate for its burst: {burst} starts take {interval * burst} us to refill")
        self._burst = burst
        self._step = interval.numerator  # one interval, in parts
        self._parts = interval.denominator  # parts of a microsecond

    def _cut(self, now_us: int) -> None:
        self._tat = min(self._tat, now_us * self._parts + self._burst * self._step)

    @property
    def burst(self) -> int:
        """How many may start at once when none started for long."""
        return self._burst

    @property
    def tat(self) -> int:
        """The one integer to save: steady microseconds, rounded up (to the strict side)."""
        return -(-self._tat // self._parts)

    def room(self, now_us: int, reserved: int = 0, ahead_us: int = 0) -> int:
        """How many more may start from `now_us` until `now_us + ahead_us`, `reserved` others being promised already.

        Never negative, and at most burst + rate * ahead_us.
        """
        now = now_us * self._parts
        base = self._tat if self._tat > now else now
        free = (now + ahead_us * self._parts + self._burst * self._step - base) // self._step - reserved
        return free if free > 0 else 0

    def spend(self, now_us: int, n: int = 1) -> bool:
        """Count `n` (from 1) starts at `now_us`, all or none; False, and nothing is spent, when they may not start."""
        now = now_us * self._parts
        after = (self._tat if self._tat > now else now) + n * self._step
        if after > now + self._burst * self._step:
            return False
        self._tat = after
        return True

    def ready_at(self, reserved: int = 0, now_us: int | None = None) -> int:
        """The earliest steady instant at which one more may start, after the `reserved` ones; one gone by means now.

        `room(now, reserved, ahead) > 0` exactly when `ready_at(reserved, now) <= now + ahead`. Without `now_us` the
        answer holds for `reserved` < burst; a bucket cannot know otherwise when the reserved ones are to start.
        """
        base = self._tat if now_us is None else max(self._tat, now_us * self._parts)
        return -(-(base + (reserved + 1 - self._burst) * self._step) // self._parts)

    def is_full(self, now_us: int) -> bool:
        """Whether `burst` may start at once: such a bucket is as a new one."""
        return self._tat <= now_us * self._parts

    def promised(self, now_us: int, n: int) -> int:
        """What `tat` would be had `n` more started at `now_us`: what is saved with a claim.

        Give the latest instant at which they may start: then the saved value is never below the real one, wherever
        the process dies, and a restart brings no start too many.
        """
        base = max(self._tat, now_us * self._parts) + n * self._step
        return -(-base // self._parts)

    def rerate(self, count: int | float, per_us: int, burst: int, now_us: int) -> None:
        """Change the rate at `now_us`; what was spent stays spent, at most the new burst.

        So a window over one change sees at most (old rate * its part) + (new rate * its part) + the larger burst.
        Raises InvalidOption, and changes nothing, for a rate or burst that makes no limit.
        """
        spent, step = max(0, self._tat - now_us * self._parts), self._step
        self._shape(Fraction(per_us), _exact(count), burst)
        self._tat = now_us * self._parts - (-spent * self._step // step)
        self._cut(now_us)

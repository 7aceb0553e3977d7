"""When is a failed attempt tried again? Exponential back-off with jitter, for any number of failures.

    n     = failures that spent the retry budget, this one included
    d     = max(base, min(cap / (1 + jitter), base * factor^(n - 1)))
    delay = a uniform pick from [d, min(cap, d * (1 + jitter))]

The formula is ours, after "Exponential Backoff And Jitter" (M. Brooker, AWS Architecture Blog, 2015). It differs from
that page's "full jitter" in its floor (a retry never comes before `base`) and in where it meets the cap: d stops at
cap / (1 + jitter), so that retries are spread over a whole band there too instead of piling up on the cap itself.
With jitter 0 it is the plain min(cap, base * factor^(n - 1)).

The power is never computed before it is known to lie below the cap: exponents are compared instead, so that no n and no
factor overflows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timewheel.model import RetryPolicy


def _floor(policy: RetryPolicy, failures: int) -> float:
    """The d of the formula, in microseconds."""
    base, factor = policy.base_us, policy.factor
    limit = policy.cap_us / (1 + policy.jitter) if policy.jitter else policy.cap_us
    exponent = max(failures, 1) - 1
    if base <= 0 or base >= limit or not factor > 1 or exponent == 0:
        return base  # the power stays at or below 1, or has no room to grow
    if exponent * math.log(factor) >= math.log(limit / base):
        return limit
    return min(limit, base * factor**exponent)


def delay_us(policy: RetryPolicy, failures: int, u: float) -> int:
    """How long to wait after failure number `failures` (from 1), in microseconds: within [base, cap].

    `u` is the chance, in [0, 1). The policy has 0 <= base <= cap and jitter >= 0.
    """
    low = min(max(round(_floor(policy, failures)), policy.base_us), policy.cap_us)
    high = max(low, round(min(policy.cap_us, low * (1 + policy.jitter))))
    return min(high, low + int(u * (high - low + 1)))


def retries_left(policy: RetryPolicy, failures: int) -> bool:
    """Whether the retry budget allows another attempt after `failures` that spent it."""
    return failures < policy.max_attempts


def gives_up(policy: RetryPolicy, first_failed_at: int, retry_at: int) -> bool:
    """Whether a retry at `retry_at` would come later than the policy goes on trying.

    Both are steady microseconds; `first_failed_at` is when the retry budget was first spent.
    """
    return policy.give_up_after_us is not None and retry_at > first_failed_at + policy.give_up_after_us

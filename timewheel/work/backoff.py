"""When is a failed attempt tried again? Exponential back-off with jitter, for any number of failures.

    n     = failures that spent the retry budget, this one included
    m     = n; of a throttled failure 2 n (version 2)
    d     = max(base, min(cap / (1 + jitter), base * factor^(m - 1)))
    delay = a uniform pick from [d, min(cap, d * (1 + jitter))]

A throttled failure backs off harder: with factor 2 it waits 2, 8, 32... times the base where another waits 1, 2, 4. One
that names its earliest retry is never tried before that, and what `delay` has above d is added to it (version 2), so
that those who were all told the same moment do not come back together: its delay is the larger of `delay` and
retry_after + delay - d, where the latter is cut at 24 h. Only a retry_after takes a retry beyond the cap.

    version 1    m = n always; a throttled failure waits for the later of delay and retry_after
    version 2    as above

A job keeps the policy that it was made with, and its version: what was recorded is never read anew.

The formula is ours, after "Exponential Backoff And Jitter" (M. Brooker, AWS Architecture Blog, 2015). It differs from
that page's "full jitter" in its floor (a retry never comes before `base`) and in where it meets the cap: d stops at
cap / (1 + jitter), so that retries are spread over a whole band there too instead of piling up on the cap itself.
With jitter 0 it is the plain min(cap, base * factor^(m - 1)).

The power is never computed before it is known to lie below the cap: exponents are compared instead, so that no n and no
factor overflows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from timewheel.work.signals import MAX_RETRY_AFTER_US

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


def throttled_delay_us(policy: RetryPolicy, failures: int, u: float, retry_after_us: int) -> int:
    """How long to wait after failure number `failures`, if it was a throttled one: see the module.

    Within [base, cap], or beyond as far as `retry_after_us` (at most 24 h; 0: none was named) asks for it.
    """
    if policy.version < 2:
        return max(delay_us(policy, failures, u), retry_after_us)
    delay = delay_us(policy, 2 * failures, u)
    spread = delay - delay_us(policy, 2 * failures, 0.0)
    return max(delay, min(retry_after_us + spread, MAX_RETRY_AFTER_US))


def retries_left(policy: RetryPolicy, failures: int) -> bool:
    """Whether the retry budget allows another attempt after `failures` that spent it."""
    return failures < policy.max_attempts


def gives_up(policy: RetryPolicy, first_failed_at: int, retry_at: int) -> bool:
    """Whether a retry at `retry_at` would come later than the policy goes on trying.

    Both are steady microseconds; `first_failed_at` is when the retry budget was first spent.
    """
    return policy.give_up_after_us is not None and retry_at > first_failed_at + policy.give_up_after_us

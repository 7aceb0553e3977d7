"""The exceptions with which a handler says what should happen next. They stay in the process."""

from __future__ import annotations

from datetime import timedelta

from timewheel import times
from timewheel.model import SECOND_US

MAX_RETRY_AFTER_US = 24 * 3600 * SECOND_US  # what a throttled handler may ask for; more is cut down to it


class HandlerSignal(Exception):
    """Base of the exceptions with which a handler says what should happen next. They stay in the process."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)


class Permanent(HandlerSignal):
    """The job can never succeed: no retry, whatever its policy; it becomes a dead letter at once."""


class Transient(HandlerSignal):
    """The attempt failed and may be retried, like one that raised any ordinary exception."""


class Throttled(HandlerSignal):
    """The other side asked to slow down: a failed attempt, retried later than another, and not before `retry_after_s`.

    `retry_after_s` is in seconds, finite and not negative (InvalidTime otherwise); more than 24 h counts as 24 h.
    """

    def __init__(self, message: str = "", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_us = None if retry_after_s is None else times.delay_us(retry_after_s)


class Ambiguous(HandlerSignal):
    """Nobody knows whether the work was done: a failed attempt, retried unless the task is `idempotent=False`.

    A job of such a task becomes a dead letter at once instead, for a person to decide.
    """


class Snooze(HandlerSignal):
    """Not now: run the job again `delay` from now. Spends neither the retry budget nor the crash budget.

    `delay` is a timedelta or seconds, finite and not negative (InvalidTime otherwise). A delay that ends at the job's
    deadline or after it makes the job a dead letter at once.
    """

    def __init__(self, delay: timedelta | int | float) -> None:
        self.delay_us = times.delay_us(delay)
        super().__init__(f"snoozed for {delay}{'' if isinstance(delay, timedelta) else ' s'}")

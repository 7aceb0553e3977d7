"""What happened: notices, made after the commit that made them true, one record a kind and batch, with columns.

`Notices` hands them to whoever subscribed; metrics, logs and the dashboard read them. A subscriber that raises is
reported once in the log and taken off: it cannot hurt the scheduler. Instants and lags are microseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from timewheel.model import AttemptState, JobState
from timewheel.schedule_records import Fate

_log = logging.getLogger("timewheel")


class JobsScheduled(NamedTuple):
    """Jobs became durable: how many of each queue."""

    queues: dict[str, int]


class OccurrencesRecorded(NamedTuple):
    """Slots of schedules were accounted for: how many by (fate, reason); the reason is "" where there is none."""

    fates: dict[tuple[Fate, str], int]


class AttemptsEnded(NamedTuple):
    """Attempts ended; one column entry an attempt. A lag is None where the attempt never got that far.

    `dependencies`: what the task names, "" for none. `faults`: the value of the FaultClass of a failure, else None.
    `retry_afters_us`: how long a throttled failure was told to wait; None: it was not. `attempts`: how many its job has
    spent with this one since it was made or replayed: failures, losses and what ended it, but not what was given back.
    """

    queues: list[str]
    attempt_states: list[AttemptState]
    job_states: list[JobState]
    dispatch_lags_us: list[int | None]
    start_lags_us: list[int | None]
    dependencies: list[str]
    faults: list[str | None]
    retry_afters_us: list[int | None]
    attempts: list[int]


class JobsEnded(NamedTuple):
    """Jobs became final without an attempt of their own ending: cancelled while pending, or skipped."""

    state: JobState
    jobs: int


class Committed(NamedTuple):
    """A batch is durable."""

    changes: int
    latency_us: int


class LoopGap(NamedTuple):
    """The event loop was late by this much; `culprit` names what it did, when that is known."""

    gap_us: int
    culprit: str | None


class ClockStepped(NamedTuple):
    """The wall clock was set: forward (positive) or back (negative)."""

    difference_us: int


class Suspended(NamedTuple):
    """The machine slept this long."""

    duration_us: int


class Recovered(NamedTuple):
    """This process took the journal over: attempts found LOST, jobs made SCHEDULED again."""

    epoch: int
    lost: int
    released: int


class LateResult(NamedTuple):
    """A handler that had timed out ended at last; what it returned was ignored."""

    job_id: int
    attempt: int


class JobsForgotten(NamedTuple):
    """Retention forgot so many jobs."""

    jobs: int


class BreakerChanged(NamedTuple):
    """The breaker of a dependency went from one state to another (names of BreakerState)."""

    dependency: str
    before: str
    after: str


class SweepFound(NamedTuple):
    """Due jobs that were in no memory queue; they were put there. Always a fault of timewheel."""

    jobs: int


class StorageTrouble(NamedTuple):
    """A commit failed; the committer goes on trying."""

    error: str


Notice: TypeAlias = (
    JobsScheduled
    | OccurrencesRecorded
    | AttemptsEnded
    | JobsEnded
    | Committed
    | LoopGap
    | ClockStepped
    | Suspended
    | Recovered
    | LateResult
    | JobsForgotten
    | BreakerChanged
    | SweepFound
    | StorageTrouble
)


class Notices:
    """The hub: doers emit, subscribers listen. Costs nothing while nobody listens (`wanted` is False)."""

    def __init__(self) -> None:
        self._sinks: list[Callable[[Notice], None]] = []
        self.wanted = False

    def subscribe(self, sink: Callable[[Notice], None]) -> Callable[[], None]:
        """Call `sink(notice)` on the scheduler's loop for every notice from now on; returns the way to end that."""
        self._sinks.append(sink)
        self.wanted = True
        return lambda: self._drop(sink)

    def emit(self, notice: Notice) -> None:
        """Hand a notice to every subscriber."""
        for sink in tuple(self._sinks):
            try:
                sink(notice)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:  # noqa: BLE001  whatever a stranger's code raises, a CancelledError of its own too
                _log.exception("a subscriber of notices raised and was taken off: %r", sink)
                self._drop(sink)

    def _drop(self, sink: Callable[[Notice], None]) -> None:
        if sink in self._sinks:
            self._sinks.remove(sink)
        self.wanted = bool(self._sinks)

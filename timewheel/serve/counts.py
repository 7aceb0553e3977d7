"""What the notices told, counted. Used on the scheduler's event loop; costs a job less than a microsecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, Metric

from timewheel import events
from timewheel.model import FINAL_STATES
from timewheel.serve.histogram import ATTEMPTS, SECONDS, SIZES, WAITS, Histogram, Histograms

MAX_QUEUES = 200  # names of queues come from clients; those beyond are counted together
MAX_DEPENDENCIES = 200  # and so do those of dependencies
OTHERS = OTHER_QUEUES = "(others)"
NO_QUEUE = ""  # cancelled while pending, or skipped: that notice does not say in which queue
US = 1_000_000


class Names:
    """The values of a label: at most `most`, the others are one. "" always is one of its own."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        """The label for a name: itself, or OTHERS when there are too many."""
        if name and name not in self._names:
            if len(self._names) >= self._most:
                return OTHERS
            self._names.add(name)
        return name

    def known(self) -> Iterable[str]:
        """The names that were heard of, OTHERS among them when there were too many."""
        return [*self._names, OTHERS] if len(self._names) >= self._most else self._names


class Counts:
    """A subscriber of notices; `families()` is what is scraped."""

    def __init__(self) -> None:
        self._scheduled: Counter[str] = Counter()  # by queue
        self._jobs: Counter[tuple[str, str]] = Counter()  # by queue and final state
        self._attempts: Counter[tuple[str, str]] = Counter()  # by queue and state
        self._failures: Counter[tuple[str, str]] = Counter()  # by dependency and class
        self._occurrences: Counter[tuple[str, str]] = Counter()  # by fate and reason
        self._steps: Counter[str] = Counter()  # by direction
        self._recovered: Counter[str] = Counter()  # by state
        self._breakers: Counter[tuple[str, str]] = Counter()  # by dependency and the state it went to
        self._plain: Counter[str] = Counter()  # those without labels, by name
        self._queues, self._dependencies = Names(MAX_QUEUES), Names(MAX_DEPENDENCIES)
        self.queues, self.queue, self.dependency = self._queues.known, self._queues.label, self._dependencies.label
        self._dispatch = Histogram(
            "timewheel_dispatch_lag_seconds", "From an attempt's scheduled_at to its dispatch", SECONDS, US
        )
        self._start = Histogram(
            "timewheel_start_lag_seconds", "From an attempt's scheduled_at to its handler's start", SECONDS, US
        )
        help_text = "How long throttled attempts were told to wait, where they were"
        self._retry_after = Histograms("timewheel_retry_after_seconds", help_text, WAITS, "dependency", US)
        help_text = "Attempts of a job that became final when one ended, without those that were given back"
        self._job_attempts = Histogram("timewheel_job_attempts", help_text, ATTEMPTS)
        self._commit = Histogram("timewheel_commit_seconds", "How long a commit took, its fsync included", SECONDS, US)
        self._changes = Histogram("timewheel_commit_changes", "Changes in a commit", SIZES)
        self._gap = Histogram(
            "timewheel_loop_gap_seconds", "How late the event loop was, when that was noticed", SECONDS, US
        )

    def take(self, notice: events.Notice) -> None:
        """Count one notice."""
        _TAKERS[type(notice)](self, notice)

    def families(self) -> Iterator[Metric]:
        """Every counter and histogram."""
        yield _family("timewheel_jobs_scheduled", "Jobs that became durable", ("queue",), self._scheduled)
        yield _family("timewheel_jobs", "Jobs that became final", ("queue", "state"), self._jobs)
        yield _family("timewheel_attempts", "Attempts that ended", ("queue", "state"), self._attempts)
        help_text = "Attempts that failed, by what their task depends on"
        yield _family("timewheel_attempt_failures", help_text, ("dependency", "class"), self._failures)
        help_text = "Slots of schedules that were accounted for"
        yield _family("timewheel_occurrences", help_text, ("fate", "reason"), self._occurrences)
        yield _family("timewheel_clock_steps", "Times the wall clock was set", ("direction",), self._steps)
        yield _family("timewheel_recovered_attempts", "Attempts found open at a take-over", ("state",), self._recovered)
        help_text = "Times the breaker of a dependency went to a state"
        yield _family("timewheel_breaker_changes", help_text, ("dependency", "state"), self._breakers)
        for name, help_text in _PLAIN.items():
            yield CounterMetricFamily(name, help_text, value=self._plain[name])
        for histogram in (self._dispatch, self._start, self._job_attempts, self._commit, self._changes, self._gap):
            yield histogram.family()
        yield self._retry_after.family()

    def _take_scheduled(self, notice: events.JobsScheduled) -> None:
        for queue, jobs in notice.queues.items():
            self._scheduled[self.queue(queue)] += jobs

    def _take_attempts(self, notice: events.AttemptsEnded) -> None:
        columns = zip(notice.queues, notice.attempt_states, notice.job_states, notice.attempts, strict=True)
        for (queue, state, job_state, attempts), number in Counter(columns).items():
            name = self.queue(queue)
            self._attempts[name, state.value] += number
            if job_state in FINAL_STATES:
                self._jobs[name, job_state.value] += number
                if attempts:
                    self._job_attempts.add(attempts, number)
        self._dispatch.observe(notice.dispatch_lags_us)
        self._start.observe(notice.start_lags_us)
        if any(notice.faults):
            self._take_failures(notice)

    def _take_failures(self, notice: events.AttemptsEnded) -> None:
        for dependency, fault, after_us in zip(notice.dependencies, notice.faults, notice.retry_afters_us, strict=True):
            if fault is not None:
                name = self.dependency(dependency)
                self._failures[name, fault.upper()] += 1
                if after_us is not None:
                    self._retry_after.add(name, after_us)

    def _take_occurrences(self, notice: events.OccurrencesRecorded) -> None:
        for (fate, reason), slots in notice.fates.items():
            self._occurrences[fate.value, reason] += slots

    def _take_ended(self, notice: events.JobsEnded) -> None:
        self._jobs[NO_QUEUE, notice.state.value] += notice.jobs

    def _take_commit(self, notice: events.Committed) -> None:
        self._commit.observe((notice.latency_us,))
        self._changes.observe((notice.changes,))

    def _take_gap(self, notice: events.LoopGap) -> None:
        self._gap.observe((notice.gap_us,))

    def _take_step(self, notice: events.ClockStepped) -> None:
        self._steps["forward" if notice.difference_us > 0 else "back"] += 1

    def _take_suspend(self, notice: events.Suspended) -> None:
        self._plain["timewheel_suspends"] += 1
        self._plain["timewheel_suspended_seconds"] += notice.duration_us // US

    def _take_recovery(self, notice: events.Recovered) -> None:
        self._recovered["LOST"] += notice.lost
        self._recovered["RELEASED"] += notice.released

    def _take_breaker(self, notice: events.BreakerChanged) -> None:
        self._breakers[self.dependency(notice.dependency), notice.after] += 1

    def _take_late_result(self, _: events.LateResult) -> None:
        self._plain["timewheel_late_results"] += 1

    def _take_sweep(self, notice: events.SweepFound) -> None:
        self._plain["timewheel_sweep_found_jobs"] += notice.jobs

    def _take_forgotten(self, notice: events.JobsForgotten) -> None:
        self._plain["timewheel_jobs_forgotten"] += notice.jobs

    def _take_trouble(self, _: events.StorageTrouble) -> None:
        self._plain["timewheel_storage_troubles"] += 1


_TAKERS: dict[type, Callable[[Counts, Any], None]] = {
    events.JobsScheduled: Counts._take_scheduled,
    events.AttemptsEnded: Counts._take_attempts,
    events.OccurrencesRecorded: Counts._take_occurrences,
    events.JobsEnded: Counts._take_ended,
    events.Committed: Counts._take_commit,
    events.LoopGap: Counts._take_gap,
    events.ClockStepped: Counts._take_step,
    events.Suspended: Counts._take_suspend,
    events.Recovered: Counts._take_recovery,
    events.LateResult: Counts._take_late_result,
    events.SweepFound: Counts._take_sweep,
    events.JobsForgotten: Counts._take_forgotten,
    events.BreakerChanged: Counts._take_breaker,
    events.StorageTrouble: Counts._take_trouble,
}

_PLAIN = {
    "timewheel_suspends": "Times the machine slept",
    "timewheel_suspended_seconds": "How long the machine slept, in all",
    "timewheel_late_results": "Handlers that ended after they had timed out; what they returned was ignored",
    "timewheel_sweep_found_jobs": "Due jobs that were in no memory queue: a fault of timewheel",
    "timewheel_jobs_forgotten": "Jobs that retention forgot",
    "timewheel_storage_troubles": "Commits that failed",
}


def _family(name: str, help_text: str, labels: tuple[str, ...], counts: Counter[Any]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=labels)
    for key, value in counts.items():
        family.add_metric([key] if isinstance(key, str) else list(key), value)
    return family

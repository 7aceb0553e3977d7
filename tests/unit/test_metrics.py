"""Counting what the notices told, and the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from timewheel import events
from timewheel.dispatch.breaker import BreakerState
from timewheel.errors import NotStarted
from timewheel.events import Notices
from timewheel.handles import BreakerNow, BudgetNow, Statistics
from timewheel.model import AttemptState, ClockKind, JobState, Lane, Now, SchedulerState
from timewheel.schedule_records import Fate
from timewheel.serve.counts import MAX_DEPENDENCIES, MAX_QUEUES, OTHER_QUEUES, OTHERS, Counts
from timewheel.serve.histogram import Histogram
from timewheel.serve.metrics import Metrics
from timewheel.store.port import LaneDepth


class FakeScheduler:
    """Only what Metrics asks for."""

    def __init__(self) -> None:
        self.notices = Notices()
        self.state = SchedulerState.RUNNING
        self.path = "memory"
        self.asked = 0
        self.depths: list[LaneDepth] = []
        self.breakers: list[BreakerNow] = []
        self.budgets: list[BudgetNow] = []
        self.fault: Exception | None = None

    async def statistics(self) -> Statistics:
        self.asked += 1
        if self.fault is not None:
            raise self.fault
        return Statistics(
            now=Now(1_000_000_000, 400_000_000),
            depths=self.depths,
            due_next_minute=5,
            fullest_second_next_hour=3,
            wheel_entries=7,
            ready_entries=2,
            running=1,
            concurrency=100,
            state=self.state,
            breakers=tuple(self.breakers),
            retry_budgets=tuple(self.budgets),
        )


@pytest.fixture
def scheduler() -> FakeScheduler:
    return FakeScheduler()


@pytest.fixture
def read(scheduler: FakeScheduler) -> Callable[[], Any]:
    metrics = Metrics(scheduler)  # type: ignore[arg-type]

    async def values() -> dict[tuple[str, ...], float]:
        """name and label values -> value"""
        families = text_string_to_metric_families((await metrics.text()).decode())
        samples = [sample for family in families for sample in family.samples]
        return {(sample.name, *sample.labels.values()): sample.value for sample in samples}

    return values


async def test_every_notice_is_counted(scheduler: FakeScheduler, read: Any) -> None:
    emit = scheduler.notices.emit
    emit(events.JobsScheduled({"a": 3, "b": 1}))
    emit(
        events.AttemptsEnded(
            ["a", "a", "b"],
            [AttemptState.SUCCEEDED, AttemptState.FAILED_RETRYABLE, AttemptState.FAILED_PERMANENT],
            [JobState.COMPLETED, JobState.SCHEDULED, JobState.DEAD],
            [500, 1_500, None],
            [700, 2_000_000, None],
            ["", "stripe", ""],
            [None, "throttled", "permanent"],
            [None, 30_000_000, None],
            [2, 1, 4],
        )
    )
    emit(events.JobsEnded(JobState.CANCELLED, 2))
    emit(events.OccurrencesRecorded({(Fate.SKIPPED, "misfire"): 111, (Fate.JOB, ""): 1}))
    emit(events.OccurrencesRecorded({(Fate.SKIPPED, "misfire"): 9}))
    emit(events.Committed(20, 1_800))
    emit(events.LoopGap(30_000, "a handler"))
    emit(events.ClockStepped(3_600_000_000))
    emit(events.ClockStepped(-1))
    emit(events.Suspended(90_000_000))
    emit(events.Recovered(2, 4, 1))
    emit(events.LateResult(1, 1))
    emit(events.SweepFound(6))
    emit(events.JobsForgotten(17))
    emit(events.BreakerChanged("stripe", "CLOSED", "OPEN"))
    emit(events.StorageTrouble("x"))
    values = await read()
    assert {
        ("timewheel_jobs_scheduled_total", "a"): 3,
        ("timewheel_jobs_total", "a", "COMPLETED"): 1,
        ("timewheel_jobs_total", "b", "DEAD"): 1,
        ("timewheel_jobs_total", "", "CANCELLED"): 2,
        ("timewheel_attempts_total", "a", "FAILED_RETRYABLE"): 1,
        ("timewheel_attempts_total", "b", "FAILED_PERMANENT"): 1,
        ("timewheel_attempt_failures_total", "THROTTLED", "stripe"): 1,
        ("timewheel_attempt_failures_total", "PERMANENT", ""): 1,
        ("timewheel_retry_after_seconds_sum", "stripe"): 30,
        ("timewheel_retry_after_seconds_count", "stripe"): 1,
        ("timewheel_job_attempts_sum",): 6,
        ("timewheel_job_attempts_count",): 2,
        ("timewheel_occurrences_total", "skipped", "misfire"): 120,
        ("timewheel_occurrences_total", "job", ""): 1,
        ("timewheel_dispatch_lag_seconds_count",): 2,
        ("timewheel_dispatch_lag_seconds_bucket", "0.0005"): 1,
        ("timewheel_start_lag_seconds_sum",): 2.0007,
        ("timewheel_commit_seconds_bucket", "0.002"): 1,
        ("timewheel_commit_changes_sum",): 20,
        ("timewheel_loop_gap_seconds_sum",): 0.03,
        ("timewheel_clock_steps_total", "forward"): 1,
        ("timewheel_clock_steps_total", "back"): 1,
        ("timewheel_suspended_seconds_total",): 90,
        ("timewheel_recovered_attempts_total", "LOST"): 4,
        ("timewheel_late_results_total",): 1,
        ("timewheel_sweep_found_jobs_total",): 6,
        ("timewheel_jobs_forgotten_total",): 17,
        ("timewheel_breaker_changes_total", "stripe", "OPEN"): 1,
        ("timewheel_storage_troubles_total",): 1,
    }.items() <= values.items()
    assert ("timewheel_jobs_total", "a", "SCHEDULED") not in values
    assert ("timewheel_attempt_failures_total", "TRANSIENT", "") not in values


def test_no_kind_of_notice_is_forgotten() -> None:
    from timewheel.serve import counts

    assert set(counts._TAKERS) == set(events.Notice.__args__)  # type: ignore[attr-defined]


async def test_gauges_come_from_the_scheduler(scheduler: FakeScheduler, read: Any) -> None:
    scheduler.depths = [
        LaneDepth(Lane(1, "a", 5, ClockKind.WALL), 10, 2, 0),
        LaneDepth(Lane(2, "a", 3, ClockKind.STEADY), 5, 1, 399_000_000),
        LaneDepth(Lane(3, "b", 5, ClockKind.WALL), 1, 0, None),
    ]
    scheduler.notices.emit(events.JobsScheduled({"idle": 1}))
    values = await read()
    assert {
        ("timewheel_queue_depth", "a"): 15,
        ("timewheel_queue_due", "a"): 3,
        ("timewheel_queue_depth", "b"): 1,
        ("timewheel_queue_depth", "idle"): 0,
        ("timewheel_queue_oldest_age_seconds", "b"): 0,
        ("timewheel_workers_busy",): 1,
        ("timewheel_workers_limit",): 100,
        ("timewheel_due_next_minute",): 5,
        ("timewheel_due_fullest_second_next_hour",): 3,
        ("timewheel_wheel_entries",): 7,
        ("timewheel_ready_entries",): 2,
        ("timewheel_journal_readable",): 1,
        ("timewheel_scheduler_state", "RUNNING"): 1,
        ("timewheel_scheduler_state", "FAILED"): 0,
    }.items() <= values.items()
    assert values["timewheel_queue_oldest_age_seconds", "a"] == 1_000  # each lane by its own clock


async def test_the_size_of_the_journal_is_that_of_its_file_and_log(
    scheduler: FakeScheduler, read: Any, tmp_path: Path
) -> None:
    assert ("timewheel_journal_bytes",) not in await read()  # in memory
    scheduler.path = str(tmp_path / "jobs.db")
    assert ("timewheel_journal_bytes",) not in await read()  # not made yet
    (tmp_path / "jobs.db").write_bytes(b"x" * 10)
    assert (await read())["timewheel_journal_bytes",] == 10
    (tmp_path / "jobs.db-wal").write_bytes(b"x" * 5)
    assert (await read())["timewheel_journal_bytes",] == 15


async def test_the_journal_is_not_asked_at_every_scrape(scheduler: FakeScheduler, read: Any) -> None:
    for _ in range(5):
        await read()
    assert scheduler.asked == 1


async def test_counts_are_shown_when_the_journal_cannot_be_asked(scheduler: FakeScheduler, read: Any) -> None:
    scheduler.fault = NotStarted("not yet")
    scheduler.notices.emit(events.StorageTrouble("x"))
    values = await read()
    assert values["timewheel_journal_readable",] == 0
    assert values["timewheel_storage_troubles_total",] == 1
    assert ("timewheel_workers_busy",) not in values


async def test_names_of_queues_cannot_fill_the_memory(scheduler: FakeScheduler, read: Any) -> None:
    for number in range(MAX_QUEUES + 50):
        scheduler.notices.emit(events.JobsScheduled({f"q{number}": 1}))
    scheduler.depths = [LaneDepth(Lane(n, f"x{n}", 5, ClockKind.WALL), 1, 0, None) for n in range(500)]
    values = await read()
    assert values["timewheel_jobs_scheduled_total", OTHER_QUEUES] == 50
    assert values["timewheel_queue_depth", OTHER_QUEUES] == 500
    assert len([key for key in values if key[0] == "timewheel_queue_depth"]) == MAX_QUEUES + 1


async def test_names_of_dependencies_cannot_fill_the_memory(scheduler: FakeScheduler, read: Any) -> None:
    for number in range(MAX_DEPENDENCIES + 50):
        columns = [f"d{number}", ""], ["throttled", "transient"], [9_000_000, None], [1, 1]
        states = [AttemptState.FAILED_RETRYABLE] * 2, [JobState.SCHEDULED] * 2
        scheduler.notices.emit(events.AttemptsEnded(["a"] * 2, *states, [0, 0], [0, 0], *columns))
        scheduler.notices.emit(events.BreakerChanged(f"d{number}", "CLOSED", "OPEN"))
    scheduler.breakers = [BreakerNow(f"d{number}", BreakerState.OPEN, 2) for number in range(MAX_DEPENDENCIES + 3)]
    scheduler.budgets = [BudgetNow(f"d{number}", "", 3, 1, 5) for number in range(MAX_DEPENDENCIES + 2)]
    values = await read()
    assert values["timewheel_attempt_failures_total", "THROTTLED", OTHERS] == 50
    assert values["timewheel_attempt_failures_total", "TRANSIENT", ""] == MAX_DEPENDENCIES + 50  # none is no other
    assert values["timewheel_retry_after_seconds_sum", OTHERS] == 50 * 9
    assert values["timewheel_breaker_changes_total", OTHERS, "OPEN"] == 50
    assert values["timewheel_breaker_state", OTHERS, "OPEN"] == 3
    assert values["timewheel_breaker_waiting", OTHERS] == 6
    assert values["timewheel_retry_budget_starts", OTHERS, ""] == 6
    for name in ("timewheel_retry_after_seconds_count", "timewheel_breaker_waiting", "timewheel_retry_budget_retries"):
        assert len([key for key in values if key[0] == name]) == MAX_DEPENDENCIES + 1


def test_a_histogram_counts_at_its_bounds() -> None:
    histogram = Histogram("h", "help", (0.001, 0.01), scale=1_000_000)
    histogram.observe([0, 1_000, 1_001, 10_000, 10_001, None])
    assert histogram.counts == [2, 2, 1]
    histogram.add(10_000, 3)
    histogram.add(1)
    assert (histogram.counts, histogram.total) == ([3, 5, 1], 22_002 + 30_001)
    samples = {sample.labels.get("le"): sample.value for sample in histogram.family().samples}
    assert (samples["0.001"], samples["0.01"], samples["+Inf"]) == (3, 8, 9)


def test_a_subscriber_never_raises_on_what_it_knows() -> None:
    counts = Counts()
    counts.take(events.AttemptsEnded(*([] for _ in events.AttemptsEnded._fields)))
    assert list(counts.families())

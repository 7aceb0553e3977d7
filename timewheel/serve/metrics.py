"""What `/metrics` shows: the counts of `timewheel.serve.counts`, and what the scheduler says of itself when asked.

Asking means reading depths from the journal, which takes time in proportion to it. So an answer is kept for
`KEEP_FACTOR` times as long as it took: asking takes at most a twentieth of the time, however often somebody scrapes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from timewheel.dispatch.breaker import BreakerState
from timewheel.errors import TimewheelError
from timewheel.model import SchedulerState
from timewheel.serve.counts import US, Counts

if TYPE_CHECKING:
    from timewheel.handles import Statistics
    from timewheel.scheduler import Scheduler

KEEP_S = 0.5
KEEP_FACTOR = 20
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_log = logging.getLogger("timewheel.serve")


class Metrics(Collector):
    """The metrics of one scheduler, in a registry of their own."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._counts = Counts()
        self._statistics: Statistics | None = None
        self._kept_until = float("-inf")
        self._asking = asyncio.Lock()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self.close = scheduler.notices.subscribe(self._counts.take)

    async def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        async with self._asking:
            await self._ask()
        return generate_latest(self._registry)

    async def _ask(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        if began < self._kept_until:
            return
        try:
            self._statistics = await self._scheduler.statistics()
        except TimewheelError as error:  # not started, failed: the counts and the state are shown all the same
            _log.debug("no statistics: %s", error)
            self._statistics = None
        ended = loop.time()
        self._kept_until = ended + max(KEEP_S, KEEP_FACTOR * (ended - began))

    def collect(self) -> Iterator[Metric]:
        """What the registry asks for."""
        yield from self._counts.families()
        yield _state(self._scheduler.state)
        size = _file_bytes(self._scheduler.path)
        if size is not None:
            yield _gauge("timewheel_journal_bytes", "Size of the journal's file and its -wal", size)
        known = self._statistics
        yield _gauge(
            "timewheel_journal_readable", "Whether the journal could be asked for what follows", int(known is not None)
        )
        if known is not None:
            yield from _of_the_moment(known)
            yield from _by_queue(known, self._counts)
            yield from _of_breakers(known, self._counts)
            yield from _of_retry_budgets(known, self._counts)


def _file_bytes(path: str) -> int | None:
    """The size of a journal and its log; None for one that is in no file."""
    try:
        size = os.stat(path).st_size
    except OSError:
        return None
    with suppress(OSError):  # without a log, it is all in the file
        size += os.stat(f"{path}-wal").st_size
    return size


def _of_the_moment(known: Statistics) -> Iterator[Metric]:
    yield _gauge("timewheel_workers_busy", "Handlers that run now", known.running)
    yield _gauge("timewheel_workers_limit", "Handlers that may run at once", known.concurrency)
    yield _gauge("timewheel_due_next_minute", "Jobs due in the coming minute", known.due_next_minute)
    yield _gauge(
        "timewheel_due_fullest_second_next_hour",
        "Jobs due in the fullest second of the coming hour",
        known.fullest_second_next_hour,
    )
    yield _gauge("timewheel_dead_letters", "Dead letters that nobody has discarded", known.dead_letters)
    yield _gauge("timewheel_operations_running", "Operations on dead letters that run now", known.operations)
    yield _gauge("timewheel_wheel_entries", "Entries in the timing wheels, stale ones included", known.wheel_entries)
    yield _gauge(
        "timewheel_ready_entries", "Due entries that wait in memory for a limit or a worker", known.ready_entries
    )


def _by_queue(known: Statistics, counts: Counts) -> Iterator[Metric]:
    depths: dict[str, tuple[int, int, float]] = dict.fromkeys(counts.queues(), (0, 0, 0.0))
    for depth in known.depths:
        label = counts.queue(depth.lane.queue)
        scheduled, due, age_s = depths.get(label, (0, 0, 0.0))
        if depth.oldest_due_at is not None:
            age_s = max(age_s, (known.now.on(depth.lane.clock) - depth.oldest_due_at) / US)
        depths[label] = (scheduled + depth.scheduled, due + depth.due, age_s)
    for column, (name, help_text) in enumerate(_QUEUE_GAUGES):
        family = GaugeMetricFamily(name, help_text, labels=("queue",))
        for label, values in depths.items():
            family.add_metric([label], values[column])
        yield family


_QUEUE_GAUGES = (
    ("timewheel_queue_depth", "Jobs of a queue that are SCHEDULED"),
    ("timewheel_queue_due", "Those of them that are due"),
    ("timewheel_queue_oldest_age_seconds", "How long the oldest due job of a queue has been due"),
)


def _of_breakers(known: Statistics, counts: Counts) -> Iterator[Metric]:
    states: Counter[tuple[str, str]] = Counter()
    waiting: Counter[tuple[str]] = Counter()
    for each in known.breakers:
        label = counts.dependency(each.dependency)
        waiting[(label,)] += each.waiting
        for state in BreakerState:
            states[label, state.value] += state is each.state
    help_text = "1 for the state that the breaker of a dependency is in"
    yield _gauges("timewheel_breaker_state", help_text, ("dependency", "state"), states)
    help_text = "Jobs that wait for the breaker of a dependency, about"
    yield _gauges("timewheel_breaker_waiting", help_text, ("dependency",), waiting)


def _of_retry_budgets(known: Statistics, counts: Counts) -> Iterator[Metric]:
    labelled = [((counts.dependency(each.dependency), counts.queue(each.queue)), each) for each in known.retry_budgets]
    for column, help_text in _BUDGET_GAUGES.items():
        values: Counter[tuple[str, str]] = Counter()
        for labels, each in labelled:
            values[labels] += getattr(each, column)
        yield _gauges(f"timewheel_retry_budget_{column}", help_text, ("dependency", "queue"), values)


_BUDGET_GAUGES = {
    "starts": "Starts in the window of the retry budget of a dependency or of a queue",
    "retries": "Those of them that are retries",
    "waiting": "Retries that wait for a retry budget, about",
}


def _gauges(name: str, help_text: str, labels: tuple[str, ...], values: Counter[Any]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _state(state: SchedulerState) -> Metric:
    family = GaugeMetricFamily("timewheel_scheduler_state", "1 for the state it is in", labels=("state",))
    for each in SchedulerState:
        family.add_metric([each.value], int(each is state))
    return family

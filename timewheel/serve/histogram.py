"""A histogram for Prometheus that takes a column of values at once.

prometheus-client's own takes one value at a time, with a lock and a walk over its buckets: 2 microseconds, twice a job.
This one belongs to one event loop and takes a tenth of that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)


class Histogram:
    """Counts values below each of `bounds`, which are multiples of `scale` of the values given: 1e6 for microseconds.

    >>> lags = Histogram("lag_seconds", "How late", (0.001, 0.01), scale=1_000_000)
    >>> lags.observe([500, 1_000, 20_000])
    >>> lags.counts, lags.total
    ([2, 0, 1], 21500)
    """

    def __init__(self, name: str, help_text: str, bounds: tuple[float, ...], scale: int = 1) -> None:
        self.name = name
        self.help_text = help_text
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0
        self._scale = scale
        self._bounds = bounds
        self._limits = [bound * scale for bound in bounds]

    def observe(self, values: Iterable[int | None]) -> None:
        """Count values; None is not one."""
        limits, counts, total = self._limits, self.counts, 0
        for value in values:
            if value is not None:
                counts[bisect_left(limits, value)] += 1
                total += value
        self.total += total

    def family(self) -> HistogramMetricFamily:
        """What is scraped."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        buckets = list(zip(names, accumulate(self.counts), strict=True))
        return HistogramMetricFamily(self.name, self.help_text, buckets=buckets, sum_value=self.total / self._scale)

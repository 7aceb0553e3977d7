"""The machine of a year of schedules, and the runs on it, as they must have been. Times are elapsed microseconds.

Written from the design, without timewheel's planning.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from tests.planning.year_script import BEGIN_US

NEVER = 1 << 60


class History:
    """When the machine was up, and what its clocks showed: known before anything runs."""

    def __init__(self, events):
        self.holes = [(event.at, event.at + event.length, event.what) for event in events if event.length]
        self.looks = [event.at + event.length for event in events]
        self.offsets = [(0, BEGIN_US)]
        for event in events:
            if event.step:
                self.offsets.append((event.at, self.offsets[-1][1] + event.step))
        self._since = [since for since, _ in self.offsets]

    def offset(self, at):
        return self.offsets[bisect_right(self._since, at) - 1][1]

    def reading(self, at, steady):
        """What a clock shows."""
        return at + (BEGIN_US if steady else self.offset(at))

    def up_from(self, at):
        for begin, end, _ in self.holes:
            if begin <= at < end:
                return end
        return at

    def when(self, reading, steady, since):
        """The first moment, not before `since`, at which that clock shows it or more, and the process runs."""
        if reading >= NEVER:
            return NEVER
        if steady:
            return self.up_from(max(since, reading - BEGIN_US))
        for number, (begin, offset) in enumerate(self.offsets):
            end = self.offsets[number + 1][0] if number + 1 < len(self.offsets) else NEVER
            at = max(since, begin, reading - offset)
            if at < end:
                return self.up_from(at)
        raise AssertionError("the last stretch has no end")

    def end_of_run(self, job, at):
        """When a job that is let go at that moment ends: not begun before it is due.

        A run begins anew when its process died, and stands still while the machine sleeps.
        """
        begin = self.when(job.due, job.steady, at)
        end = begin + job.run_us
        for since, until, what in self.holes:
            if begin <= since < end:
                if what == "suspend":
                    end += until - since
                else:  # a run that was lost is due at once; one that was given back may be early again
                    begin = self.when(job.due, job.steady, until) if what == "stop" else until
                    end = begin + job.run_us
        return end


@dataclass(eq=False)
class Job:
    """`nominal`, `due`: on its schedule's clock. `end`: NEVER while it waits for another of its schedule."""

    nominal: int
    steady: bool
    kind: str
    due: int
    run_us: int
    fails: bool = False
    jitter_us: int = 0
    before: int | None = None  # the next slot: it is due before that
    serialized: bool = False
    catch_up: bool = False
    missed: tuple | None = None
    waiting: bool = False
    end: int = NEVER
    superseded: bool = False
    cancelled: bool = False


class Jobs:
    """The jobs of one schedule; `unfinished` are those that are not final."""

    def __init__(self, history):
        self.history = history
        self.all: list[Job] = []
        self.unfinished: list[Job] = []
        self.last_end = 0  # of a job of the rule

    def add(self, job, at, *, holds):
        """A job is made; with `holds` it does not start beside another."""
        job.waiting = holds and bool(self.unfinished)
        self.all.append(job)
        self.unfinished.append(job)
        if not job.waiting:
            self._release(job, at)

    def _release(self, job, at):
        job.waiting = False
        job.end = self.history.end_of_run(job, at)

    def advance(self, at):
        """What ends by then; who waits goes on when the last that ran has ended."""
        while self.unfinished:
            first = min(self.unfinished, key=lambda job: job.end)
            if first.end > at:
                return
            self._end(first, first.end)

    def _end(self, job, at):
        self.unfinished.remove(job)
        if job.kind == "rule":
            self.last_end = at
        if self.unfinished and all(other.waiting for other in self.unfinished):
            self._release(self.unfinished[0], at)

    def replace(self, at):
        """Those that run are asked to end, and do; those that wait are superseded."""
        for job in self.unfinished:
            job.superseded = job.waiting
            job.cancelled = not job.waiting
            job.end = at
            if job.kind == "rule" and job.cancelled:
                self.last_end = at
        self.unfinished.clear()

    @property
    def waiting(self):
        return [job for job in self.unfinished if job.waiting]

    @property
    def of_rule(self):
        return [job for job in self.unfinished if job.kind == "rule"]

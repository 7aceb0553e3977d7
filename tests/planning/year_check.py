"""The ledger of a year, and what ran, against the account of it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise

from tests.planning.year_history import History
from tests.planning.year_people import Life
from tests.planning.year_rules import DAY
from timewheel.model import ClockKind, JobState, OriginKind
from timewheel.times import utc_datetime

CLOSE_US = 5_000  # what a year of fixed delays may differ by, and a slot not


class Seen:
    """What the ledger and the jobs of one schedule say, as far as the model may look at it."""

    def __init__(self, rows, jobs):
        self._due = defaultdict(list)
        for row in reversed(rows):
            if row.fate == "job":
                key = row.clock is ClockKind.STEADY, row.first_at, row.kind.value
                self._due[key].append(jobs[row.job_id].scheduled_at)
        self._manual = sorted(row.first_at for row in rows if row.kind is OriginKind.MANUAL)
        steady = [row for row in rows if (row.clock, row.kind) == (ClockKind.STEADY, OriginKind.RULE)]
        self._steady = sorted({at for row in steady for at in (row.first_at, row.last_at)})

    def due(self, steady, slot, kind):
        """When the job of a slot is due; asked again, that of the next time that it was passed."""
        key = steady, _near(self._manual, slot) if kind == "manual" else slot, kind
        return self._due[key].pop() if self._due[key] else None

    def near(self, slot):
        return _near(self._steady, slot)


def _near(slots, slot):
    index = bisect_left(slots, slot - CLOSE_US)
    return slots[index] if index < len(slots) and slots[index] <= slot + CLOSE_US else slot


class Checker:
    """Everything of one schedule; `wrong` collects what differs."""

    def __init__(self, script, schedule, rows, jobs, runs):
        self.script, self.schedule, self.jobs, self.runs = script, schedule, jobs, runs
        self.history = History(script.events)
        seen = Seen(rows, jobs)
        self.life = Life(script, self.history, seen.due, seen.near)
        self.account = self.life.live(script.ops[schedule])
        self.by_kind = defaultdict(list)
        for row in rows:
            if row.reason == "gap" or row.kind is OriginKind.MANUAL:
                self.by_kind[row.reason if row.reason == "gap" else "manual"].append(row)
            else:
                self.by_kind[row.clock is ClockKind.STEADY].append(row)
        self.slots = 0

    def check(self):
        for steady in (False, True):
            self._slots(self.by_kind[steady], self.account.rows[steady])
        self._slots(self.by_kind["manual"], self.account.manual)
        self._gaps()

    # ---- the ledger --------------------------------------------------------------------------------------------------

    def _slots(self, rows, expected):
        """Each row, in the order of writing, covers the next of the slots, no more and no less."""
        at = 0
        for row in rows:
            mine = expected[at : at + row.count]
            at += row.count
            self.slots += row.count
            self._same(row, mine)
        assert at == len(expected), f"{self.schedule}: nothing tells of {expected[at:][:3]}, after {rows[-1:]}"

    def _same(self, row, mine):
        told = f"{self.schedule}: {_short(row)} should be {len(mine)}: {mine[0] if mine else None}"
        assert len(mine) == row.count, told
        manual = row.kind is OriginKind.MANUAL
        assert (abs(mine[0].slot - row.first_at) < CLOSE_US) if manual else mine[0].slot == row.first_at, told
        assert manual or mine[-1].slot == row.last_at, told
        for one in mine:
            assert (one.fate, one.reason) == (row.fate.value, row.reason), told
            assert (one.stand is None) == (row.job_id is None), told
            if one.stand is not None:
                job = self.jobs[row.job_id]
                assert abs(job.origin.nominal_at - one.stand.nominal) < CLOSE_US, told
                assert job.origin.kind.value == one.stand.kind, told
        if row.fate == "job":
            self._job(self.jobs[row.job_id], mine[0].stand, told)

    def _gaps(self):
        """What the clocks skipped is told once it was passed."""
        told = {row.first_at: row.count for row in self.by_kind["gap"]}
        may_be = {at - 1: count for at, count in self.account.may_be_lost.items()}
        assert self.account.lost.items() <= told.items() <= may_be.items(), (self.schedule, told, self.account.lost)

    # ---- jobs --------------------------------------------------------------------------------------------------------

    def _job(self, job, model, told):
        origin, manual = job.origin, model.kind == "manual"
        late = job.scheduled_at - origin.nominal_at
        assert 0 <= late <= max(0, model.jitter_us - 1), told
        if late and model.before is not None:
            assert job.scheduled_at < model.before, f"{told}: its jitter goes past the next slot {model.before}"
        assert (origin.catch_up, origin.missed) == (model.catch_up, model.missed), f"{told}: {origin} {model}"
        runs = self.runs.get(job.job_id, [])
        for run in runs:
            nominal = origin.nominal_at if not model.steady else None
            assert run.schedule == self.schedule, told
            assert nominal is None or run.nominal == utc_datetime(nominal), told
            first = run is runs[0]  # a run that was lost is due at once, whatever the clock shows then
            assert not first or self.history.reading(run.begin, model.steady) >= job.scheduled_at, f"{told}: early"
            assert (run.missed is None) == (model.missed is None) or manual, told
        if model.serialized:
            old = job.scheduled_at < self.history.reading(self.script.length, model.steady) - 30 * DAY
            assert job.state.final or not old, f"{told}: {job}"
            return
        self._end(job, model, runs, told)

    def _end(self, job, model, runs, told):
        """It ended as it must, and when."""
        if model.end >= self.script.length:
            expected = None
        elif model.superseded or model.cancelled:
            expected = JobState.SKIPPED if model.superseded else JobState.CANCELLED
        else:
            expected = JobState.DEAD if model.fails else JobState.COMPLETED
            ends = [run.end for run in runs if run.end is not None]
            assert len(ends) == 1, f"{told}: {job} ran to its end {len(ends)} times, {model}"
            assert abs(ends[0] - model.end) < CLOSE_US, f"{told}: {runs} {model}"
        state = job.state if job.state.final else None
        assert state == expected, f"{told}: {job} is {job.state}, {model}"


def _short(row):
    at = utc_datetime(row.first_at)
    what = f"{row.kind} {row.fate} {row.reason} {row.job_id}"
    return f"{at} ({row.first_at}..{row.last_at}, {row.count}, turn {row.turn}) {what}"


def check_keys(runs, keys):
    """Never two at once of those that share a key."""
    by_key = defaultdict(list)
    for job_id, key in keys.items():
        if key is not None:
            by_key[key] += [(run.begin, run.end) for run in runs.get(job_id, []) if run.end is not None]
    for key, spans in by_key.items():
        spans.sort()
        for (_, end), (begin, _) in pairwise(spans):
            assert end <= begin, f"two at once hold {key}"
    return {key: len(spans) for key, spans in by_key.items()}

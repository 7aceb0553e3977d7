"""A schedule on its own: two clocks, its jobs, its ledger; and rules and policies drawn for it."""

from __future__ import annotations

from datetime import datetime

from hypothesis import strategies as st

from timewheel.model import JobState, Now
from timewheel.planning.definition import Definition
from timewheel.planning.plan import plan
from timewheel.planning.policies import Misfire, MisfirePolicy, OverlapKind, OverlapPolicy
from timewheel.planning.position import first_position, wake_at
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.periods import Civil
from timewheel.schedule_records import SkipReason, UnfinishedJob

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
TZDATA = "2026a"

# (text, about how far its slots lie apart)
CRONS = [
    ("* * * * * *", SECOND),
    ("*/20 * * * * *", 20 * SECOND),
    ("5,6,7 * * * * *", 20 * SECOND),
    ("* * * * *", MINUTE),
    ("*/7 * * * *", 7 * MINUTE),
    ("0 * * * *", HOUR),
    ("*/10 2 * * *", 2 * HOUR),
    ("0,30 2,3 * * *", 6 * HOUR),
    ("30 2 * * *", DAY),
    ("15 1 * * *", DAY),
    ("0 0 * * mon", 7 * DAY),
]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo"]
# Around changes of the clocks: Berlin in spring and autumn, New York, Lord Howe
STARTS = ["2026-03-28T20:00", "2026-10-24T20:00", "2026-03-07T12:00", "2026-10-31T20:00", "2026-04-04T06:00"]


@st.composite
def rules(draw):
    """(rule, about how far its slots lie apart)"""
    kind = draw(st.sampled_from(["cron", "cron", "cron", "every", "civil"]))
    if kind == "every":
        seconds = draw(st.sampled_from([0.5, 1, 5, 60, 3600, 86_400]))
        anchor = draw(st.sampled_from([None, None, 1_700_000_000.25, 1_900_000_000]))
        return Every(seconds, anchor=anchor), int(seconds * SECOND)
    zone = draw(st.sampled_from(ZONES))
    gap = draw(st.sampled_from(["AUTO", "SKIP", "FIRE_AFTER", "KEEP_OFFSET"]))
    fold = draw(st.sampled_from(["AUTO", "FIRST", "SECOND", "BOTH"]))
    if kind == "civil":
        anchor = datetime(2026, 1, 1, draw(st.sampled_from([0, 2, 9])), 30)
        return Civil(days=draw(st.integers(1, 3)), anchor=anchor, tz=zone, gap=gap, fold=fold), DAY
    text, apart = draw(st.sampled_from(CRONS))
    return Cron(text, tz=zone, gap=gap, fold=fold), apart


@st.composite
def policies(draw):
    misfire = MisfirePolicy(
        draw(st.sampled_from(list(Misfire))),
        draw(st.sampled_from([0, 3 * SECOND, 10 * SECOND, 10 * SECOND, HOUR])),
        draw(st.sampled_from([1, 2, 5, 100])),
        draw(st.sampled_from([None, 0.5, 1.0, 35.0])),
    )
    kind = draw(st.sampled_from(list(OverlapKind)))
    limit = draw(st.integers(1, 4)) if kind in (OverlapKind.ALLOW, OverlapKind.QUEUE_ALL) else None
    return misfire, OverlapPolicy(kind, limit, "key" if kind is OverlapKind.SERIALIZE else None)


class World:
    """What is around one schedule. `now` moves; `plan` writes to `rows`, `jobs` and `unfinished`."""

    def __init__(self, definition, start_us, offset_us=0):
        self.definition, self.schedule = definition, "nightly"
        self.steady, self.offset = start_us, offset_us
        self.position = first_position(definition, self.now, TZDATA)
        self.first = self.position
        self.rows, self.jobs, self.unfinished = [], [], []
        self.next_id = 1
        self.ended = False

    @property
    def now(self):
        return Now(self.steady + self.offset, self.steady)

    def look(self, because=SkipReason.MISFIRE):
        """The plan as it would be now."""
        return plan(
            self.definition, self.schedule, self.position, self.unfinished, self.now, because=because, tzdata=TZDATA
        )

    def carry_out(self, made):
        """Write a plan as a store does."""
        ids = list(range(self.next_id, self.next_id + len(made.jobs)))
        self.next_id += len(ids)
        self.rows += made.with_ids(ids)
        self.position, self.ended = made.position, made.ended
        if made.supersede:
            self.unfinished = [job for job in self.unfinished if job.reason != "overlap"]
        for job_id, wanted in zip(ids, made.jobs, strict=True):
            waits = made.hold and bool(self.unfinished)
            state, reason = (JobState.WAITING, "overlap") if waits else (JobState.SCHEDULED, None)
            origin = wanted.origin
            self.unfinished.append(UnfinishedJob(job_id, state, reason, origin.nominal_at, origin.kind, False))
            self.jobs.append((job_id, wanted))
        asked = set(made.cancel)
        self.unfinished = [
            job._replace(cancel_requested=True) if job.job_id in asked else job for job in self.unfinished
        ]

    def wait_for_slot(self, late_us):
        """Until so long after the next time that it wants to be planned."""
        wake = wake_at(self.position)
        if wake is not None:
            self.steady += max(0, wake.at + late_us - self.now.on(wake.clock))

    def finish(self, number):
        """One of the jobs that do not wait ends, and the first that waits goes on if none is left."""
        running = [job for job in self.unfinished if job.reason != "overlap"]
        if running:
            self.unfinished.remove(running[number % len(running)])
        if len(running) <= 1 and self.unfinished:
            self.unfinished[0] = self.unfinished[0]._replace(state=JobState.SCHEDULED, reason=None)


@st.composite
def definitions(draw):
    """(definition, start, about how far its slots lie apart)"""
    rule, apart = draw(rules())
    misfire, overlap = draw(policies())
    start_us = int(datetime.fromisoformat(draw(st.sampled_from(STARTS)) + "+00:00").timestamp()) * SECOND
    start_us += draw(st.integers(0, 2 * HOUR))
    bounds = {}
    if draw(st.integers(0, 3)) == 0:
        bounds["end_us"] = start_us + draw(st.integers(1, 60)) * apart + draw(st.sampled_from([0, 1, SECOND // 2]))
    if draw(st.integers(0, 3)) == 0:
        bounds["start_us"] = start_us + draw(st.integers(-30, 30)) * apart
        if "end_us" in bounds:
            bounds["end_us"] = max(bounds["end_us"], bounds["start_us"] + 1)
    definition = Definition(
        rule=rule,
        task="t",
        misfire=misfire,
        overlap=overlap,
        jitter_us=draw(st.sampled_from([0, 0, SECOND, DAY])),
        max_runs=draw(st.sampled_from([None, None, None, 1, 7])),
        **bounds,
    )
    return definition, start_us, apart


@st.composite
def moves(draw, apart):
    """What happens next: (what, how much)"""
    what = draw(st.sampled_from(["slot", "slot", "slot", "wait", "nap", "finish", "step", "pause", "plan"]))
    if what == "slot":
        return what, draw(st.sampled_from([-1, 0, 0, 1, 2 * SECOND, 3 * SECOND + 1, 10 * SECOND, 10 * SECOND + 1]))
    if what in ("wait", "nap", "pause"):
        slots = {"wait": 3, "nap": 40, "pause": 150}[what]
        return what, int(draw(st.floats(0, 1)) * slots * apart) + draw(st.sampled_from([0, 1, 2 * SECOND]))
    if what == "step":
        size = draw(st.sampled_from([MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 5 * HOUR, 200_000]))
        # a step forward is an outage: of at most some hundred slots, for the model visits each
        return what, draw(st.sampled_from([-size, -size, min(size, 200 * apart)]))
    return what, draw(st.integers(0, 5))

"""Who may start, by the rates and slots of tasks and keys (I17, I18), against an audit of every window; over restarts.

The admission is played with alone: `Play` is a dispatcher of few lines on a clock of its own, with a journal that holds
what a claim saves. Jobs come back late, claims take time, some are cancelled, and the process dies at any moment.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from fractions import Fraction
from heapq import heappop, heappush

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timewheel.dispatch.admission import Admission, Pledge
from timewheel.dispatch.meter import ABSENT_US, Meter, period_us
from timewheel.dispatch.meters import Meters
from timewheel.dispatch.promises import PROMISE_US
from timewheel.flow import Flow
from timewheel.model import SECOND_US, ClockKind, Now
from timewheel.policies import Queue, Rate
from timewheel.store.changes import Candidate
from timewheel.task import make_task

AHEAD_US = 20_000
T0 = 10**12


def task_of(name, **declared):
    task = make_task(name, print)
    return type(task)(**{field: getattr(task, field) for field in task.__slots__} | declared)


class Job:
    """A job as the journal has it, and what became of it."""

    def __init__(self, number, task, queue, flow, due_us):
        self.number, self.task, self.queue, self.flow = number, task, queue, flow
        self.clock, self.due_us = ClockKind.WALL, due_us
        self.state = "scheduled"
        self.moves = 0
        self.started_us = None


class Play:
    """One journal and its owners. `slow_us`: how late anything may come; `chance`: of that, and of what goes wrong."""

    def __init__(self, tasks, queues, seed=0, slow_us=0):
        self.tasks, self.queues = tasks, queues
        self.chance = random.Random(seed)
        self.slow_us = slow_us
        self.now_us = T0
        self.saved = {}
        self.jobs = {}
        self.starts = defaultdict(list)  # meter -> [(when, tokens)]
        self.rates = {}
        self.most_held = Counter()
        self.restart()

    def restart(self):
        """The process died, or begins: what runs is over, what was claimed is scheduled again."""
        self.admission = Admission(self.saved)
        self.events = []
        self.count = 0
        self.covered_us = 0
        for name, shape in self.queues.items():
            self.admission.declared.shape(name, shape)
        self.admission.declared.declare(*self.tasks.values())
        if any(job.state == "waiting" for job in self.jobs.values()):
            self.admission.declared.waiters_unknown()
        for job in self.jobs.values():
            if job.state in ("claimed", "running"):
                job.state = "scheduled" if job.started_us is None else "ended"
            if job.state == "scheduled":
                self.at(job.due_us - AHEAD_US, self.judge, job)
        self.ask()

    # -- time --

    def at(self, when_us, do, *arguments):
        late = self.chance.randrange(self.slow_us + 1)
        self.count += 1
        heappush(self.events, (max(when_us, self.now_us) + late, self.count, do, arguments))

    def run(self, until_us):
        """Everything that happens until then."""
        while self.events and self.events[0][0] <= until_us:
            self.now_us, _, do, arguments = heappop(self.events)
            do(*arguments)
        self.now_us = max(self.now_us, until_us)

    # -- jobs --

    def add(self, number, task, queue="q", flow=None, due_us=None):
        job = self.jobs[number] = Job(number, task, queue, flow, self.now_us if due_us is None else due_us)
        self.at(job.due_us - AHEAD_US, self.judge, job)
        return job

    def judge(self, job):
        if job.state != "scheduled" or job.due_us > self.now_us + AHEAD_US:
            return
        candidate = Candidate(job.number, job.task, 1, job.clock, job.due_us, 0, 0, job.flow)
        verdict = self.admission.judge(candidate, job.queue, Now(self.now_us, self.now_us), AHEAD_US)
        if isinstance(verdict, Pledge):
            job.state = "claimed"
            self.save()
            self.at(self.now_us, self.gate, job, verdict)
            return
        job.moves += 1
        if verdict is None:
            job.state = "waiting"
            self.ask()
        else:
            assert verdict > self.now_us + AHEAD_US, "told to come at once"
            job.clock, job.due_us = ClockKind.STEADY, verdict
            self.at(verdict - AHEAD_US, self.judge, job)

    def gate(self, job, pledge):
        if job.state == "cancelled":
            self.admission.refused(pledge, job.number, self.now_us)
            self.ask(pledge.slots)
            return
        if job.due_us > self.now_us or not self.admission.may_enter(pledge, self.now_us):
            self.at(max(job.due_us, self.now_us + 1_000), self.gate, job, pledge)
            return
        if self.now_us > self.covered_us:
            self.save()
        self.admission.enter(pledge, self.now_us)
        job.state, job.started_us = "running", self.now_us
        for meter, rate, tokens in pledge.demands:
            self.starts[meter].append((self.now_us, tokens))
            self.rates[meter] = rate
        running = sum(other.state == "running" and other.task == job.task for other in self.jobs.values())
        self.most_held[job.task] = max(running, self.most_held[job.task])
        self.at(self.now_us + self.chance.randrange(SECOND_US), self.end, job, pledge)

    def end(self, job, pledge):
        job.state = "ended"
        self.admission.ended(pledge)
        self.ask(pledge.slots)

    def cancel(self, job):
        if job.state != "running" and job.state != "ended":
            job.state = "cancelled"

    # -- the journal --

    def save(self):
        self.covered_us = self.now_us + PROMISE_US
        for name, value in self.admission.meters.to_save(self.covered_us, self.now_us).items():
            if value is None:
                del self.saved[name]
            else:
                self.saved[name] = value

    def ask(self, slots=None):
        if asked := self.admission.ask(self.now_us, slots):
            self.at(self.now_us, self.take_over, asked)

    def take_over(self, asked):
        let_go = []
        for task, jobs in asked.items():
            waiters = [job for job in self.jobs.values() if job.task == task and job.state == "waiting"]
            let_go += sorted(waiters, key=lambda job: (job.due_us, job.number))[:jobs]
        for job in let_go:
            job.state = "scheduled"
            self.at(self.now_us, self.judge, job)
        self.admission.answered(asked, [job.number for job in let_go], self.now_us)
        self.at(self.admission.look_at, self.ask)
        self.ask()

    # -- the audit --

    def check(self):
        """I17 in every window of every meter, and I18 for every task."""
        for meter, starts in self.starts.items():
            check_windows(starts, self.rates[meter])
        for name, task in self.tasks.items():
            if task.concurrency is not None:
                assert self.most_held[name] <= task.concurrency


def check_windows(starts, rate):
    """In every window from one start to another: tokens <= rate * w + burst, exactly."""
    per_us = Fraction(rate.count) / period_us(rate)
    highest = None  # of (tokens before a start) - rate * its time
    before = 0
    for when, tokens in sorted(starts):
        value = before - per_us * when
        highest = value if highest is None else min(highest, value)
        before += tokens
        assert before - per_us * when - highest <= rate.burst, f"{before} tokens until {when}"


# ---- the audit itself ------------------------------------------------------------------------------------------------


def test_the_audit_sees_one_token_too_many():
    rate = Rate(2, burst=3)
    starts = [(0, 1), (0, 2), (SECOND_US // 2, 1), (SECOND_US, 1)]
    check_windows(starts, rate)
    with pytest.raises(AssertionError):
        check_windows([*starts, (SECOND_US, 1)], rate)
    with pytest.raises(AssertionError):
        check_windows([(0, 1), (0, 1), (0, 1), (0, 1)], rate)


# ---- the laws --------------------------------------------------------------------------------------------------------

RATES = st.builds(Rate, st.integers(1, 20), per_s=st.sampled_from([1, 0.7, 3]), burst=st.integers(1, 5))
MAYBE_RATE = st.none() | RATES
TASKS = st.fixed_dictionaries(
    {"rate": MAYBE_RATE, "key_rate": MAYBE_RATE, "concurrency": st.none() | st.integers(1, 3)}
)
FLOWS = st.none() | st.builds(
    Flow,
    rate_key=st.sampled_from(["x", "y"]),
    cost=st.integers(1, 6),
    partition_key=st.sampled_from([None, "one", "two"]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("ab"), st.sampled_from("qr"), FLOWS, st.integers(1, 6)),
        st.tuples(st.just("pass"), st.integers(1, 3 * SECOND_US)),
        st.tuples(st.just("cancel"), st.integers(0, 50)),
        st.tuples(st.just("die")),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(TASKS, TASKS, MAYBE_RATE, STEPS, st.integers(0, 2**32), st.sampled_from([0, 5_000, 400_000]))
def test_i17_i18_no_window_has_too_many_and_every_job_starts(a, b, queue_rate, steps, seed, slow_us):
    play = Play({"a": task_of("a", **a), "b": task_of("b", **b)}, {"q": Queue(key_rate=queue_rate)}, seed, slow_us)
    for step in steps:
        match step:
            case ("add", task, queue, flow, jobs):
                for _ in range(jobs):
                    play.add(len(play.jobs), task, queue, flow)
            case ("pass", duration_us):
                play.run(play.now_us + duration_us)
            case ("cancel", number) if number in play.jobs:
                play.cancel(play.jobs[number])
            case ("die",):
                play.restart()
    play.run(play.now_us + 3600 * SECOND_US)
    play.check()
    assert {job.state for job in play.jobs.values()} <= {"ended", "cancelled"}, "nothing is left behind"


@pytest.mark.parametrize("slow_us", [0, 3_000])
def test_many_jobs_of_one_key_are_moved_about_once_each(slow_us):
    play = Play({"a": task_of("a", key_rate=Rate(50, burst=5))}, {}, 1, slow_us)
    for number in range(3_000):
        play.add(number, "a", flow=Flow(rate_key="x"))
    play.run(play.now_us + 62 * SECOND_US)
    play.check()
    assert all(job.state == "ended" for job in play.jobs.values()), "and all that is allowed is used"
    moves = sum(job.moves for job in play.jobs.values())
    assert moves <= (3_000 if slow_us == 0 else 6_000), moves


def test_jobs_start_in_the_order_in_which_they_came():
    play = Play({"a": task_of("a", rate=Rate(10))}, {})
    for number in range(100):
        play.add(number, "a")
    for number in range(100, 150):  # while the others wait
        play.run(play.now_us + SECOND_US // 20)
        play.add(number, "a")
    play.run(play.now_us + 60 * SECOND_US)
    started = sorted(play.jobs.values(), key=lambda job: job.started_us)
    assert [job.number for job in started] == list(range(150))


def test_a_costly_job_is_not_starved_by_cheap_ones():
    play = Play({"a": task_of("a", key_rate=Rate(10, burst=5))}, {}, 3, 30_000)
    for number in range(400):
        play.add(number, "a", flow=Flow(rate_key="x"))
        if number == 20:
            costly = play.add(1000, "a", flow=Flow(rate_key="x", cost=5))
        play.run(play.now_us + SECOND_US // 15)
    play.check()
    assert costly.started_us is not None
    assert costly.started_us < T0 + 10 * SECOND_US


def test_a_job_that_came_at_its_instant_in_vain_is_not_overtaken_by_those_who_were_told_later_ones():
    meter = Meter(Rate(1, burst=5), None, T0)
    meter.promise(0, 5)
    meter.spend(5, T0)
    costly = meter.turn(1, 5, T0)
    meter.tell(1, 5, costly)
    meter.tell(2, 1, meter.turn(2, 1, T0))
    meter.promise(3, 1)
    meter.spend(1, costly)  # somebody whose tokens it had not counted
    assert meter.earliest(1, 5, costly) == costly + SECOND_US
    meter.tell(1, 5, meter.turn(1, 5, costly))
    assert meter.earliest(2, 1, costly) == costly + 2 * SECOND_US, "though there are tokens enough for it"
    assert meter.earliest(1, 5, costly) == costly + SECOND_US


@pytest.mark.parametrize("slow_us", [0, 3_000])
def test_one_tenants_many_jobs_do_not_keep_another_waiting_for_a_rate(slow_us):
    """Though all of the first one's were told their instants before the other came."""
    play = Play({"a": task_of("a", rate=Rate(10))}, {}, 4, slow_us)
    for number in range(600):
        play.add(number, "a", flow=Flow(partition_key="many"))
    play.run(play.now_us + SECOND_US)
    came_us = play.now_us
    others = [play.add(1_000 + number, "a", flow=Flow(partition_key="few")) for number in range(10)]
    play.run(play.now_us + 70 * SECOND_US)
    play.check()
    waits = [job.started_us - came_us for job in others]
    assert max(waits) <= 4 * SECOND_US, waits
    assert waits[0] <= SECOND_US // 2
    assert all(job.state == "ended" for job in play.jobs.values()), "and the rate is used"
    assert sum(job.moves for job in play.jobs.values()) <= 3 * 610


def test_the_strictest_limit_holds_and_the_others_are_used_by_others():
    """Jobs of one slow key do not keep the rest of their task waiting."""
    play = Play({"a": task_of("a", rate=Rate(20), key_rate=Rate(1))}, {})
    for number in range(100):
        play.add(number, "a", flow=Flow(rate_key="slow"))
    for number in range(100, 200):
        play.add(number, "a")
    play.run(play.now_us + 12 * SECOND_US)
    play.check()
    free = [job for job in play.jobs.values() if job.flow is None]
    assert all(job.state == "ended" for job in free), "20 a second, for all but a few of 200 starts"
    assert 10 <= len([job for job in play.jobs.values() if job.flow and job.started_us]) <= 13


def test_a_rate_is_used_again_when_those_who_were_told_to_come_are_cancelled():
    play = Play({"a": task_of("a", rate=Rate(1))}, {})
    for number in range(500):
        play.add(number, "a")
    play.run(play.now_us + SECOND_US // 2)
    for job in play.jobs.values():
        play.cancel(job)
    play.run(play.now_us + 5 * SECOND_US)
    late = play.add(1000, "a")
    play.run(play.now_us + SECOND_US)
    assert late.started_us is not None


def test_what_is_remembered_of_absent_jobs_is_forgotten():
    meter = Meter(Rate(1), None, T0)
    meter.promise(99, 1)
    for number in range(50):
        meter.tell(number, 1, T0 + number)
    assert meter.earliest(100, 1, T0) > T0 + 40 * SECOND_US
    later = T0 + ABSENT_US + 60
    meter.spend(1, later)
    assert meter.earliest(100, 1, later) == later + SECOND_US


def test_beyond_what_is_remembered_by_id_jobs_still_come_about_once(monkeypatch):
    monkeypatch.setattr("timewheel.dispatch.told.MOST_REMEMBERED", 100)
    play = Play({"a": task_of("a", rate=Rate(50))}, {})
    for number in range(1_000):
        play.add(number, "a")
    play.run(play.now_us + 21 * SECOND_US)
    play.check()
    assert all(job.state == "ended" for job in play.jobs.values())
    assert sum(job.moves for job in play.jobs.values()) <= 2_000


def test_idle_meters_are_forgotten_here_and_in_the_journal():
    play = Play({"a": task_of("a", key_rate=Rate(5))}, {})
    for number in range(200):
        play.add(number, "a", flow=Flow(rate_key=f"key {number}"))
        play.run(play.now_us + SECOND_US // 10)
    assert len(play.admission.meters) < 40
    assert len(play.saved) < 40
    play.restart()
    assert len(play.admission.meters) == 0
    for number in range(200, 220):
        play.run(play.now_us + SECOND_US)
        play.add(number, "a", flow=Flow(rate_key="one"))
    assert len(play.saved) <= 2, "those of the former process, too"


def test_a_task_that_is_declared_later_goes_on_from_what_was_saved():
    play = Play({"a": task_of("a", rate=Rate(1, per_s=100))}, {})
    play.add(1, "a")
    play.run(play.now_us + SECOND_US)
    tasks, play.tasks = play.tasks, {}
    play.restart()
    play.admission.declared.declare(*tasks.values())
    second = play.add(2, "a")
    play.run(play.now_us + 50 * SECOND_US)
    assert second.started_us is None


def test_what_is_promised_is_saved_anew_until_it_is_spent():
    meters, rate = Meters({}), Rate(1)
    meters.of("task\ta", rate, T0).promise(1, 1)
    meters.changed("task\ta")
    for later_us in (T0 + SECOND_US, T0 + 9 * SECOND_US):
        assert meters.to_save(later_us, T0) == {"task\ta": later_us + SECOND_US}
    meters.promised("task\ta").spend(1, T0 + 5)
    assert meters.to_save(T0 + 9 * SECOND_US, T0 + 5) == {"task\ta": T0 + 5 + SECOND_US}
    assert meters.to_save(T0 + 9 * SECOND_US, T0 + 5) == {}
    assert meters.to_save(T0 + 9 * SECOND_US, T0 + 2 * SECOND_US) == {"task\ta": None}
    assert meters.to_save(T0 + 9 * SECOND_US, T0 + 2 * SECOND_US) == {}


def test_a_waiter_that_is_let_go_and_finds_no_token_leaves_its_slot_to_the_next():
    admission = Admission({})
    admission.declared.declare(task_of("a", concurrency=1), task_of("b"))
    admission.declared.shape("q", Queue(key_rate=Rate(1, per_s=100, burst=2)))

    def judge(number, task, flow=None):
        candidate = Candidate(number, task, 1, ClockKind.STEADY, T0, 0, 0, flow)
        return admission.judge(candidate, "q", Now(T0, T0), AHEAD_US)

    keyed = Flow(rate_key="x")
    first = judge(1, "a", keyed)
    assert isinstance(first, Pledge)
    assert judge(2, "a", keyed) is None
    assert judge(3, "a") is None
    assert isinstance(judge(4, "b", keyed), Pledge), "it took the last token"
    admission.ended(first)
    assert admission.ask(T0) == {"a": 1}
    admission.answered({"a": 1}, [2], T0)
    assert isinstance(judge(2, "a", keyed), int)
    assert admission.ask(T0) == {"a": 1}


@pytest.mark.parametrize("slow_us", [0, 50_000])
def test_i18_waiters_of_a_task_go_first_and_no_slot_stays_empty(slow_us):
    play = Play({"a": task_of("a", concurrency=3)}, {}, 2, slow_us)
    for number in range(60):
        play.add(number, "a")
        play.run(play.now_us + SECOND_US // 10)
    play.run(play.now_us + 60 * SECOND_US)
    play.check()
    assert play.most_held["a"] == 3
    started = [job.number for job in sorted(play.jobs.values(), key=lambda job: job.started_us)]
    assert all(abs(number - place) <= 6 for place, number in enumerate(started)), started

"""From options to the flow control of a job: what is asked, on which clock, and what a request with a key is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.errors import InvalidOption
from timewheel.flow import Dependencies, DependencyFails, Flow, OnConflict, Terms, Uniqueness
from timewheel.model import MAX_TIME_US, ClockKind, Now
from timewheel.options import Rate, Unique, one_shot_options
from timewheel.requests import make_submit, place, take_back
from timewheel.tasks import TaskRegistry

S = 1_000_000
AT = 1_900_000_000 * S
NOW = Now(1_800_000_000 * S, 1_700_000_000 * S)


def handler(*args, **kwargs):
    """Any arguments."""


def registry(**task):
    tasks = TaskRegistry()
    tasks.register(handler, name="t", **task)
    tasks.register(handler, name="other")
    return tasks


def asked(args=(), kwargs=None, *, clock=ClockKind.WALL, at=AT, task=None, name="t", **options):
    checked = one_shot_options(options) if options else None
    return make_submit(registry(**(task or {})), (clock, at), name, args, kwargs or {}, checked)


def flow_of(**more):
    return asked(**more).request.flow


def test_a_job_without_flow_control_has_none():
    assert flow_of() is None
    assert flow_of(queue="q", concurrency_key="k", idempotency_key="i") is None
    assert flow_of(task={"rate": Rate(1), "concurrency": 3, "dependency": "d", "cancel_grace_s": 2}) is None
    assert flow_of(wait_for=[], rate_key=None, expires_at=None, cost=1) is None
    assert flow_of(task={"heartbeat_timeout_s": 5}, heartbeat_timeout_s=None) is None


def test_what_is_asked_is_in_the_flow():
    assert flow_of(rate_key="k", cost=3) == Flow(rate_key="k", cost=3)
    assert flow_of(partition_key="p") == Flow(partition_key="p")
    assert flow_of(expires_at=1_900_000_005, deadline=1_900_000_007) == Flow(expires_at=AT + 5 * S, deadline=AT + 7 * S)
    ids = (1 << 40 | 7,)
    waits = flow_of(wait_for=["job-0000100000007"])
    assert waits == Flow(wait_for=Dependencies(ids, DependencyFails.CANCEL))
    waits = flow_of(wait_for=["job-0000100000007"], if_dependency_fails="WAIT")
    assert waits == Flow(wait_for=Dependencies(ids, DependencyFails.WAIT))


def test_what_the_task_says_is_in_the_flow_and_the_job_goes_before_it():
    task = {"idempotent": False, "heartbeat_timeout_s": 5}
    assert flow_of(task=task) == Flow(idempotent=False, heartbeat_timeout_us=5 * S)
    assert flow_of(task=task, heartbeat_timeout_s=2) == Flow(idempotent=False, heartbeat_timeout_us=2 * S)
    assert flow_of(task=task, heartbeat_timeout_s=None) == Flow(idempotent=False)


def test_durations_count_from_the_instant_that_was_asked():
    submit = asked(expires_after_s=5, deadline_after_s=60)
    assert submit.request.flow == Flow(expires_at=AT + 5 * S, deadline=AT + 60 * S)
    placed = place(submit, 1, NOW)
    assert placed.request.flow == Flow(expires_at=AT + 5 * S, deadline=AT + 60 * S)


def test_durations_after_a_delay_are_put_on_the_wall_scale_when_the_job_is_placed():
    submit = asked(clock=ClockKind.STEADY, at=10 * S, expires_after_s=5, deadline=1_900_000_000, partition_key="p")
    place(submit, 1, NOW)
    wall = NOW.wall_us + 10 * S
    assert submit.request.scheduled_at == NOW.steady_us + 10 * S
    assert submit.request.flow == Flow(expires_at=wall + 5 * S, deadline=AT, partition_key="p")
    take_back(submit, NOW.steady_us)
    later = Now(NOW.wall_us + 100 * S, NOW.steady_us + 90 * S)
    place(submit, 2, later)
    assert submit.request.flow == Flow(expires_at=wall + 105 * S, deadline=AT, partition_key="p")


def test_no_instant_lies_beyond_the_last_one():
    submit = asked(at=MAX_TIME_US, expires_after_s=1, deadline_after_s=1)
    assert submit.request.flow == Flow(expires_at=MAX_TIME_US, deadline=MAX_TIME_US)
    submit = place(asked(clock=ClockKind.STEADY, at=MAX_TIME_US, deadline_after_s=1), 1, NOW)
    assert submit.request.flow == Flow(deadline=MAX_TIME_US)


@pytest.mark.parametrize("name", ["expires_at", "deadline"])
def test_a_job_that_ends_before_it_is_due_is_refused(name):
    with pytest.raises(InvalidOption, match=f"{name}=2030-03-17T17:46:40.000000Z is not after 2030") as caught:
        asked(**{name: 1_900_000_000})
    assert caught.value.field == name
    assert flow_of(**{name: 1_900_000_000.000001}) is not None
    assert flow_of(clock=ClockKind.STEADY, at=0, **{name: 1_900_000_000}) is not None


def test_a_cost_above_the_burst_of_the_tasks_key_is_refused():
    task = {"key_rate": Rate(100, burst=3)}
    assert flow_of(task=task, rate_key="k", cost=3).cost == 3
    with pytest.raises(
        InvalidOption, match=r"cost=4 is above the burst of the task t, .*burst of at least 4"
    ) as caught:
        asked(task=task, rate_key="k", cost=4)
    assert caught.value.field == "cost"


# ---- unique ----------------------------------------------------------------------------------------------------------


def unique_of(*args, name="t", queue="default", by=("task", "args"), key=None, **kwargs):
    return flow_of(args=args, kwargs=kwargs, name=name, queue=queue, unique=Unique(by=by, key=key)).unique


def test_jobs_are_equal_by_task_and_arguments():
    one = unique_of(1, "a", x=1, y={"b": 1, "c": 2})
    assert one == Uniqueness(one.digest, ("SCHEDULED", "WAITING", "ACTIVE"), OnConflict.KEEP, None)
    assert one == unique_of(1, "a", y={"c": 2, "b": 1}, x=1, queue="q")
    others = [
        unique_of(1, "a", x=1, y={"b": 1, "c": 3}), unique_of(1, "a"), unique_of(1.0, "a", x=1, y={"b": 1, "c": 2}),
        unique_of(1, "a", x=1, y={"b": 1, "c": 2}, name="other"),
        unique_of(1, "a", x=1, y={"b": 1, "c": 2}, by=("task", "args", "queue")),
    ]  # fmt: skip
    assert len({one.digest, *(other.digest for other in others)}) == 6


def test_jobs_are_equal_by_key_whatever_their_task_is():
    one = unique_of(1, by=("key",), key="k")
    assert one == unique_of(2, by=["key"], key="k", name="other", queue="q")
    others = [
        unique_of(1, by=("key",), key="l"), unique_of(1, by=("key", "task"), key="k"),
        unique_of(1, by=("key", "task"), key="k", name="other"), unique_of(1, by=("key", "queue"), key="k"),
        unique_of(1, by=("key", "queue"), key="k", queue="q"),
    ]  # fmt: skip
    assert len({one.digest, *(other.digest for other in others)}) == 6


@given(
    left=st.tuples(st.text(max_size=3), st.text(max_size=3)), right=st.tuples(st.text(max_size=3), st.text(max_size=3))
)
def test_two_parts_are_never_taken_for_two_others(left, right):
    one, other = (Unique(by=("task", "args", "queue")).of(part[0], "[]", part[1]).digest for part in (left, right))
    assert (one == other) == (left == right)


def test_the_states_that_stand_in_the_way():
    unfinished = ("SCHEDULED", "WAITING", "ACTIVE")
    assert Unique().of("t", "[]", "q").states == unfinished
    assert Unique(period_s=60).of("t", "[]", "q").states == (*unfinished, "COMPLETED")
    assert Unique(period_s=60, states=["DEAD", "ACTIVE"]).of("t", "[]", "q").states == ("ACTIVE", "DEAD")
    assert Unique(period_s=0.5).of("t", "[]", "q").period_us == 500_000
    assert Unique(on_conflict="reschedule").of("t", "[]", "q").on_conflict is OnConflict.RESCHEDULE
    assert Unique(by=["args", "task"], states={"ACTIVE"}) == Unique(by=("task", "args"), states=("ACTIVE",))
    assert replace(Unique(), period_s=60) == Unique(period_s=60)


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        ({"by": "key"}, ["by='key'", "by=('key',)"]),
        ({"by": ()}, ["by=()", '("task", "args")']),
        ({"by": ("args",)}, ["by=('args',)"]),
        ({"by": ("queue",)}, ["by=('queue',)"]),
        ({"by": ("task", "task")}, ["by=('task', 'task')"]),
        ({"by": ("task", "arguments")}, ["arguments"]),
        ({"by": ("task", [])}, ["by=('task', [])"]),
        ({"by": 5}, ["by=5"]),
        ({"by": ("key",)}, ["key=None", "give key=..."]),
        ({"key": "k"}, ["key='k'", 'by=("key",)']),
        ({"by": ("key",), "key": ""}, ["key=''", "1 to 255"]),
        ({"by": ("key",), "key": 7}, ["key=7", "str"]),
        ({"period_s": 0}, ["period_s=0", "above 0"]),
        ({"period_s": "1"}, ["period_s='1'"]),
        ({"states": "ACTIVE"}, ["states='ACTIVE'", "list"]),
        ({"states": []}, ["states=[]", "one or more of SCHEDULED"]),
        ({"states": ["RUNNING"]}, ["RUNNING"]),
        ({"states": [5]}, ["states=[5]"]),
        ({"on_conflict": "ignore"}, ["on_conflict='ignore'", "'keep', 'replace', 'reschedule', 'fail'"]),
        ({"on_conflict": None}, ["on_conflict=None"]),
    ],
)
def test_a_bad_unique_is_refused_when_it_is_made(fields, parts):
    with pytest.raises(InvalidOption) as caught:
        Unique(**fields)
    for part in parts:
        assert part in str(caught.value)


# ---- the digest of a request with a key ------------------------------------------------------------------------------


def digest(**more):
    return asked(idempotency_key="i", **more).request.digest


def test_flow_control_is_part_of_what_was_asked():
    delay = {"clock": ClockKind.STEADY, "at": 10 * S}
    requests = [
        {}, {"rate_key": "k"}, {"rate_key": "k", "cost": 2}, {"partition_key": "p"}, {"heartbeat_timeout_s": 1},
        {"expires_after_s": 5}, {"deadline_after_s": 5}, {"unique": Unique()}, {"unique": Unique(on_conflict="fail")},
        {"wait_for": ["job-0000100000007"]}, {"wait_for": ["job-0000100000007"], "if_dependency_fails": "RUN"},
        delay, {**delay, "expires_after_s": 5}, {**delay, "deadline_after_s": 5}, {**delay, "deadline_after_s": 6},
    ]  # fmt: skip
    digests = [digest(**request) for request in requests]
    assert len(set(digests)) == len(requests)
    assert digests == [digest(**request) for request in requests]


def test_the_same_jobs_in_another_order_are_the_same_request():
    ids = ["job-0000100000007", "job-0000100000008"]
    assert digest(wait_for=ids) == digest(wait_for=ids[::-1])


def test_requests_without_flow_control_have_the_digest_that_they_always_had():
    assert digest() == digest(rate_key=None, wait_for=[], cost=1, expires_at=None)
    assert digest() == digest(task={"idempotent": False})
    assert digest() == "388808858b870c762ee88636d0d8855ee6556ecc520750cb7c82f9fba4a7ae0d"


def test_terms_put_no_instant_where_none_was_asked():
    assert Terms().put(Flow(deadline=5), 10, 100) == Flow(deadline=5)
    assert Terms(expires_after_us=7).put(Flow(deadline=5), 10, 15) == Flow(deadline=5, expires_at=15)

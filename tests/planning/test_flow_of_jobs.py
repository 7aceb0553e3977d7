"""The flow control of the jobs that schedules make: what was declared, counted from each job's own time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.flow import Flow, Terms
from timewheel.model import MAX_TIME_US, ClockKind, Now, Origin
from timewheel.planning.carrying import request_of
from timewheel.planning.definition import Definition
from timewheel.planning.drafts import WantedJob
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every

S = 1_000_000
NOW = Now(wall_us=1_800_000_000 * S, steady_us=1_700_000_000 * S)


def flow_of(rule, at, terms, now=NOW):
    definition = Definition(rule=rule, task="t", terms=terms)
    wanted = WantedJob(at, definition.clock, Origin("s", definition.clock, at))
    return request_of(definition, wanted, 1, now).flow


@pytest.mark.parametrize("rule", [Every(60), Cron("* * * * *")])
def test_a_schedule_without_flow_control_makes_jobs_without(rule):
    assert flow_of(rule, 5, Terms()) is None


def test_what_was_declared_is_in_each_job():
    terms = Terms("k", 3, 5, None, None, False, "p")
    flow = Flow(rate_key="k", cost=3, heartbeat_timeout_us=5, idempotent=False, partition_key="p")
    assert flow_of(Every(60), 5, terms) == flow_of(Cron("* * * * *"), 5, terms) == flow


def test_durations_count_from_the_jobs_time_on_the_wall():
    terms = Terms(expires_after_us=2 * S, deadline_after_us=7 * S)
    at = 1_750_000_000 * S
    assert flow_of(Cron("* * * * *"), at, terms) == Flow(expires_at=at + 2 * S, deadline=at + 7 * S)
    ahead = NOW.wall_us - NOW.steady_us
    assert flow_of(Every(60), at, terms) == Flow(expires_at=at + ahead + 2 * S, deadline=at + ahead + 7 * S)


@given(
    at=st.integers(0, MAX_TIME_US),
    after=st.integers(1, MAX_TIME_US),
    offset=st.integers(-(10**15), 10**15),
    rule=st.sampled_from([Every(60), Cron("* * * * *")]),
)
def test_a_job_expires_just_so_long_after_its_time_or_at_the_last_instant(at, after, offset, rule):
    flow = flow_of(rule, at, Terms(expires_after_us=after), Now(NOW.steady_us + offset, NOW.steady_us))
    wall = at + (offset if isinstance(rule, Every) else 0)
    assert flow.expires_at == min(wall + after, MAX_TIME_US)
    assert Definition(rule=rule, task="t").clock is (ClockKind.STEADY if isinstance(rule, Every) else ClockKind.WALL)

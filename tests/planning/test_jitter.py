"""Jitter: always the same for one slot, spread over its span, never up to the next slot."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from timewheel.model import MAX_TIME_US
from timewheel.planning.definition import Definition
from timewheel.planning.jitter import due, jittered
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every

SECOND = 1_000_000
T0 = 1_767_571_200 * SECOND


@given(st.text(max_size=20), st.integers(0, MAX_TIME_US), st.integers(0, 3), st.integers(0, 10**13))
def test_a_job_is_due_within_the_width(schedule, nominal, turn, width):
    at = jittered(schedule, nominal, turn, width)
    assert nominal <= at <= nominal + max(0, width - 1)
    assert jittered(schedule, nominal, turn, width) == at


def test_a_lone_surrogate_in_a_name_is_no_trouble():
    assert jittered("\ud800", T0, 0, SECOND) != jittered("\ud801", T0, 0, SECOND)


def test_jobs_spread_over_the_whole_width():
    for places in (
        [jittered(f"s{n}", T0, 0, 1000) for n in range(2000)],
        [jittered("s", T0 + n, 0, 1000) - n for n in range(2000)],
        [jittered("s", T0, n, 1000) for n in range(2000)],
    ):
        tenths = Counter((place - T0) // 100 for place in places)
        assert set(tenths) == set(range(10))
        assert max(tenths.values()) < 2 * min(tenths.values())


def test_it_is_the_same_in_another_process():
    call = "jittered('payroll', 1_767_571_200_000_000, 1, 20_000_000)"
    code = f"from timewheel.planning.jitter import jittered; print({call})"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(there) == jittered("payroll", T0, 1, 20 * SECOND)


def test_it_is_cut_to_before_the_next_slot():
    rule = Cron("0,1 * * * *")
    definition = Definition(rule=rule, task="t", jitter_us=86_400 * SECOND)
    for n in range(50):
        assert T0 <= due(definition, rule, f"s{n}", T0, 0) < T0 + 60 * SECOND
    assert max(due(definition, rule, f"s{n}", T0 + 60 * SECOND, 0) for n in range(50)) > T0 + 1800 * SECOND


def test_without_jitter_a_job_is_due_on_its_slot_and_a_fixed_delay_has_no_next_slot():
    rule = Every(60, after_completion=True)
    assert due(Definition(rule=rule, task="t"), rule, "s", T0, 0) == T0
    definition = Definition(rule=rule, task="t", jitter_us=86_400 * SECOND)
    assert max(due(definition, rule, f"s{n}", T0, 0) for n in range(50)) > T0 + 3600 * SECOND
    assert max(due(definition, rule, f"s{n}", MAX_TIME_US, 0) for n in range(50)) == MAX_TIME_US

"""A year of many schedules agrees with an account of it that was worked out apart from timewheel.

CI lives a share of it; `python -m tests.planning.year` all: a thousand schedules.
"""

from __future__ import annotations

import logging
from datetime import datetime

import pytest

from tests.planning import year_run
from tests.planning.year import run
from tests.planning.year_rules import DAY, ZONES, instants, zone
from timewheel.planning.policies import Misfire


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.ERROR, "timewheel")


def test_a_year_of_schedules_leaves_the_ledger_that_it_must():
    report = run(60, seed=4)
    assert not report.wrong, "\n".join(report.wrong)
    assert report.slots > 2_000
    assert report.jobs > 2_000


def test_the_account_notices_a_policy_that_is_not_kept(monkeypatch):
    """Told another misfire policy than the account, the scheduler leaves another ledger."""
    options_of = year_run.options_of

    def other(definition):
        options = options_of(definition)
        return options | {"misfire": Misfire.SKIP if options["misfire"] == "LATEST" else Misfire.LATEST}

    monkeypatch.setattr(year_run, "options_of", other)
    assert len(run(10, seed=4, length=120 * DAY).wrong) > 2


def test_the_account_notices_slots_that_are_lost(monkeypatch):
    """Somebody loses the entry of each wall schedule in the agenda, once it is made."""
    given = year_run.Year._declare

    async def forgetful(self, scheduler, schedule, definition):
        await given(self, scheduler, schedule, definition)
        scheduler._engine.planner._roster.agenda.drop(schedule)

    monkeypatch.setattr(year_run.Year, "_declare", forgetful)
    assert run(10, seed=4, length=60 * DAY).wrong


def test_there_are_forty_zones_and_the_account_knows_their_gaps_and_folds():
    assert len(set(ZONES)) == 40
    berlin = zone("Europe/Berlin")
    gap, fold = datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30)
    change = 1774746000
    assert instants(berlin, gap, "SKIP", "FIRST") == ([], change)
    assert instants(berlin, gap, "FIRE_AFTER", "FIRST") == ([change], None)
    assert instants(berlin, gap, "KEEP_OFFSET", "FIRST") == ([change + 1800], None)
    assert instants(berlin, fold, "SKIP", "BOTH")[0] == [1792888200, 1792891800]

"""The public simulation: seeds are quiet, the same seed is the same run, and a failure is cut down and can be replayed.

Every plan that ever failed stays in kept_plans.toml, cut down, with a sentence about what was wrong.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from timewheel.store.committer import Committer
from timewheel.testing.simulation import Plan, first_failure, run_plan, run_seed
from timewheel.testing.simulation.campaign import run_campaign
from timewheel.testing.simulation.command import main, seeds_of
from timewheel.testing.simulation.shrinking import shrink

KEPT = tomllib.loads(Path(__file__).with_name("kept_plans.toml").read_text(encoding="utf-8"))["plan"]
QUICK = {"memory": range(24), "sqlite": range(100, 112)}
HAPPEN_OFTEN = (  # in any few dozen seeds
    "fault: crash in a commit, written",
    "fault: crash in a commit, not written",
    "fault: killed",
    "fault: reboot",
    "life ended: stopped",
    "moved when it was claimed",
    "moved when it was entered",
    "moved when it was settling",
    "answer: cancel, cancelled",
    "answer: cancel, too_late",
    "answer: reschedule, moved",
    "answer: submit, existed",
    "answer: submit, IdempotencyConflict",
    "answer: submit, gave up",
    "quiet moments compared",
    "stale writes refused",
    "attempt: LOST",
    "attempt: TIMED_OUT",
    "attempt: RELEASED",
    "answer: declare, ACTIVE",
    "answer: edit, ACTIVE",
    "answer: rest, PAUSED",
    "answer: go on, ACTIVE",
    "answer: drop, done",
    "answer: trigger, made",
    "answer: backfill, made",
    "answer: calendar, saved",
    "moved when it was planning",
    "moved when it was planned",
    "crash in a commit with: planoccurrences, written",
    "ended for silence",
    "heard to its end",
    "move: spend",
    "queues that share by their weights",
)


@pytest.fixture(scope="module")
def quick():
    """What came of the quick share."""
    return [run_seed(seed, store) for store, seeds in QUICK.items() for seed in seeds]


def test_no_seed_of_the_quick_share_finds_anything(quick):
    found = [str(outcome.violation) for outcome in quick if outcome.violation is not None]
    assert not found, "\n\n".join(found)


def test_what_is_to_be_tried_is_tried(quick):
    """A simulation in which the bad moments do not come proves nothing."""
    counts = sum((outcome.counts for outcome in quick), Counter())
    assert not [name for name in HAPPEN_OFTEN if not counts[name]]


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept["name"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_what_once_failed_does_not(kept, store):
    plan = Plan.from_json(kept["json"])
    plan.store = store
    violation = run_plan(plan).violation
    assert violation is None, f"{kept['sentence']}\n{violation}"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_thousand_seeds_find_nothing():
    """Other seeds than the quick share; on all cores."""
    for store, seeds in (("memory", range(1_000, 1_700)), ("sqlite", range(3_000, 3_300))):
        tally = run_campaign(seeds, [store], jobs=os.cpu_count() or 1)
        assert not tally.violations, "\n\n".join(map(str, tally.violations))
        assert tally.seeds == len(seeds)


# ---- a failure -----------------------------------------------------------------------------------------------------


@contextmanager
def early_acknowledgement():
    """A bug planted on purpose: callers hear of their submission before it is written."""
    submit = Committer.submit_soon

    def told_at_once(self, change, receive):
        from timewheel.store.changes import Submitted

        receive(Submitted(change.request.job_id, 0, created=True))
        submit(self, change, lambda outcome: None)

    Committer.submit_soon = told_at_once
    try:
        yield
    finally:
        Committer.submit_soon = submit


def test_a_planted_bug_is_found_and_cut_down():
    violation = first_failure(range(20), patch=early_acknowledgement)
    assert violation is not None
    assert violation.invariant == "I1"
    assert violation.command() in str(violation)
    with early_acknowledgement():
        small = shrink(violation, bound_s=30)
        assert run_plan(small.plan).violation == small
    assert small.invariant == "I1"
    assert len(small.plan.to_json()) < len(violation.plan.to_json()) / 4
    assert sum(len(life.moves) for life in small.plan.lives) <= 3
    assert run_plan(small.plan).violation is None  # without the bug


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_command_reports_in_words_and_json(tmp_path, capsys):
    report = tmp_path / "report.json"
    assert main(["--seeds", "0..1", "--store", "memory,sqlite", "--jobs", "1", "--report", str(report)]) == 0
    told = capsys.readouterr().out
    assert "4 seeds" in told
    assert "0 violations" in told
    data = json.loads(report.read_text())
    assert (data["method"], data["seeds"], data["violations"]) == ("simulation", 4, 0)
    assert data["cases"] >= 4 * 5
    assert data["faults"] == sum(data["faults_by_kind"].values())


def test_the_command_tells_a_failure_and_keeps_its_plan(tmp_path, capsys):
    kept = tmp_path / "plan.json"
    with early_acknowledgement():
        seed = first_failure(range(20)).seed
        assert main(["--seeds", str(seed), "--no-shrink", "--keep", str(kept)]) == 1
        told = capsys.readouterr().out
        assert "VIOLATED" in told
        assert f"--seeds {seed} --store memory" in told
        assert f"--plan {kept}" in told
        assert main(["--plan", str(kept), "--trace", "--no-shrink"]) == 1
        assert "life began" in capsys.readouterr().out
    assert main(["--plan", str(kept)]) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "give either --seeds or --plan"),
        (["--seeds", "x"], "'x': give one seed, like 7, or a range, like 0..999"),
        (["--seeds", "5..2"], "'5..2': the first of at most"),
        (["--seeds", "1", "--store", "redis"], "no store is called redis: give memory or sqlite"),
        (["--seeds", "1", "--jobs", "0"], "'0': give a number of processes from 1 to 256"),
        (["--seeds", "0..5", "--trace"], "--trace is for one seed on one store"),
        (["--plan", "/nowhere/plan.json"], "/nowhere/plan.json is no plan"),
    ],
)
def test_the_command_says_what_is_wrong_with_its_arguments(arguments, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_seeds_are_one_or_a_range():
    assert list(seeds_of("7")) == [7]
    assert list(seeds_of("3..5")) == [3, 4, 5]

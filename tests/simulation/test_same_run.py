"""I28: the same seed is the same run, whatever hashes and addresses a process has."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from timewheel.testing.simulation import Plan, draw_plan, run_plan, run_seed


class RankedTask(asyncio.Task):
    """A task whose place in a set is known; that of another is by its address, which differs from run to run."""

    falling = False
    born = 0

    def __init__(self, *args, **options):
        RankedTask.born += 1
        self.rank = 0xFFF - RankedTask.born % 0x1000 if RankedTask.falling else RankedTask.born % 0x1000
        super().__init__(*args, **options)

    def __hash__(self):
        return self.rank

    def __eq__(self, other):
        return self is other


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_i28_the_same_seed_is_the_same_run(store):
    one, again, other = run_seed(7, store), run_seed(7, store), run_seed(8, store)
    assert one.trace == again.trace
    assert one.counts == again.counts
    assert one.trace != other.trace


def test_i28_also_in_another_process_with_other_hashes():
    program = "from timewheel.testing.simulation import run_seed; print(run_seed(7, 'sqlite').trace)"
    root = Path(__file__).resolve().parents[2]
    traces = set()
    for hash_seed in ("1", "2"):
        env = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join([str(root), str(root / "storage")]),
        }
        traces.add(subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=True).stdout)
    assert len(traces) == 1
    assert traces == {run_seed(7, "sqlite").trace.encode() + b"\n"}


@pytest.mark.parametrize(("seed", "store"), [(60346, "sqlite"), *((seed, "memory") for seed in range(8))])
def test_i28_also_when_sets_of_tasks_have_another_order(seed, store, monkeypatch):
    create = asyncio.SelectorEventLoop.create_task

    def ranked(self, coro, **options):
        self.set_task_factory(lambda loop, coro, **options: RankedTask(coro, loop=loop, **options))
        return create(self, coro, **options)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "create_task", ranked)
    traces = set()
    for falling in (False, True):
        monkeypatch.setattr(RankedTask, "falling", falling)
        monkeypatch.setattr(RankedTask, "born", 0)
        traces.add(run_seed(seed, store).trace)
    assert len(traces) == 1


def test_a_plan_is_data():
    plan = draw_plan(3)
    assert Plan.from_json(plan.to_json()) == plan
    assert draw_plan(3) == plan
    assert draw_plan(4) != plan
    assert run_plan(Plan.from_json(plan.to_json())).trace == run_plan(plan).trace

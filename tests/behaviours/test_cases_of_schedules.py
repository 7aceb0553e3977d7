"""Cases about recurring jobs, through the scheduler; rules alone are in tests/recurrence, plans in tests/planning."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.simulation.helpers import crash
from timewheel import Cron, Every, Scheduler, current
from timewheel.errors import InvalidRule
from timewheel.testing.virtual import VirtualMachine
from timewheel_storage.memory import MemoryStore

ROOT = Path(__file__).resolve().parents[2]
CASES = json.loads((ROOT / "tests/recurrence/cron_cases.json").read_text("ascii"))["cases"]
AUTO = "gap=AUTO,fold=AUTO"
WANTED = [
    pytest.param(case, policy, [datetime.fromisoformat(one) for one in instants], id=f"{case['id']}-{policy}")
    for case in CASES
    if "expected" in case
    for policy, instants in {AUTO: case["expected"], **case.get("with_policy", {})}.items()
]
REFUSED = [case for case in CASES if case.get("error")]
SECOND = timedelta(seconds=1)


class Life:
    """A machine whose wall clock begins at `wall`, and lives of a process on it; `ran`: (nominal, when) of each run."""

    def __init__(self, wall):
        self.machine = VirtualMachine(wall=wall, quiet=True)
        self.store = MemoryStore()
        self.ran = []

    async def note(self):
        self.ran.append((current().nominal_at, self.machine.now()))

    def live(self, scene, until, *, crashes=False):
        """`await scene(scheduler)`, then wait until that instant."""

        async def life():
            scheduler = Scheduler(self.store, system=self.machine.system)
            scheduler.task(name="note")(self.note)
            await scheduler.start()
            await scene(scheduler)
            await self.machine.sleep((until - self.machine.now()).total_seconds())
            if not crashes:
                await scheduler.stop()

        self.machine.run(life(), leave=crashes)
        if crashes:
            self.machine.clock._watchers.clear()
            self.store = crash(self.store)


async def nothing(scheduler):
    """Nobody does anything."""


@pytest.mark.parametrize(("case", "policy", "instants"), WANTED)
def test_a_schedule_runs_at_the_instants_of_the_case_though_the_process_dies_on_the_way(case, policy, instants):
    """Each slot once, on time, under each policy; killed and started anew half a second after the first run."""
    rule = Cron(case["expr"], tz=case["tz"], **dict(one.split("=") for one in policy.split(",")))
    life = Life(datetime.fromisoformat(case["start"]))

    async def declare(scheduler):
        await scheduler.schedule(rule, "note")

    life.live(declare, instants[0] + SECOND / 2, crashes=True)
    life.live(nothing, instants[-1] + SECOND / 2)
    assert [nominal for nominal, _ in life.ran] == instants
    assert max(at - nominal for nominal, at in life.ran) < SECOND / 100


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["id"])
def test_a_case_that_makes_no_sense_is_refused_when_it_is_scheduled(case):
    async def declare(scheduler):
        with pytest.raises(InvalidRule):
            await scheduler.recurring(tz=case["tz"]).cron(case["expr"], "note")
        assert await scheduler.schedules().count() == 0

    life = Life(datetime(2026, 1, 5, tzinfo=UTC))
    life.live(declare, life.machine.now() + SECOND)


def test_b08_a_day_is_no_24_hours_and_24_hours_are_no_day():
    """Around the end of summer time in Berlin: noon stays noon, the interval stays 24 hours."""
    life = Life(datetime(2026, 10, 24, 9, 59, tzinfo=UTC))

    async def declare(scheduler):
        await scheduler.recurring(id="noon").schedule(Cron("0 12 * * *", tz="Europe/Berlin"), "note")
        await life.machine.sleep(60)
        await scheduler.recurring(id="interval").schedule(Every(timedelta(hours=24)), "note")

    life.live(declare, datetime(2026, 10, 25, 12, tzinfo=UTC))
    hours = [(nominal.day, nominal.hour) for nominal, _ in life.ran]
    assert hours == [(24, 10), (25, 10), (25, 11)]


MAKE = """
    async def main():
        async with scheduler:
            for name, tz in (("berlin", "Europe/Berlin"), ("utc", "UTC")):
                await scheduler.recurring(id=name).schedule(Cron("* * * * * *", tz=tz), "note", name)
"""
WITHOUT = """
    class Absent:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "tzdata":
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent())

    async def main():
        async with scheduler:
            await asyncio.wait_for(ran.wait(), 60)
            states = {one.id: [one.state, one.reason] async for one in scheduler.schedules()}
            print(json.dumps(states))
"""
AGAIN = """
    async def main():
        async with scheduler:
            await asyncio.wait_for(ran.wait(), 60)
            print((await scheduler.get_schedule("berlin")).state)
"""
PROGRAM = """
    import asyncio, json, sys
    from timewheel import Cron, Scheduler

    scheduler = Scheduler(sys.argv[1])
    ran = asyncio.Event()

    @scheduler.task(name="note")
    async def note(name):
        if name == sys.argv[2]:
            ran.set()
"""


def child(body, tmp_path, waits_for):
    """What a process without any zone but tzdata's prints."""
    program = f"{textwrap.dedent(PROGRAM)}\n{textwrap.dedent(body)}\nasyncio.run(main())\n"
    environment = {**os.environ, "PYTHONTZPATH": "", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'storage'}"}
    done = subprocess.run(
        [sys.executable, "-c", program, f"sqlite:///{tmp_path}/zones.db", waits_for],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_b13_without_zone_data_the_schedule_in_utc_runs_and_the_one_in_berlin_waits_for_it(tmp_path):
    """No TZPATH and no tzdata package at the second start; nothing is deleted, nothing becomes UTC in silence."""
    child(MAKE, tmp_path, "utc")
    states = json.loads(child(WITHOUT, tmp_path, "utc"))
    assert states["utc"] == ["ACTIVE", None]
    state, reason = states["berlin"]
    assert state == "PARKED"
    assert "tzdata" in reason
    assert child(AGAIN, tmp_path, "berlin") == "ACTIVE"

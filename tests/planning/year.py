"""One virtual year of many schedules, with restarts, outages, clock steps, pauses and edits, and its ledger checked.

    python -m tests.planning.year [--schedules 1000] [--seed 1] [--days 365] [--report FILE]

Everything runs through the real scheduler; what must have become of each slot is worked out anew, without timewheel's
rules and planning (year_rules.py, year_model.py), and compared with the ledger, the jobs and what the handlers saw.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from pathlib import Path
from typing import NamedTuple

from tests.planning.year_check import Checker, check_keys
from tests.planning.year_rules import DAY
from tests.planning.year_run import Year
from tests.planning.year_script import YEAR, draw_script


class Report(NamedTuple):
    """What a year came to.

    `slots`: of the ledger, each accounted for; `faults`: what happened to the machine; `wrong`: a line a schedule that
    differs.
    """

    schedules: int
    slots: int
    jobs: int
    faults: int
    wrong: list[str]
    run_s: float
    check_s: float


def run(schedules, seed=1, length=YEAR):
    """Live a year and check it."""
    began = time.process_time()
    script = draw_script(seed, schedules, length)
    year = Year(script, seed)
    year.play()
    lived = time.process_time()
    ledgers, jobs = year.ledgers()
    slots, wrong = 0, []
    for schedule, rows in ledgers.items():
        try:
            checker = Checker(script, schedule, rows, jobs, year.runs)
            checker.check()
            slots += checker.slots
        except AssertionError as error:
            wrong.append(str(error))
    check_keys(year.runs, {job.job_id: job.concurrency_key for job in jobs.values()})
    return Report(schedules, slots, len(jobs), len(script.events), wrong, lived - began, time.process_time() - lived)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the numbers there, as JSON")
    asked = parser.parse_args()
    logging.getLogger("timewheel").setLevel(logging.ERROR)  # a year has many steps and crashes
    report = run(asked.schedules, asked.seed, asked.days * DAY)
    took = f"lived in {report.run_s:.1f} s of CPU, checked in {report.check_s:.1f} s"
    lines = [f"{report.schedules} schedules, {report.slots:,} slots, {report.jobs:,} jobs: {took}", *report.wrong]
    sys.stdout.write("\n".join(lines) + "\n")
    if asked.report:
        told = {"cases": report.slots, "faults": report.faults, "violations": len(report.wrong)}
        asked.report.write_text(json.dumps(told) + "\n", encoding="utf-8")
    raise SystemExit(bool(report.wrong))


if __name__ == "__main__":
    main()

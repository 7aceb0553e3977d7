"""The state machine that drives all stores side by side, for as many runs as asked.

    python -m tests.conformance [--runs N] [--seed S] [--report FILE]

A run is a sequence of up to 40 steps: batches, deaths, errors, take-overs, recoveries. Exit code 1 when stores differ
or a law is broken; Hypothesis then prints the steps.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from pathlib import Path

from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.machine_faults import FaultyMachine
from tests.conformance.seen import FAULTS

STEPS = 40


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the numbers there, as JSON")
    asked = parser.parse_args()
    search = settings(
        max_examples=asked.runs, stateful_step_count=STEPS, database=None, phases=[Phase.generate], deadline=None
    )
    FaultyMachine.seen.clear()
    violations = 0
    try:
        run_state_machine_as_test(seed(asked.seed)(FaultyMachine), settings=search)
    except Exception:  # whatever it found is told, and counted
        traceback.print_exc()
        violations = 1
    seen = FaultyMachine.seen
    faults = sum(seen[name] for name in FAULTS)
    told = {"method": "model", "cases": asked.runs, "unit": "runs", "faults": faults, "violations": violations}
    print(f"{asked.runs:,} runs, {faults:,} faults, {violations} violations")
    if asked.report:
        asked.report.write_text(json.dumps(told | {"seen": dict(sorted(seen.items()))}) + "\n", encoding="utf-8")
    return violations


if __name__ == "__main__":
    sys.exit(main())

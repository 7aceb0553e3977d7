"""Fuzz the HTTP API against its own OpenAPI document, with Schemathesis, on a server and a journal of its own.

    python -m tests.fuzz.api --examples 1000 [--phases coverage,fuzzing] [--seed 7] [--report FILE.json]

All checks are on: no 5xx, no undocumented status, content type, header or shape of an answer; what breaks the schema is
refused, what keeps it is taken (tests/fuzz/hooks.py has the exceptions, with reasons). The stateful phase follows
links: jobs that were made are looked at, cancelled and moved. At the end the journal is audited (`timewheel verify`).
Exit code 0: nothing found. Leaves nothing behind but FILE.json.
"""

# ruff: noqa: T201  this program talks by printing

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.server import running
from timewheel.connect import audit

PHASES = "examples,coverage,fuzzing,stateful"
HOOKS = Path(__file__).with_name("hooks.py")


@dataclass
class Found:
    """What a run came to. `output` is for people; `violations` counts failures, errors and broken laws."""

    cases: int
    operations: int
    failures: list[dict[str, Any]]
    broken: list[str]  # laws of the journal
    took_s: float
    output: str

    @property
    def violations(self) -> int:
        return len(self.failures) + len(self.broken)

    def report(self) -> dict[str, Any]:
        return {
            "method": "API fuzzing",
            "cases": self.cases,
            "faults": 0,
            "violations": self.violations,
            "operations": self.operations,
            "failures": self.failures,
            "broken": self.broken,
            "took_s": round(self.took_s, 1),
        }


def fuzz(examples: int, phases: str = PHASES, seed: int | None = None) -> Found:
    """One run. Without a seed the same examples are drawn each time."""
    with tempfile.TemporaryDirectory(prefix="timewheel-fuzz-") as name:
        folder = Path(name)
        began = time.monotonic()
        with running(folder) as url:
            report = folder / "run.json"
            chance = ["--generation-deterministic"] if seed is None else ["--seed", str(seed)]
            ended = subprocess.run(
                [
                    *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
                    *("--checks", "all", "--phases", phases, "--max-examples", str(examples), *chance),
                    *("--continue-on-failure", "--no-color", "--output-sanitize", "false"),
                    *("--suppress-health-check", "all"),  # a busy machine is no failure
                    *("--report", "json", "--report-json-path", str(report)),
                ],
                cwd=folder,
                env={**os.environ, "SCHEMATHESIS_HOOKS": str(HOOKS), "PYTHONWARNINGS": "default"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        if not report.exists():
            raise RuntimeError(f"Schemathesis did not run (exit {ended.returncode}):\n{ended.stdout}")
        told = json.loads(report.read_text())
        return Found(
            cases=told["test_cases"]["generated"],
            operations=told["operations"]["tested"],
            failures=[*told["failures"], *told["errors"]],
            broken=audit(str(folder / "fuzzed.db")),
            took_s=time.monotonic() - began,
            output=ended.stdout,
        )


def main() -> int:
    """The command; see the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.api", description="Fuzz the HTTP API.")
    parser.add_argument("--examples", type=int, default=100, help="an operation and phase (default 100)")
    parser.add_argument("--phases", default=PHASES, help=f"some of {PHASES}")
    parser.add_argument("--seed", type=int, help="other examples; without it the same ones each time")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write the result there too")
    options = parser.parse_args()
    found = fuzz(options.examples, options.phases, options.seed)
    print(found.output)
    print(*found.broken, sep="\n")
    print(
        f"API fuzzing: {found.cases} cases over {found.operations} operations, "
        f"{found.violations} violations, {found.took_s:.0f} s"
    )
    if options.report:
        options.report.write_text(json.dumps(found.report(), indent=1) + "\n")
    return 1 if found.violations else 0


if __name__ == "__main__":
    sys.exit(main())

"""What shows that timewheel keeps its word, one table: what was tried, what was broken on purpose, what gave way.

    python -m tests.proof [--quick] [--only NAME] [--json FILE]

Each method runs in a process of its own, one after another, with the command that the table names; its numbers are what
that run reports. `--only`, which may be given several times, names those to run. `--quick` runs a small share of each,
to see that they work. A method that fails, reports nothing or finds a violation makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.proof.methods import METHODS, Method
from tests.proof.table import Result, markdown

ROOT = Path(__file__).resolve().parents[2]


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m tests.proof", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [method.name for method in METHODS]
    made.add_argument("--quick", action="store_true", help="a small share of each")
    made.add_argument("--only", metavar="NAME", action="append", choices=names, help=", ".join(names))
    made.add_argument("--json", metavar="FILE", type=Path, help="write what every method reported there")
    return made


def run(method: Method, quick: bool) -> Result:
    """One method, to its end. What it prints goes to stderr, so that stdout holds the table alone."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = method.command(quick)
        print(f"\n===== {method.name}: python -m {command}", file=sys.stderr, flush=True)
        began = time.monotonic()
        line = [sys.executable, "-m", *command.split(), "--report", str(report)]
        code = subprocess.run(line, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
        took = time.monotonic() - began
        told = json.loads(report.read_text(encoding="utf-8")) if report.exists() else None
    return Result(method.name, method.unit, command, code, took, told)


def main() -> int:
    """Run what was asked for and print the table; 1 unless everything held."""
    asked = parser().parse_args()
    wanted = [method for method in METHODS if not asked.only or method.name in asked.only]
    results = [run(method, asked.quick) for method in wanted]
    print(markdown(results))
    if asked.json:
        told = {result.name: result._asdict() for result in results}
        asked.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0 if all(result.held for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())

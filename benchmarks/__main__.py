"""All benchmarks, one table.

    python -m benchmarks [--quick | --full] [--only NAME] [--dir FOLDER] [--json FILE]

Each runs in a process of its own, one after another, so that none is measured in what another left of its memory.
`--only`, which may be given several times, names those to run. `--json` also writes all rows, not only what the table
shows. `--quick` takes under a minute and says nothing about speed. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks import wheel
from benchmarks.machine import child, describe, folder_in
from benchmarks.table import LINES, Row, markdown

APART = "--apart"
QUICK_WHEEL = 10_000


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = made.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes: to see that it works, not what it costs")
    size.add_argument("--full", action="store_true", help="large sizes")
    made.add_argument("--only", metavar="NAME", action="append", choices=tuple(LINES), help=", ".join(LINES))
    made.add_argument("--dir", metavar="FOLDER", help="where to put the journals (default: the system's)")
    made.add_argument("--json", metavar="FILE", type=Path, help="write the machine and all rows there")
    made.add_argument(APART, action="store_true", help=argparse.SUPPRESS)
    return made


def run_one(name: str, quick: bool, full: bool, parent: str | None) -> Sequence[Row]:
    """The rows of one benchmark, run here."""
    if name != "wheel":
        rows: Sequence[Row] = import_module(f"benchmarks.{name}").run(full, quick=quick, parent=parent)
        return rows
    if quick:
        return [wheel.measure(make, QUICK_WHEEL) for make in (wheel.OneByOne, wheel.Pages, wheel.Heap, wheel.Loop)]
    return wheel.run(full)


def run_apart(name: str, asked: argparse.Namespace) -> Sequence[Row]:
    """The rows of one benchmark, run in a process of its own."""
    size = ["--quick"] if asked.quick else ["--full"] if asked.full else []
    folder = ["--dir", asked.dir] if asked.dir else []
    rows: Sequence[Row] = json.loads(child("benchmarks", APART, "--only", name, *size, *folder))
    return rows


def main() -> None:
    """Run what was asked for and print the table."""
    asked = parser().parse_args()
    names = [name for name in LINES if not asked.only or name in asked.only]
    if asked.apart:
        print(json.dumps(run_one(names[0], asked.quick, asked.full, asked.dir)))
        return
    with folder_in(asked.dir) as folder:
        machine = describe(folder)
    results: dict[str, Sequence[Row]] = {}
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = run_apart(name, asked)
    print(markdown(machine, results))
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine, "rows": results}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

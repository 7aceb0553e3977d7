"""The command: arguments in, a progress bar meanwhile, a report at the end. Exit code 0: nothing found; 1: a violation.

python -m timewheel.testing.simulation --seeds 0..999 --store memory,sqlite
python -m timewheel.testing.simulation --seeds 123 --store sqlite --trace
python -m timewheel.testing.simulation --plan failure.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from timewheel.testing.simulation.campaign import Tally, run_campaign
from timewheel.testing.simulation.drawing import draw_plan
from timewheel.testing.simulation.plan import Plan
from timewheel.testing.simulation.running import Violation, run_plan
from timewheel.testing.simulation.shrinking import shrink
from timewheel.testing.simulation.stores import STORES

MOST_SEEDS = 10_000_000
LINE_EVERY_S = 5.0
SHRINK_S = 60.0


def say(text: str, stream: TextIO | None = None) -> None:
    """Write a line, at once."""
    stream = stream or sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def seeds_of(text: str) -> range:
    """`7` or `0..999` (both ends included)."""
    first, dots, last = text.partition("..")
    try:
        begin = int(first)
        end = int(last) if dots else begin
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: give one seed, like 7, or a range, like 0..999") from error
    if not 0 <= begin <= end or end - begin >= MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r}: the first of at most {MOST_SEEDS:,} seeds, then the last")
    return range(begin, end + 1)


def stores_of(text: str) -> list[str]:
    """`memory`, `sqlite` or `memory,sqlite`."""
    names = text.split(",")
    unknown = sorted(set(names) - STORES.keys())
    if unknown:
        raise argparse.ArgumentTypeError(f"no store is called {', '.join(unknown)}: give {' or '.join(sorted(STORES))}")
    return names


def processes_of(text: str) -> int:
    """How many processes."""
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of processes from 1 to 256")
    return int(text)


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        "python -m timewheel.testing.simulation",
        description="Lead the scheduler through lives drawn from seeds, with faults; check every invariant.",
    )
    made.add_argument("--seeds", type=seeds_of, metavar="A..B", help="one seed, like 7, or a range, like 0..999")
    made.add_argument("--store", type=stores_of, default=["memory"], help="memory, sqlite, or memory,sqlite")
    made.add_argument("--jobs", type=processes_of, default=os.cpu_count() or 1, help="processes; default: every core")
    made.add_argument("--report", type=Path, metavar="FILE", help="write the report there, as JSON")
    made.add_argument("--trace", action="store_true", help="tell everything that happens (of one seed, or of a plan)")
    made.add_argument("--plan", type=Path, metavar="FILE", help="replay a plan that was written by --keep")
    made.add_argument("--keep", type=Path, metavar="FILE", help="write the plan of the first violation there, cut down")
    made.add_argument("--no-shrink", action="store_true", help="do not cut a failing plan down")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    made = parser()
    given = made.parse_args(arguments)
    if (given.seeds is None) == (given.plan is None):
        made.error("give either --seeds or --plan")
    if given.plan is not None or (len(given.seeds) == 1 and len(given.store) == 1):
        return _one(made, given)
    if given.trace:
        made.error("--trace is for one seed on one store, or for a plan")
    with _progress(len(given.seeds) * len(given.store)) as progress:
        tally = run_campaign(given.seeds, given.store, jobs=given.jobs, progress=progress, found=_found)
    _tell(tally)
    return _finish(given, tally)


def _one(made: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    if given.plan is not None:
        try:
            plan = Plan.from_json(given.plan.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError, KeyError) as error:
            made.error(f"{given.plan} is no plan: {error}")
    else:
        plan = draw_plan(given.seeds[0], given.store[0])
    began = time.monotonic()
    outcome = run_plan(plan, teller=say if given.trace else None)
    tally = Tally()
    tally.add(outcome)
    tally.took_s = time.monotonic() - began
    if outcome.violation is not None:
        _found(outcome.violation)
    _tell(tally)
    say(f"trace {outcome.trace}")
    return _finish(given, tally)


def _finish(given: argparse.Namespace, tally: Tally) -> int:
    if given.report is not None:
        given.report.write_text(json.dumps(tally.report(), indent=1) + "\n", encoding="utf-8")
    if not tally.violations:
        return 0
    first = tally.violations[0]
    if not given.no_shrink:
        say(f"\ncutting the plan of seed {first.seed} down, for at most {SHRINK_S:g} s ...")
        first = shrink(first, bound_s=SHRINK_S)
    _show(first, given.keep)
    return 1


def _found(violation: Violation) -> None:
    say(f"VIOLATED  {violation}\n")


def _show(violation: Violation, keep: Path | None) -> None:
    say(f"\n{violation.message}\n\nin this plan:\n\n{violation.plan}\n")
    if keep is not None:
        keep.write_text(violation.plan.to_json() + "\n", encoding="utf-8")
        say(f"replay it: python -m timewheel.testing.simulation --plan {keep}")
    else:
        say(f"as data (write it to a file and give that to --plan): {violation.plan.to_json()}")


def _tell(tally: Tally) -> None:
    days = tally.virtual_s / 86_400
    say(
        f"{tally.seeds:,} seeds, {tally.lives:,} lives, {days:,.1f} virtual days in {tally.took_s:.1f} s; "
        f"{tally.jobs:,} jobs, {tally.attempts:,} attempts, {tally.counts['commits']:,} commits"
    )
    faults = tally.faults()
    say(f"{sum(faults.values()):,} faults: " + ", ".join(f"{count:,} {kind}" for kind, count in faults.items()))
    say(f"{len(tally.violations)} violations")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Tally], None]]:
    """A bar on a terminal where rich is installed; else a line every few seconds."""
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:  # rich comes with the extra `serve`; a plain line will do
        yield _plain(total)
        return
    if not sys.stderr.isatty():
        yield _plain(total)
        return
    from rich.console import Console

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        shown = bar.add_task("seeds", total=total)

        def progress(tally: Tally) -> None:
            found = f", {len(tally.violations)} violations" if tally.violations else ""
            bar.update(shown, completed=tally.seeds, description=f"{tally.lives:,} lives{found}")

        yield progress


def _plain(total: int) -> Callable[[Tally], None]:
    told_s = 0.0

    def progress(tally: Tally) -> None:
        nonlocal told_s
        if tally.took_s - told_s >= LINE_EVERY_S:
            told_s = tally.took_s
            done = f"{tally.seeds:,} of {total:,} seeds, {tally.lives:,} lives"
            say(f"{done}, {len(tally.violations)} violations, {tally.took_s:.0f} s", sys.stderr)

    return progress

"""python -m tests.planted [--report FILE.json] [--processes N] [BUG...]: plant every bug, and say what finds it.

Each bug is searched for from seed 0 on. The exit code is 1 when one is not found within its seeds, or by an invariant
that it does not concern.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.planted.bugs import BUGS, PLANTED
from tests.planted.search import Find, search_all


def _line(find: Find) -> str:
    bug = PLANTED[find.bug]
    at = "not found" if find.seed is None else f"seed {find.seed}"
    by = find.invariant if _found(find) else f"{find.invariant} (expected {' '.join(sorted(bug.invariants))})"
    return f"{find.bug:32} {bug.store:7} {at:>10}  by {by:5} of seeds 0..{bug.seeds - 1:<4} {bug.wrong}"


def _found(find: Find) -> bool:
    return find.invariant in PLANTED[find.bug].invariants


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted")
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="the names of bugs; none: all of them")
    parser.add_argument("--report", type=Path, help="write the sums to this file as JSON")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = options.bugs or [bug.name for bug in BUGS]
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn")) as pool:
        finds = []
        for find in pool.map(search_all, names):
            print(_line(find), flush=True)
            finds.append(find)
    found = sum(map(_found, finds))
    faults = sum(find.faults for find in finds)
    print(f"{found} of {len(finds)} planted bugs were found, in {sum(find.played for find in finds)} lives of seeds")
    if options.report:
        sums = {"method": "planted bugs", "cases": len(finds), "found": found, "faults": faults}
        options.report.write_text(json.dumps(sums | {"violations": len(finds) - found}) + "\n")
    return 0 if found == len(finds) else 1


if __name__ == "__main__":
    raise SystemExit(main())

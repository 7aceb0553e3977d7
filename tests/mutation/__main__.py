"""The mutation score of the pure modules: how many small changes of their code make one of their tests fail.

    python -m tests.mutation                          every module; needs `pip install mutmut==3.8.1`
    python -m tests.mutation --only backoff bucket    some of them
    python -m tests.mutation --only backoff.gives_up  one function of one of them
    python -m tests.mutation --report FILE            also writes the numbers as JSON

It works on a copy, so that the checkout stays as it is. A mutant that no test fails on is a survivor. Each must stand
in survivors.toml with the reason why no test can tell it from the original; one that does not is a violation, and so is
a module below 90 %. A mutant that never comes to an end counts as found, and is counted apart as well. Only code inside
functions is mutated, and not that of properties.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.mutation.modules import LEAST_SCORE, MODULES, Module
from tests.mutation.mutants import ROOT, Mutant, read_mutants, run_mutmut
from tests.mutation.survivors import Survivors

VERSION = "3.8.1"  # its verdicts are read from its own files


def say(line: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{line}\n")


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    chosen, functions = _chosen(options.only)
    if find_spec("mutmut") is None:
        say(f"mutmut is not installed here: pip install mutmut=={VERSION}")
        return 69
    folder = Path(tempfile.mkdtemp(prefix="timewheel-mutation-"))
    try:
        run_mutmut(folder, chosen, functions, options.jobs)
        mutants = [mutant for name in chosen for mutant in read_mutants(folder, name, functions.get(name))]
    finally:
        if options.keep:
            say(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    report = _told(mutants, chosen, partly=bool(functions))
    if options.report:
        Path(options.report).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if report["violations"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Mutation score of the pure modules.")
    parser.add_argument("--only", nargs="+", metavar="MODULE[.FUNCTION]", help=f"of {', '.join(MODULES)}")
    parser.add_argument("--report", metavar="FILE", help="write the numbers there, as JSON")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="mutants at once")
    parser.add_argument("--keep", action="store_true", help="keep the copy, for `mutmut browse` in it")
    return parser


def _chosen(only: list[str] | None) -> tuple[dict[str, Module], dict[str, set[str]]]:
    """The modules to mutate, and of some of them the only functions."""
    functions: dict[str, set[str]] = {}
    names: list[str] = []
    for one in only or MODULES:
        name, _, function = one.partition(".")
        if name not in MODULES:
            sys.exit(f"{name!r} is none of {', '.join(MODULES)}")
        names.append(name)
        if function:
            functions.setdefault(name, set()).add(function)
    return {name: MODULES[name] for name in dict.fromkeys(names)}, functions


def _told(mutants: list[Mutant], chosen: dict[str, Module], *, partly: bool) -> dict[str, object]:
    """Print what came of it, and return it as the numbers of the report."""
    survivors = Survivors(ROOT / "tests/mutation/survivors.toml")
    unexplained = [mutant for mutant in mutants if not mutant.found and not survivors.explains(mutant)]
    violations = len(unexplained)
    scores: dict[str, float] = {}
    say(f"{'module':<12}{'mutants':>8}{'found':>8}{'of these without end':>22}{'equivalent':>12}{'score':>9}")
    for name in chosen:
        own = [mutant for mutant in mutants if mutant.module == name]
        found = sum(mutant.found for mutant in own)
        endless = sum(mutant.endless for mutant in own)
        equivalent = sum(not mutant.found and survivors.explains(mutant) for mutant in own)
        scores[name] = round(100 * found / len(own), 1) if own else 0.0
        say(f"{name:<12}{len(own):>8}{found:>8}{endless:>22}{equivalent:>12}{scores[name]:>8}%")
        if scores[name] < LEAST_SCORE and not partly:
            say(f"{name} is below {LEAST_SCORE} %")
            violations += 1
    for mutant in unexplained:
        say(f"\nno test fails on {mutant.name} ({mutant.verdict}):\n  - {mutant.was}\n  + {mutant.becomes}")
    if not partly:
        for entry in survivors.unknown(set(chosen)):
            say(f"\nsurvivors.toml explains what is not there any more: {entry.module}: {entry.becomes}")
            violations += 1
    found = sum(mutant.found for mutant in mutants)
    return {
        "method": "mutation",
        "cases": len(mutants),
        "faults": len(mutants),
        "killed": found,
        "endless": sum(mutant.endless for mutant in mutants),
        "equivalent": len(mutants) - found - len(unexplained),
        "score": round(100 * found / max(len(mutants), 1), 1),
        "scores": scores,
        "violations": violations,
    }


if __name__ == "__main__":
    sys.exit(main())

"""Fuzz what reads bytes that others wrote, with Atheris (libFuzzer): it follows the branches that inputs reach.

    python -m tests.fuzz.parsers times --runs 1000000 [--seconds 60] [--report FILE.json]
    python -m tests.fuzz.parsers all --seconds 30

Targets and their laws are in tests/fuzz/targets.py; tests/fuzz/test_parsers.py holds them with Hypothesis. Atheris is
no dependency of the project (there are no wheels for every platform): `pip install atheris`. Corpus and findings live
in a temporary folder; an input that breaks a law is printed, to become a seed. Exit code 0: none was found.
"""

# ruff: noqa: T201  this program talks by printing

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("times", "options", "stored", "values", "bodies", "rows", "recurrences", "schedule_files")
LONGEST_INPUT = 512
SLOWEST_S = 10


def child(arguments: list[str]) -> None:
    """The process that fuzzes: `TARGET` and libFuzzer's own arguments. Does not return."""
    import atheris

    with atheris.instrument_imports(include=["timewheel", "timewheel_storage", "tests.fuzz"]):
        from tests.fuzz.targets import TARGETS

    target = TARGETS[arguments[0]]
    atheris.Setup([sys.argv[0], *arguments[1:]], target)
    atheris.Fuzz()


def fuzz(name: str, runs: int, seconds: float | None) -> dict[str, Any]:
    """One target: how many inputs were run, and those that broke its law."""
    from tests.fuzz.targets import SEEDS

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="timewheel-fuzz-") as folder:
        corpus, findings = Path(folder, "corpus"), Path(folder, "findings")
        corpus.mkdir()
        findings.mkdir()
        for number, seed in enumerate(SEEDS[name]):
            (corpus / str(number)).write_bytes(seed)
        limits = [f"-runs={runs}", f"-max_len={LONGEST_INPUT}", f"-timeout={SLOWEST_S}"]
        limits += [f"-max_total_time={max(1, round(seconds))}"] if seconds else []
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.parsers", "--child", name, *limits),
                *("-print_final_stats=1", f"-artifact_prefix={findings}/", str(corpus)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        found = [path.read_bytes() for path in sorted(findings.iterdir())]
        counted = re.findall(r"stat::number_of_executed_units:\s+(\d+)", ended.stdout)
        if ended.returncode and not found:
            raise RuntimeError(f"the fuzzer failed (exit {ended.returncode}):\n{ended.stdout}")
        if found:
            print(ended.stdout)
        return {
            "target": name,
            "cases": int(counted[-1]) if counted else 0,
            "violations": len(found),
            "inputs": [repr(one) for one in found],
            "took_s": round(time.monotonic() - began, 1),
        }


def main() -> int:
    """The command; see the module."""
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.parsers", description="Fuzz the parsers.")
    parser.add_argument("target", choices=[*NAMES, "all"])
    parser.add_argument("--runs", type=int, default=-1, help="inputs a target (default: no limit)")
    parser.add_argument("--seconds", type=float, help="time a target (default 60 without --runs)")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write the result there too")
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        parser.error("Atheris is not installed: pip install atheris")
    seconds = options.seconds or (60 if options.runs < 0 else None)
    results = []
    for name in NAMES if options.target == "all" else [options.target]:
        results.append(fuzz(name, options.runs, seconds))
        print("{target}: {cases} inputs, {violations} violations, {took_s} s".format_map(results[-1]), flush=True)
        print(*results[-1]["inputs"], sep="\n", end="")
    violations = sum(result["violations"] for result in results)
    if options.report:
        cases = sum(result["cases"] for result in results)
        report = {"method": "parser fuzzing", "cases": cases, "faults": 0, "violations": violations, "targets": results}
        options.report.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

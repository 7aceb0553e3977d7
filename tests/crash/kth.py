"""The k-th call of the system fails: for every k of a life, and every way to fail.

    python -m tests.crash.kth --all [--report FILE.json]         every k of every life with every fault
    python -m tests.crash.kth --every 25 --offset 7              every 25th of them, from the 7th on
    python -m tests.crash.kth --life full --fault error --k 150  one of them, again

Lives are those of `iolives.py`, faults those of `shim.py`. After each: acknowledged jobs are there, the rest wholly or
not at all, a second start makes everything end as it should, a third changes nothing, and the audit finds nothing. What
passes by must not end the life; what stays ends it with a documented exit code.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash import shim

ROOT = Path(__file__).resolve().parents[2]
LIVES = ("full", "recovery", "migration")
QUICK = "/dev/shm"  # a file system whose syncs cost nothing: what is kept through a power cut is not asked here


class Case(NamedTuple):
    """One life with one fault."""

    life: str
    fault: str
    kth: int

    @property
    def command(self) -> str:
        """What runs it again."""
        return f"python -m tests.crash.kth --life {self.life} --fault {self.fault} --k {self.kth}"


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder of our own, on a quick file system where there is one."""
    folder = Path(tempfile.mkdtemp(prefix="timewheel-kth-", dir=QUICK if os.access(QUICK, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def worker(library: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that runs cases (kth_worker.py), with the shim loaded; it is ended with its children's work done."""
    with quick_folder() as folder:
        paths = os.pathsep.join([str(ROOT), str(ROOT / "storage")])
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.kth_worker", str(folder)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths, "LD_PRELOAD": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=300)
            assert process.stdout is not None
            process.stdout.close()


def result_of(process: subprocess.Popen[str], case: Case) -> dict[str, Any]:
    """Run one case. Raises RuntimeError when the worker ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(case) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the worker ended with {process.wait()} at {case}")
    found: dict[str, Any] = json.loads(line)
    return found


class Campaign:
    """Many cases, and what came of them. `step` and `offset`: every step-th k, from the offset on."""

    def __init__(self, lives: list[str], faults: list[str], step: int = 1, offset: int = 1) -> None:
        self._waiting = [(life, fault) for life in lives for fault in faults]
        self._step, self._offset = step, offset
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.to: Path | None = None  # where the report is written, as far as it goes
        self.done: list[str] = []  # every k of these was tried
        self.cases = 0
        self.faults = 0
        self.reached: dict[str, int] = {}  # k of the last call that met a fault
        self.met: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.wrong: list[dict[str, Any]] = []

    def run(self, workers: int) -> None:
        """Run all of them, on so many processes."""
        with quick_folder() as folder:
            library = shim.compiled(folder)
            threads = [threading.Thread(target=self._work, args=(library,)) for _ in range(workers)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _work(self, library: Path) -> None:
        with worker(library) as process:
            while True:
                with self._lock:
                    if not self._waiting:
                        return
                    life, fault = self._waiting.pop(0)
                self._every_k(process, life, fault)

    def _every_k(self, process: subprocess.Popen[str], life: str, fault: str) -> None:
        kth, beyond = self._offset, 0
        while beyond < 2:  # two lives in a row did not get as far: they differ a little from one another
            result = result_of(process, Case(life, fault, kth))
            with self._lock:
                self._count(result)
            beyond = 0 if result["hit"] else beyond + 1
            kth += self._step
        with self._lock:
            self.done.append(f"{life} {fault}")
            self._write()

    def _write(self) -> None:
        if self.to is not None:
            self.to.write_text(json.dumps(self.report(), indent=1) + "\n")

    def _count(self, result: dict[str, Any]) -> None:
        name = f"{result['life']} {result['fault']}"
        self.cases += 1
        self.faults += bool(result["hit"])
        if result["hit"]:
            self.reached[name] = result["kth"]
            self.codes[f"{result['fault']}: {result['code']}"] += 1
            self.met.update(f"{result['fault']}: {error}" for error in set(result["met"]))
        if result["wrong"]:
            self.wrong.append(result)
            show(result)
        if self.cases % 50 == 0:
            self._write()

    def report(self) -> dict[str, Any]:
        """As the project's reports are."""
        return {
            "method": "k-th I/O",
            "cases": self.cases,
            "faults": self.faults,
            "violations": len(self.wrong),
            "seconds": round(time.monotonic() - self._began, 1),
            "done": self.done,
            "reached": self.reached,
            "codes": dict(sorted(self.codes.items())),
            "errors": dict(sorted(self.met.items())),
            "wrong": self.wrong,
        }


def show(result: dict[str, Any]) -> None:
    """Say what is wrong with a case."""
    case = Case(result["life"], result["fault"], result["kth"])
    lines = [case.command, f"  at: {result['hit']}", result["wrong"], result.get("errors", ""), result.get("told", "")]
    sys.stderr.write("\n".join(lines) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.kth", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--all", action="store_true", help="every k")
    parser.add_argument("--every", type=int, default=25, help="every so manieth k")
    parser.add_argument("--offset", type=int, default=1, help="the first k")
    parser.add_argument("--life", choices=LIVES, action="append", help="only this life (may be repeated)")
    parser.add_argument("--fault", choices=list(shim.FAULTS), action="append", help="only this fault (may be repeated)")
    parser.add_argument("--k", type=int, help="only this k")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", type=Path, help="write the result to this file, as JSON, as it goes on")
    given = parser.parse_args(arguments)
    lives, faults = given.life or list(LIVES), given.fault or list(shim.FAULTS)
    if given.k is not None:
        return one(Case(lives[0], faults[0], given.k))
    campaign = Campaign(lives, faults, 1 if given.all else given.every, 1 if given.all else given.offset)
    campaign.to = given.report
    campaign.run(given.workers)
    report = campaign.report()
    summary = {key: value for key, value in report.items() if key != "wrong"}
    sys.stdout.write(json.dumps(summary, indent=1) + "\n")
    return 1 if campaign.wrong or not campaign.faults else 0


def one(case: Case) -> int:
    """One case, shown whole."""
    with quick_folder() as folder, worker(shim.compiled(folder)) as process:
        result = result_of(process, case)
    if result["wrong"]:
        show(result)
    sys.stdout.write(json.dumps(result) + "\n")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

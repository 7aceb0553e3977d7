"""What the reports of all methods come to: a Markdown table, one line a method."""

import os
import platform
import sqlite3
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("method", "cases", "faults injected", "violations", "took", "command: `python -m ...`")


class Result(NamedTuple):
    """What came of one method; `told` is its own report, None if it made none."""

    name: str
    unit: str
    command: str
    exit_code: int
    took_s: float
    told: dict[str, Any] | None

    @property
    def held(self) -> bool:
        """Whether it ran to its end and found nothing."""
        return self.exit_code == 0 and self.told is not None and self.told["violations"] == 0


def markdown(results: Sequence[Result]) -> str:
    """The table, under a line that says when, where and on what it was made."""
    lines = [provenance(), "", _row(COLUMNS), _row(["---"] * len(COLUMNS))]
    return "\n".join([*lines, *(_line(result) for result in results)])


def _line(result: Result) -> str:
    told = result.told
    if told is None:
        cells = ["no report", "", f"exit {result.exit_code}"]
    else:
        failed = "" if result.held or told["violations"] else f", exit {result.exit_code}"
        cells = [f"{told['cases']:,} {result.unit}", f"{told['faults']:,}", f"{told['violations']:,}{failed}"]
    return _row([result.name, *cells, f"{result.took_s:,.0f} s", f"`{result.command}`"])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def provenance() -> str:
    """When, at which commit, and on what."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    return (
        f"Run on {datetime.now(UTC):%Y-%m-%d} at {commit or 'an unknown commit'} with `python -m tests.proof`: "
        f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}."
    )

"""SIGKILLs of real processes: nothing that was acknowledged is lost, nothing runs that should not, every time.

    python -m tests.crash.kills --kills 400 --serve 100 --seed 1 [--report FILE.json]

Each journal goes through several lives: an embedding program (`embedded`) or a real `serve` under HTTP clients
(`clients`) is killed at a moment that the seed draws: anywhere from the first instruction on, right around the start
(creation and migration of the file, recovery), around a commit, around a checkpoint. Some lives get a SIGTERM instead.
After each life the pipe is read to its end and the journal judged (`book`, and the audit of `verify`); after the last
one everything is drained and judged again. Ends with 1 when anything is wrong, and keeps the folder then.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.book import Book, starts_after
from tests.crash.clients import serve_life
from tests.crash.journals import dump_of, findings, lines_of
from tests.crash.lives import ERRORS, Ended, drain, embedded_life
from tests.crash.work import RUNS

LIVES = 12  # of a journal, at most


@dataclass(slots=True)
class Campaign:
    """The counts of a run, and what was wrong."""

    folder: Path
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def embedded(self, kills: int) -> None:
        """Journals of embedding programs, until so many were killed."""
        wanted = self.counts["embedded kills"] + kills
        while self.counts["embedded kills"] < wanted and not self.wrong:
            self._journal("embedded", wanted)

    def serve(self, kills: int) -> None:
        """Journals of `serve`, until so many were killed."""
        wanted = self.counts["serve kills"] + kills
        while self.counts["serve kills"] < wanted and not self.wrong:
            self._journal("serve", wanted)

    def _journal(self, kind: str, wanted: int) -> None:
        self.counts["journals"] += 1
        number = self.counts["journals"]
        chance = random.Random(f"{self.seed} {number}")
        folder = self.folder / f"{kind}-{number}"
        folder.mkdir()
        book = Book()
        life = 0
        for life in range(1, chance.randint(3, LIVES) + 1):
            if self.counts[f"{kind} kills"] >= wanted:
                break
            ended = (embedded_life if kind == "embedded" else serve_life)(folder, book, life, chance)
            self._count(kind, ended)
            self._judge(folder, book, ended)
        self._judge(folder, book, drain(folder, book, life + 1))
        self.counts["acknowledgements"] += book.acknowledgements
        self.counts["lost attempts"] += book.lost
        self.wrong += [f"{folder} (seed {self.seed}): {each}" for each in book.wrong]
        if not book.wrong:
            shutil.rmtree(folder)

    def _count(self, kind: str, ended: Ended) -> None:
        self.counts[f"{kind} kills"] += ended.killed
        self.counts["SIGTERMs"] += ended.draining is not None
        self.counts[f"kills: {ended.when}"] += ended.killed

    def _judge(self, folder: Path, book: Book, ended: Ended) -> None:
        journal = folder / "jobs.db"
        runs = lines_of(folder / RUNS)
        if not journal.exists():
            if book.acknowledgements:
                book.wrong.append("I1: the journal is gone")
            return
        book.wrong += [f"verify: {each}" for each in findings(journal)]
        book.look(dump_of(journal), runs, drained=ended.drained, clean=ended.code == 0)
        if ended.draining is not None:
            book.wrong += starts_after(runs, ended.draining)
        if not ended.killed and ended.code != 0:
            book.wrong.append(f"it ended with {ended.code}: {(folder / ERRORS).read_text()[-3000:]}")


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.kills", description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=400, help="of the embedding program")
    parser.add_argument("--serve", type=int, default=100, help="of serve")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="timewheel-kills-"))
    campaign = Campaign(folder, options.seed)
    campaign.embedded(options.kills)
    campaign.serve(options.serve)
    kills = campaign.counts["embedded kills"] + campaign.counts["serve kills"]
    report = {
        "method": "SIGKILL of real processes, embedded and serve",
        "cases": campaign.counts["journals"],
        "faults": kills,
        "violations": len(campaign.wrong),
        "seed": options.seed,
        "seconds": round(time.monotonic() - began, 1),
        **campaign.counts,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    if options.report:
        options.report.write_text(json.dumps(report))
    for each in campaign.wrong:
        sys.stderr.write(f"{each}\n")
    if not campaign.wrong:
        folder.rmdir()
    return int(bool(campaign.wrong))


if __name__ == "__main__":
    sys.exit(main())

"""One flipped bit at a time, in the log or in the database of a journal that nobody has open.

    python -m tests.crash.flips --flips 2000 --seed 1 [--report FILE.json]

In the log: either nothing is lost (the bit did not count), or the start is refused (JournalTruncated names the range,
JournalCorrupt), and every file stays as it was. In the database, whose pages SQLite keeps no checksums of: the start is
refused or no job is lost; a value that changed in silence is counted, for nobody can tell it from a true one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from timewheel.errors import JournalError
from timewheel.testing.builders import claim, owner, settle_ok, settle_retry, stamp, submit
from timewheel_storage.sqlite import open_sqlite

File = Literal["log", "database"]
NAMES: dict[File, str] = {"log": "jobs.db-wal", "database": "jobs.db"}


async def make(folder: Path) -> dict[str, Any]:
    """A journal with a part in the database and a part in the log, and a mark that knows all of it; its dump."""
    store = open_sqlite(str(folder / "live.db"))
    await store.open()
    await store.own(owner())
    for job in range(1, 81):
        await store.commit([submit(job, arguments=f"[{job}]", idempotency_key=f"k{job}", digest="d")], stamp(1))
    await store.commit([claim(*range(1, 41))], stamp(1))
    await store.check()
    await store.check()  # idle: it is written back
    await store.commit([*(settle_ok(job) for job in range(1, 21)), settle_retry(21)], stamp(1))
    for job in range(81, 121):
        await store.commit([submit(job, arguments=f"[{job}]")], stamp(1))
    await store.check()
    dump = await store.dump()
    for ending in ("", "-wal", ".mark"):
        shutil.copy(folder / f"live.db{ending}", folder / f"jobs.db{ending}")
    await store.close()
    return dump


class Flips:
    """See the module."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._folder = folder
        self._chance = random.Random(seed)
        self._truth: dict[str, Any] = {}

    async def run(self, flips: int) -> None:
        """So many, half of them in each file."""
        self._truth = await make(self._folder)
        for number in range(flips):
            await self._flip("log" if number % 2 else "database")

    async def _flip(self, which: File) -> None:
        place = self._folder / "flipped"
        place.mkdir()
        for ending in ("", "-wal", ".mark"):
            shutil.copy(self._folder / f"jobs.db{ending}", place)
        damaged = place / NAMES[which]
        content = bytearray(damaged.read_bytes())
        at, bit = self._chance.randrange(len(content)), self._chance.randrange(8)
        content[at] ^= 1 << bit
        damaged.write_bytes(content)
        before = dict(_contents(place))
        self.counts["flips"] += 1
        for complaint in await self._look(which, place, before):
            self.wrong.append(f"{which}, byte {at}, bit {bit}: {complaint}")
        shutil.rmtree(place)

    async def _look(self, which: File, place: Path, before: dict[str, bytes]) -> list[str]:
        store = open_sqlite(str(place / "jobs.db"))
        try:
            await store.open()
            found = await store.dump()
        except JournalError as refused:
            self.counts[f"{which}: {type(refused).__name__}"] += 1
            await store.close()
            return [] if dict(_contents(place)) == before else [f"refused ({refused}), and a file changed"]
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        await store.close()
        if found == self._truth:
            self.counts[f"{which}: nothing was lost"] += 1
            return []
        lost = self._truth["jobs"].keys() - found["jobs"].keys()
        if which == "log" or lost:
            return [f"the jobs {sorted(lost)} are gone in silence"] if lost else ["something changed in silence"]
        self.counts["database: a value changed, which nobody can tell"] += 1
        return []


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.iterdir():
        if path.suffix in (".db", ".mark") or (path.name.endswith("-wal") and path.stat().st_size):
            yield path.name, path.read_bytes()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.flips")
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="timewheel-flips-") as folder:
        flips = Flips(Path(folder), options.seed)
        asyncio.run(flips.run(options.flips))
    report = {
        "method": "one flipped bit in the log or the database",
        "cases": flips.counts["flips"],
        "faults": flips.counts["flips"],
        "violations": len(flips.wrong),
        "seed": options.seed,
        "seconds": round(time.monotonic() - began, 1),
        **flips.counts,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    if options.report:
        options.report.write_text(json.dumps(report))
    for each in flips.wrong:
        sys.stderr.write(f"{each}\n")
    return int(bool(flips.wrong))


if __name__ == "__main__":
    sys.exit(main())

"""Power cuts: every call of a life is recorded once, and the images that a cut may leave behind it are opened.

    python -m tests.crash.power --images 10000 --seed 1 [--report FILE.json] [--keep FOLDER]

What was not synced survived not at all, wholly, up to a call in whose midst the power went, or at random: call by call,
sector by sector, name by name (power_disk.py). Each image is opened and taken over as the product does it, and audited;
every acknowledged job must be there, every cancelled one cancelled, and any other wholly there or not at all.

    life                     how it is judged
    full, busy, migration    as above
    recovery                 recorded on an image of `full` that a power cut left
    failed sync              one sync fails with EIO: what it was to write may be forgotten, the next sync does not help
    process                  durability "process": the last commits may be missing, never anything else; a missing
                             one that the high-water mark knows of is told
    control: off             the same journal without syncs (synchronous=OFF) must be seen to lose and to break
    control: lies            so must a disk whose syncs do nothing
    control: hole            and a program that does not repair the log after a failed sync
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.crash import iolives_told, power_look, shim
from tests.crash.kth import ROOT, quick_folder
from tests.crash.power_disk import KINDS, Disk

JOURNAL = "jobs.db"
FAILING_SYNCS = (3, 9, 11, 12, 13, 14, 16, 19, 25, 31, 38)
HOLE = 22  # the sync whose failure the control leaves as it is: one of the log
RECOVERIES = 3
SHARES = {"full": 4, "busy": 6, "migration": 2, "recovery": 2, "failed sync": 4, "process": 2}
CONTROLS = ("control: off", "control: lies", "control: hole")
CONTROL_IMAGES = 150
LIVED = 25  # on every so manieth image the real scheduler starts, and lets everything come to its end


@dataclass
class Recording:
    """The calls of one life, and what the disk held before it."""

    name: str
    folder: Path
    records: list[shim.Record]
    before: dict[str, tuple[int, bytes]]  # by name: inode and content
    told_before: bytes = b""
    durability: str = "power"
    lies: bool = False
    migrates: bool = False
    crashes: int = 1  # one cut, and those before the recording

    def disk(self) -> Disk:
        """The disk before the first call."""
        disk = Disk(self.folder, lies=self.lies)
        for name, (inode, content) in self.before.items():
            disk.hold(name, inode, content)
        return disk


def record(home: Path, library: Path, name: str, life: str, *options: str, **traits: Any) -> Recording:
    """Live it once, recorded. HOME/journal may hold a journal already. Raises RuntimeError when it did not end well."""
    journal = home / "journal"
    journal.mkdir(parents=True, exist_ok=True)
    before = {path.name: (path.stat().st_ino, path.read_bytes()) for path in journal.iterdir()}
    told = (home / "told").read_bytes() if (home / "told").exists() else b""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "storage")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.power_record", str(home), life, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(f"recording {name} ended with {done.returncode}: {done.stderr[-4000:]}")
    found = Recording(name, journal, list(shim.records(home / "log")), before, told, **traits)
    check_complete(found)
    return found


def check_complete(recording: Recording) -> None:
    """The calls tell all that the files became: else the recorder is blind to something."""
    disk = recording.disk()
    for each in recording.records:
        if each.operation is not shim.Operation.ACKNOWLEDGE:
            disk.apply(each)
    for name, content in disk.now().items():
        if not name.endswith("-shm") and (recording.folder / name).read_bytes() != content:
            raise RuntimeError(f"{recording.name}: the recorder did not see all that became of {name}")


class Campaign:
    """Many images, and what was wrong with them. `keep`: where images that are wrong are kept."""

    def __init__(self, seed: int, folder: Path, keep: Path | None = None, *, brief: bool = False) -> None:
        """`brief`: with fewer recordings."""
        self._seed = seed
        self._folder = folder
        self._keep = keep
        self._failing_syncs = FAILING_SYNCS[5:7] if brief else FAILING_SYNCS
        self._recoveries = 1 if brief else RECOVERIES
        self._library = shim.compiled(folder)
        self.images: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()  # images in which commits were missing that could be
        self.told: Counter[str] = Counter()  # and of those, images in which it was told
        self.lived = 0
        self.wrong: list[dict[str, str]] = []
        self.seen_by_control: Counter[str] = Counter()

    def run(self, images: int) -> None:
        """Record the lives and look at so many images of them, and at those of the controls."""
        whole = sum(SHARES.values())
        full = self._record("full", "full")
        for name, share in SHARES.items():
            recordings = self._recordings(name, full)
            for number, recording in enumerate(recordings):
                self.cut(recording, -(-images * share // whole // len(recordings)), f"{self._seed} {number}")
        for name in CONTROLS:
            (recording,) = self._recordings(name, full)
            self.cut(recording, CONTROL_IMAGES, str(self._seed))

    def _recordings(self, name: str, full: Recording) -> list[Recording]:
        if name == "full":
            return [full]
        if name == "recovery":
            return [self._recovery(full, number) for number in range(self._recoveries)]
        if name == "failed sync":
            return [self._record(name, "full", "--failing-sync", str(number)) for number in self._failing_syncs]
        if name == "process":
            return [self._record(name, "full", "--durability", "process", durability="process")]
        if name == "migration":
            return [self._migration()]
        if name == "control: off":
            return [self._record(name, "busy", "--durability", "off")]
        if name == "control: lies":
            return [Recording(name, full.folder, full.records, full.before, lies=True)]
        if name == "control: hole":
            return [self._record(name, "full", "--leave-holes", "--failing-sync", str(HOLE))]
        return [self._record(name, name)]

    def _record(self, name: str, life: str, *options: str, **traits: Any) -> Recording:
        home = self._folder / f"{name.replace(': ', '-').replace(' ', '-')}-{options[-1] if options else ''}"
        return record(home, self._library, name, life, *options, **traits)

    def _recovery(self, full: Recording, number: int) -> Recording:
        """A second life on what a power cut left of the first."""
        random = Random(f"{self._seed} recovery {number}")
        cut = random.randrange(len(full.records) // 2, len(full.records))
        disk, told = full.disk(), b""
        for each in full.records[:cut]:
            if each.operation is shim.Operation.ACKNOWLEDGE:
                told += each.data
            else:
                disk.apply(each)
        home = self._folder / f"recovery-{number}"
        power_look.spread(disk.image(random.choice(("none", "subset", "sectors")), random), home / "journal")
        (home / "told").write_bytes(told)
        return record(home, self._library, "recovery", "recovery", crashes=2)

    def _migration(self) -> Recording:
        first = self._folder / "migration-first"
        record(first, self._library, "before migration", "full")
        home = self._folder / "migration"
        shutil.copytree(first / "journal", home / "journal")
        shutil.copy(first / "told", home / "told")
        return record(home, self._library, "migration", "migration", migrates=True)

    # ---- cuts --------------------------------------------------------------------------------------------------------

    def cut(self, recording: Recording, images: int, seed: str) -> None:
        """Look at so many images, spread over all calls of a recording."""
        random = Random(f"{seed} {recording.name}")
        cuts = Counter(int((number + random.random()) * len(recording.records) / images) for number in range(images))
        disk, told = recording.disk(), recording.told_before
        for number, each in enumerate(recording.records):
            if each.operation is shim.Operation.ACKNOWLEDGE:
                told += each.data
            else:
                disk.apply(each)
            for _ in range(cuts[number]):
                kind = random.choice(KINDS)
                self._look(recording, disk.image(kind, random), told, f"call {number}, {kind}")

    def _look(self, recording: Recording, image: dict[str, bytes], told: bytes, place: str) -> None:
        folder = self._folder / "image"
        power_look.spread(image, folder)
        self.images[recording.name] += 1
        self.kinds[place.split(", ")[1]] += 1
        lines = iolives_told.Told([json.loads(line) for line in told.decode().split("\n")[:-1]])
        look = power_look.Look(folder / JOURNAL, lines, recording.durability, migrates=recording.migrates)
        try:
            look.check()
            if self.images[recording.name] % LIVED == 0 and recording.durability == "power":
                (self._folder / "told").write_bytes(told)
                look.live(self._folder / "told", recording.crashes)
                self.lived += 1
        except Exception as error:
            self._note(recording, place, error)
        self.lost[recording.name] += look.lost
        self.told[recording.name] += look.told_of_loss

    def _note(self, recording: Recording, place: str, error: Exception) -> None:
        if recording.name in CONTROLS:
            loses = isinstance(error, iolives_told.invariants.Violated)
            self.seen_by_control[f"{recording.name}: {'loss' if loses else 'damage'}"] += 1
            return
        what = f"{type(error).__name__}: {error}"
        self.wrong.append({"life": recording.name, "place": place, "wrong": what[:2000]})
        sys.stderr.write(f"{recording.name}, {place}: {what[:600]}\n")
        if self._keep is not None:
            shutil.copytree(self._folder / "image", self._keep / f"{len(self.wrong)}", dirs_exist_ok=True)

    def report(self, seconds: float) -> dict[str, Any]:
        """As the project's reports are. A control that saw nothing is a violation: the method would be broken."""
        blind = [name for name in CONTROLS if not any(key.startswith(name) for key in self.seen_by_control)]
        cases = sum(count for name, count in self.images.items() if name not in CONTROLS)
        return {
            "method": "power cut",
            "cases": cases,
            "faults": cases,
            "violations": len(self.wrong) + len(blind),
            "seconds": round(seconds, 1),
            "seed": self._seed,
            "images": dict(self.images),
            "lived on": self.lived,
            "kinds": dict(self.kinds),
            "process durability": {"lost commits": self.lost["process"], "and told so": self.told["process"]},
            "controls": dict(self.seen_by_control),
            "blind controls": blind,
            "wrong": self.wrong,
        }


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.power", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--images", type=int, default=1_000, help="how many, without those of the controls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="write the result to this file, as JSON")
    parser.add_argument("--keep", type=Path, help="keep the images that are wrong in this folder")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    with quick_folder() as folder:
        campaign = Campaign(given.seed, folder, given.keep)
        campaign.run(given.images)
    report = campaign.report(time.monotonic() - began)
    if given.report is not None:
        given.report.write_text(json.dumps(report, indent=1) + "\n")
    sys.stdout.write(json.dumps({key: value for key, value in report.items() if key != "wrong"}, indent=1) + "\n")
    return 1 if report["violations"] or not report["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())

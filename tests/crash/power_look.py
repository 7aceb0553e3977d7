"""One image of a disk after a power cut: opened as the product does it, and held against what was told."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash import iolives, iolives_told
from timewheel.store.port import Owner
from timewheel.testing import invariants
from timewheel_storage.sqlite import schema
from timewheel_storage.sqlite.connection import Durability, open_reader, open_writer
from timewheel_storage.sqlite.files import DiskFiles
from timewheel_storage.sqlite.keeping import Keeper
from timewheel_storage.sqlite.read_letters import everything

SHARED_MEMORY = os.urandom(32 * 1024)  # what SQLite had in memory alone: anything may be left of it


def spread(image: dict[str, bytes], folder: Path) -> None:
    """Write an image to a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in image.items():
        if name.endswith("-shm"):
            content = SHARED_MEMORY[: len(content)]
        if not name.endswith(".reserve"):  # a whole MiB of nothing, which is made anew
            (folder / name).write_bytes(content)


class AfterBoot(DiskFiles):
    """The files as another boot of the machine finds them."""

    def boot_id(self) -> str:
        return "after the power cut"


class Look:
    """Looks at one image. `lost`: acknowledged things are missing that could be; `told_of_loss`: and that was told."""

    def __init__(self, path: Path, told: iolives_told.Told, durability: str, *, migrates: bool = False) -> None:
        self._path = path
        self._told = told
        self._durability: Durability = "process" if durability == "process" else "power"
        self._migrates = migrates
        self.lost = False
        self.told_of_loss = False

    def check(self) -> None:
        """Raises Violated, or what opening raises."""
        if not self._path.exists():
            started = any(line[:2] == ["ack", "start"] for line in self._told.lines)
            invariants.demand(not started, "I2", "there is no journal")
            return
        if self._migrates:
            iolives_told.check_migrated("migration", self._path)
        files = AfterBoot(str(self._path))
        with updated(self._migrates):
            self._open(files)
            iolives_told.audited(self._path)

    def _open(self, files: DiskFiles) -> None:
        reader = open_reader(files, again=False)
        try:
            files.watch()
            before = everything(reader)
            epoch, commits, journal_id = reader.execute("SELECT epoch, commits, journal_id FROM meta").fetchone()
            mark = files.read_mark()
            leads = mark is not None and mark.journal_id == journal_id and mark.commits > commits
            writer = open_writer(files, self._durability)
            try:
                owner = Owner("after the power cut", 1, iolives.ORIGIN_US)
                ownership = Keeper(files, self._durability).take_over(writer, owner)
                (kinds,) = reader.execute("SELECT group_concat(kind) FROM entries").fetchone()
            finally:
                writer.close()
            invariants.demand(ownership.epoch == epoch + 1, "I22", f"epoch {ownership.epoch} follows {epoch}")
            after = everything(reader)
        finally:
            reader.close()
        invariants.demand(after == before, "I16", "taking over changed a job")
        self.told_of_loss = "commits_lost" in (kinds or "")
        invariants.demand(self.told_of_loss == leads, "I2", f"mark {mark}, {commits} commits, told: {kinds}")
        self._judge(after)

    def _judge(self, dump: iolives_told.Dump) -> None:
        invariants.check_dump(dump)
        try:
            iolives_told.check_promises(self._told, dump)
        except invariants.Violated:
            if self._durability == "power":
                raise
            self.lost = True
        else:
            iolives_told.check_starts(self._told, dump)
        unknown = iolives_told.by_name(dump).keys() - self._told.asked
        invariants.demand(not unknown, "I3", f"never asked for: {sorted(unknown)}")

    def live(self, told_at: Path, crashes: int) -> None:
        """Start the real scheduler on it and let everything come to its end. Raises as `check` does."""
        if not self._path.exists():
            return
        with updated(self._migrates):
            asyncio.run(iolives_told.quiet_start(self._path, told_at))
            told, dump = iolives_told.told_in(told_at), iolives_told.state_of(self._path)
        iolives_told.check_promises(told, dump)
        iolives_told.check_starts(told, dump)
        iolives_told.check_ends(told, dump, crashes)


@contextmanager
def updated(wanted: bool) -> Iterator[None]:
    """While it lasts, this process is of a version with one more migration, if `wanted`."""
    scripts = schema.migrations
    try:
        if wanted:
            iolives.update_to_come()
        yield
    finally:
        schema.migrations = scripts

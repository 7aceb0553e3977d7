"""What a disk may hold after a power cut, told by the calls that were made before it.

A write, a new length or a change of names is certain only after the sync of its file or folder. Until then it may have
survived or not, each on its own, and a write sector by sector. A sync that failed makes nothing certain, and the next
one does not either: the system has forgotten what it could not write.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.crash.shim import Operation, Record

SECTOR = 512
UNCERTAIN, CERTAIN, FORGOTTEN = "uncertain", "certain", "forgotten"
KINDS = ("none", "all", "prefix", "subset", "sectors", "names")
Keep = Callable[["Change"], Iterator[tuple[int, int]]]  # which bytes of a change survived


@dataclass
class Change:
    """One change of a file: a write, or a new length (`data` is None)."""

    number: int
    offset: int
    data: bytes | None
    state: str = UNCERTAIN

    @property
    def size(self) -> int:
        """In bytes; a new length counts as one."""
        return 1 if self.data is None else len(self.data)


@dataclass
class File:
    """What is certain of a file, and the changes since."""

    certain: bytes = b""
    changes: list[Change] = field(default_factory=list)

    def content(self, keep: Keep, fill: Callable[[int], bytes]) -> bytes:
        """With what is kept of its changes; `fill` makes what a file's end leaves open."""
        content = bytearray(self.certain)
        for change in self.changes:
            for begin, end in everything(change) if change.state == CERTAIN else keep(change):
                _make(content, change, begin, end, fill)
        return bytes(content)

    def sync(self, *, failed: bool) -> None:
        """A sync of it. What it forgot stays forgotten, until something certain lies over it."""
        for change in self.changes:
            if change.state == UNCERTAIN:
                change.state = FORGOTTEN if failed else CERTAIN
                if change.state == CERTAIN and change.data is None and change.offset == 0:
                    self.certain, self.changes = b"", self.changes[self.changes.index(change) :]
        if all(change.state == CERTAIN for change in self.changes):
            self.certain, self.changes = self.content(everything, bytes), []


def _make(content: bytearray, change: Change, begin: int, end: int, fill: Callable[[int], bytes]) -> None:
    if change.data is None:
        if len(content) > change.offset:
            del content[change.offset :]
        else:
            content.extend(bytes(change.offset - len(content)))
        return
    place = change.offset + begin
    if place > len(content):
        content.extend(fill(place - len(content)))
    content[place : change.offset + end] = change.data[begin:end]


def everything(change: Change) -> Iterator[tuple[int, int]]:
    """All of it survived."""
    yield 0, change.size


def nothing(_: Change) -> Iterator[tuple[int, int]]:
    """None of it survived."""
    return iter(())


@dataclass
class Renaming:
    """One uncertain change of the names: what is gone, and what has come."""

    number: int
    gone: str | None
    come: tuple[str, int] | None

    def make(self, names: dict[str, int]) -> None:
        """Make it."""
        if self.gone is not None:
            names.pop(self.gone, None)
        if self.come is not None:
            names[self.come[0]] = self.come[1]


class Disk:
    """One folder. `lies`: its syncs do nothing."""

    def __init__(self, folder: Path, *, lies: bool = False) -> None:
        """`folder`, as it was recorded, holds for certain what it holds now."""
        self._folder = str(folder)
        self._lies = lies
        self._files: dict[int, File] = {}
        self._inodes: dict[int, int] = {}
        self._names: dict[str, int] = {}
        self._renamings: list[Renaming] = []
        self._count = 0

    def hold(self, name: str, inode: int, content: bytes) -> None:
        """For certain hold a file from before the recording."""
        self._files[inode] = File(content)
        self._inodes[inode] = inode
        self._names[name] = inode

    # ---- what happened -----------------------------------------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """A call was made."""
        self._count += 1
        name, second = os.path.basename(record.path), os.path.basename(record.second)
        match record.operation:
            case Operation.CREATE:
                self._inodes[record.inode] = self._count
                self._files[self._count] = File()
                self._rename(None, (name, self._count))
            case Operation.OPEN:
                self._change(record.inode, 0, None)  # it was cut to length zero
            case Operation.WRITE:
                self._change(record.inode, record.offset, record.data)
            case Operation.TRUNCATE:
                self._change(record.inode, record.offset, None)
            case Operation.SYNC:
                self._sync(record)
            case Operation.UNLINK:
                self._rename(name, None)
            case Operation.RENAME:
                self._rename(name, (second, self.names()[name]))
            case Operation.LINK:
                self._rename(None, (second, self.names()[name]))
            case _:
                raise AssertionError(f"no change: {record}")

    def _change(self, inode: int, offset: int, data: bytes | None) -> None:
        self._file(inode).changes.append(Change(self._count, offset, data))

    def _file(self, inode: int) -> File:
        return self._files[self._inodes[inode]]

    def _rename(self, gone: str | None, come: tuple[str, int] | None) -> None:
        self._renamings.append(Renaming(self._count, gone, come))

    def _sync(self, record: Record) -> None:
        if self._lies:
            return
        if record.path != self._folder:
            self._file(record.inode).sync(failed=bool(record.error))
        elif not record.error:
            self._names = self.names()
            self._renamings = []

    def names(self) -> dict[str, int]:
        """The files by name, as the system shows them."""
        names = dict(self._names)
        for renaming in self._renamings:
            renaming.make(names)
        return names

    # ---- what may be left --------------------------------------------------------------------------------------------

    def image(self, kind: str, random: Random) -> dict[str, bytes]:
        """What a power cut now may leave: the content of each file by its name. `kind`: one of KINDS."""
        names = dict(self._names)
        last = self._last(random)
        for renaming in self._renamings:
            if self._renames(kind, renaming, last, random):
                renaming.make(names)
        keep = self._keep(kind, last, random)
        fill = bytes if random.random() < 0.5 else random.randbytes
        return {name: self._files[number].content(keep, fill) for name, number in names.items()}

    def now(self) -> dict[str, bytes]:
        """What the system shows, had there been no power cut."""
        return self.image("all", Random(0))

    def _last(self, random: Random) -> int:
        """The change that a cut in the middle meets."""
        uncertain = [change.number for file in self._files.values() for change in file.changes]
        uncertain += [renaming.number for renaming in self._renamings]
        return random.choice(uncertain) if uncertain else 0

    @staticmethod
    def _renames(kind: str, renaming: Renaming, last: int, random: Random) -> bool:
        if kind == "prefix":
            return renaming.number <= last
        return kind == "all" or (kind in ("subset", "sectors", "names") and random.random() < 0.5)

    @staticmethod
    def _keep(kind: str, last: int, random: Random) -> Keep:
        share = random.choice((0.1, 0.5, 0.9))
        remembers = random.random() < 0.3  # what a failed sync forgot

        def keep(change: Change) -> Iterator[tuple[int, int]]:
            return nothing(change) if change.state == FORGOTTEN and not remembers else keeper(change)

        def prefix(change: Change) -> Iterator[tuple[int, int]]:
            if change.number < last:
                yield 0, change.size
            elif change.number == last:
                yield from torn(change)

        def torn(change: Change) -> Iterator[tuple[int, int]]:
            sectors = -(-change.size // SECTOR)
            kept = random.randrange(sectors + 1) * SECTOR
            if kept:
                yield 0, min(kept, change.size)

        def subset(change: Change) -> Iterator[tuple[int, int]]:
            if random.random() < share:
                yield 0, change.size

        def sectors(change: Change) -> Iterator[tuple[int, int]]:
            for begin in range(0, change.size, SECTOR):
                if random.random() < share:
                    yield begin, min(begin + SECTOR, change.size)

        keepers: dict[str, Keep] = {"none": nothing, "all": everything, "prefix": prefix, "subset": subset}
        keeper = keepers.get(kind, sectors if kind == "sectors" else everything)
        return keep if kind != "all" else everything

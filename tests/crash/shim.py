"""shim.c from Python: compile it, and drive it in a process that was started with it."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

EVER = 1 << 40
FLAGS = ("-shared", "-fPIC", "-O1")
SOURCE = Path(__file__).with_name("shim.c")


class Operation(IntEnum):
    """What a call does to the files."""

    OPEN = 0
    CREATE = 1
    WRITE = 2
    SYNC = 3
    TRUNCATE = 4
    UNLINK = 5
    RENAME = 6
    LINK = 7
    READ = 8
    ACKNOWLEDGE = 9


class Fault(NamedTuple):
    """What happens to the calls that meet it, and to which operations it happens."""

    name: str
    code: int
    lasts: int  # so many calls
    operations: tuple[Operation, ...]

    @property
    def for_ever(self) -> bool:
        """Whether it stays."""
        return self.lasts == EVER

    @property
    def mask(self) -> int:
        """The operations as the shim takes them."""
        return sum(1 << one for one in self.operations)


_O = Operation
_CHANGES = (_O.OPEN, _O.CREATE, _O.WRITE, _O.SYNC, _O.TRUNCATE, _O.UNLINK, _O.RENAME, _O.LINK)
_GROWS = (_O.CREATE, _O.WRITE, _O.RENAME, _O.LINK)
FAULTS = {
    one.name: one
    for one in (
        Fault("kill", 1, 1, _CHANGES),  # the process dies before the call
        Fault("torn", 2, 1, (_O.WRITE,)),  # it dies after half of the write
        Fault("error", 3, 1, _CHANGES),  # EIO; after half of it, when it is a write
        Fault("error-ever", 3, EVER, _CHANGES),
        Fault("full", 4, 1, _GROWS),  # ENOSPC
        Fault("full-while", 4, 8, _GROWS),
        Fault("full-ever", 4, EVER, _GROWS),
        Fault("read", 3, 1, (_O.READ,)),  # EIO
        Fault("read-ever", 3, EVER, (_O.READ,)),
    )
}


def compiled(folder: Path) -> Path:
    """The shim, compiled into the folder. Raises RuntimeError with what the compiler said."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("a C compiler (cc or gcc) is needed to let calls of the system fail")
    target = folder / "shim.so"
    command = [compiler, *FLAGS, "-o", str(target), str(SOURCE), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
    return target


class Page:
    """What the shim counts, in memory that a forked child shares."""

    SIZE = 264

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self.SIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def clear(self) -> None:
        """Begin to count afresh."""
        self._memory[:] = bytes(self.SIZE)

    @property
    def calls(self) -> int:
        """The calls so far."""
        return int(struct.unpack_from("q", self._memory, 0)[0])

    @property
    def hits(self) -> int:
        """The calls that met the fault."""
        return int(struct.unpack_from("q", self._memory, 8)[0])

    @property
    def hit(self) -> str:
        """The first call that met it, in words."""
        if not self.hits:
            return ""
        (operation,) = struct.unpack_from("i", self._memory, 16)
        path = bytes(self._memory[20:]).split(b"\0")[0].decode()
        return f"{Operation(operation).name.lower()} {os.path.basename(path)}"


def arm(folder: Path, page: Page, fault: Fault, kth: int) -> None:
    """From now on the k-th call on files in the folder meets the fault. Only in a process started with the shim."""
    library = ctypes.CDLL(None)
    library.shim_arm(
        os.fsencode(folder),
        ctypes.c_void_p(page.address),
        ctypes.c_long(kth),
        fault.code,
        ctypes.c_long(fault.lasts),
        ctypes.c_uint(fault.mask),
    )


def record(folder: Path, acknowledgements: Path, log: Path) -> None:
    """From now on every call on files in the folder goes to the log. Only in a process started with the shim."""
    if ctypes.CDLL(None).shim_record(os.fsencode(folder), os.fsencode(acknowledgements), os.fsencode(log)) < 0:
        raise OSError(f"{log} cannot be written")


class Record(NamedTuple):
    """What one call did."""

    operation: Operation
    error: int  # an errno, or 0
    inode: int
    offset: int
    path: str
    second: str
    data: bytes


_HEAD = struct.Struct("<BBHHHIIqq")


def records(log: Path) -> Iterator[Record]:
    """What the calls did, in their order."""
    content = log.read_bytes()
    place = 0
    while place < len(content):
        operation, error, path, second, _, data, _, inode, offset = _HEAD.unpack_from(content, place)
        place += _HEAD.size
        parts = []
        for length in (path, second, data):
            parts.append(content[place : place + length])
            place += length
        names = (os.fsdecode(parts[0]), os.fsdecode(parts[1]))
        yield Record(Operation(operation), error, inode, offset, *names, parts[2])

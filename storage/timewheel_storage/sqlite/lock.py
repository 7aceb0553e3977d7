"""The owner's lock: flock on a side file, which the kernel gives back when the process dies.

take:   open <db>.lock, flock it, and see that the file locked is still the file of that name (someone may have
        deleted it in between); only then is it ours
fork:   a forked child shares the lock's open file, and would keep a dead owner's lock: it closes its descriptor
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from weakref import WeakSet

import orjson

from timewheel.errors import JournalOwned, JournalUnavailable
from timewheel_storage.sqlite.faults import translate_os

TRIES = 100
_held: WeakSet[OwnerLock] = WeakSet()


class OwnerLock:
    """One lock file. `path` is the journal's, for messages."""

    def __init__(self, name: str, path: str) -> None:
        self._name = name
        self._path = path
        self._descriptor: int | None = None

    def take(self, since_us: int) -> None:
        """Take the lock, without waiting. Raises JournalOwned when another one has it."""
        if self._descriptor is not None:
            raise JournalOwned(
                f"this scheduler owns {self._path} already", path=self._path, owner=_self(since_us, None)
            )
        try:
            self._descriptor = self._locked()
            _held.add(self)
            self.sign(since_us, None)
        except OSError as error:
            self.release()
            raise translate_os(error, self._path) from error

    def _locked(self) -> int:
        for _ in range(TRIES):
            descriptor = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _same_file(descriptor, self._name):
                    return descriptor
            except BlockingIOError:
                owner = _read(descriptor)
                os.close(descriptor)
                raise JournalOwned(_owned(self._path, owner), path=self._path, owner=owner) from None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise JournalUnavailable(f"{self._name} is deleted again and again: see what does it", path=self._path)

    def sign(self, since_us: int, epoch: int | None) -> None:
        """Write down who holds it. It is held, too, where that cannot be written."""
        if self._descriptor is not None:
            content = orjson.dumps(_self(since_us, epoch))
            with suppress(OSError):
                os.pwrite(self._descriptor, content, 0)
                os.ftruncate(self._descriptor, len(content))

    def release(self) -> None:
        """Give it back; harmless when it is not held. The file stays: deleting it would race with the next owner."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
        _held.discard(self)


def _same_file(descriptor: int, name: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(name))
    except FileNotFoundError:
        return False


def _self(since_us: int, epoch: int | None) -> dict[str, Any]:
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since_us, "epoch": epoch}


def _read(descriptor: int) -> dict[str, Any] | None:
    try:
        found = orjson.loads(os.pread(descriptor, 4096, 0))
    except (OSError, ValueError):
        return None  # it is just being written, or was written by something else
    return found if isinstance(found, dict) else None


def _owned(path: str, owner: dict[str, Any] | None) -> str:
    who = "another process"
    if owner is not None:
        since = owner.get("since")
        when = datetime.fromtimestamp(since / 1e6, UTC).isoformat(" ", "seconds") if isinstance(since, int) else "?"
        who = f"process {owner.get('pid')} on {owner.get('host')} (since {when})"
    return (
        f"{path} is owned by {who}, and only one process fires the jobs of a journal: stop that one, give this one "
        'another file, or start it with when_owned="wait" to stand by'
    )


def _close_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_close_in_child)

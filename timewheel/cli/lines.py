"""A file of jobs, one JSON object a line, made ready to be sent: checked as a whole first, then read in batches.

Why first as a whole: a line without an idempotency key gets `import:<sha256 of the file>:<line number>`. Were half of a
broken file imported, the mended file would have other keys, and would schedule that half again.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from timewheel.cli.exits import DATA, PERMISSION, Exit
from timewheel.serve.strict import MAX_DEPTH as MAX_BODY_DEPTH
from timewheel.serve.strict import NotJson, loads

MAX_LINE = 1 << 20
SPOOL_BYTES = 16 << 20
MAX_DEPTH = MAX_BODY_DEPTH - 2  # a batch stands around it


class Line(NamedTuple):
    """A job to import, and where it stands in the file (from 1)."""

    number: int
    job: dict[str, Any]


class Refusal(NamedTuple):
    """A line that cannot be imported, and why."""

    line: int
    reason: str


class Source:
    """An open file of jobs, closed by `with`. `jobs` and `sha256` are known after `check`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.jobs = 0
        self.sha256 = ""

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def check(self) -> list[Refusal]:
        """Read the whole file: what its lines are worth as JSON."""
        digest = hashlib.sha256()
        refusals: list[Refusal] = []
        for number, raw in self._lines():
            digest.update(raw)
            if raw.strip():
                self.jobs += 1
                fault = _fault(raw)
                if fault is not None:
                    refusals.append(Refusal(number, fault))
        self.sha256 = digest.hexdigest()
        return refusals

    def batches(self, most: int, most_bytes: int) -> Iterator[list[Line]]:
        """The jobs in the order of the file, each with an idempotency key; `most` to a batch, or about `most_bytes`."""
        batch: list[Line] = []
        size = 0
        for number, raw in self._lines():
            if not raw.strip():
                continue
            if batch and (len(batch) == most or size + len(raw) > most_bytes):
                yield batch
                batch, size = [], 0
            job = loads(raw, depth=MAX_DEPTH)
            job.setdefault("idempotency_key", f"import:{self.sha256}:{number}")
            batch.append(Line(number, job))
            size += len(raw)
        if batch:
            yield batch

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        self._file.seek(0)
        number = 1
        while raw := self._file.readline(MAX_LINE + 1):
            while len(raw) > MAX_LINE and not raw.endswith(b"\n"):  # its end only says that it is too long
                rest = self._file.readline(MAX_LINE + 1)
                if not rest:
                    break
                raw = raw[: MAX_LINE + 1] + rest[-1:]
            yield number, raw
            number += 1


def open_source(name: str, stdin: IO[bytes]) -> Source:
    """The file of this name, or for `-` a copy of stdin. Raises Exit."""
    try:
        if name != "-":
            return Source(Path(name).open("rb"))  # the source closes it
        copy = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - the source reads it later
        shutil.copyfileobj(stdin, copy)
        return Source(copy)
    except PermissionError as error:
        raise Exit(PERMISSION, f"{name} cannot be read: {error.strerror}") from None
    except OSError as error:
        raise Exit(DATA, f"{name} cannot be read: {error.strerror}") from None


def _fault(raw: bytes) -> str | None:
    if len(raw) > MAX_LINE:
        return f"it has more than {MAX_LINE:,} bytes"
    try:
        job = loads(raw.rstrip(b"\r\n"), depth=MAX_DEPTH)
    except NotJson as error:
        return f"it is not usable JSON: {error}"
    return None if isinstance(job, dict) else "it is not a JSON object"

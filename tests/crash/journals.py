"""A journal that nobody has open, as the tests look at it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from timewheel.connect import audit
from timewheel_storage.sqlite import open_sqlite


def dump_of(path: Path) -> dict[str, Any]:
    """Everything that it holds; it is opened as a reader opens it, which must succeed."""

    async def read() -> dict[str, Any]:
        store = open_sqlite(str(path))
        await store.open()
        try:
            return {**await store.dump(), "entries": await store.entries(limit=100_000)}
        finally:
            await store.close()

    return asyncio.run(read())


def findings(path: Path) -> list[str]:
    """What the audit finds."""
    return list(audit(str(path)))


def lines_of(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines; the last one may be cut off."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]

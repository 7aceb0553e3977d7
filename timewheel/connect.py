"""From a URL to a Store. The only place that names adapters, and it imports one only when it is asked for.

sqlite:///jobs.db            a file, relative to the working directory
sqlite:////var/lib/jobs.db   a file by its absolute path
memory://                    nothing on disk: for tests
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from timewheel.errors import InvalidOption
from timewheel.store.port import Store

Durability = Literal["power", "process"]
_FORMS = "sqlite:///jobs.db, sqlite:////absolute/path/jobs.db or memory://"


def connect(url: str, durability: Durability = "power") -> Store:
    """The store behind a URL; opens nothing yet. Raises InvalidOption for a URL that names none.

    `durability`: "power" survives power loss, "process" survives the death of the process only.
    """
    if durability not in ("power", "process"):
        raise InvalidOption(
            f'durability must be "power" (survives power loss) or "process" (survives SIGKILL), not {durability!r}'
        )
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from timewheel_storage.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "sqlite":
        from timewheel_storage.sqlite import open_sqlite

        return open_sqlite(_file_of(url), durability=durability, unsafe=_unsafe(url, parts.query))
    raise InvalidOption(f"no store is known for {url!r}: write {_FORMS}")


def _file_of(url: str) -> str:
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/") or parts.path == "/":
        raise InvalidOption(f"{url!r} names no file (a relative path takes three slashes): write {_FORMS}")
    return unquote(parts.path[1:])


def _unsafe(url: str, query: str) -> bool:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if given.pop("unsafe", "0") not in ("0", "1") or given:
        raise InvalidOption(f"{url!r}: the only parameter is unsafe=1 (a network file system at your own risk)")
    return "unsafe=1" in query


def audit(path: str) -> list[str]:
    """What is wrong with the journal in a file, as sentences; [] when nothing is. Reads only, changes nothing.

    Checks RELIABILITY's I10 to I12 and I22: states, attempts, epochs, keys, and SQLite's own integrity check. Raises
    the journal errors of opening.
    """
    from timewheel_storage.sqlite import verify

    return verify(path)

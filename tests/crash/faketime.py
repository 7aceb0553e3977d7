"""Processes whose wall clock is set while they run: libfaketime, told by a file. Other clocks stay true."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def library() -> Path | None:
    """Where libfaketime is: the package of that name brings it. It is not imported."""
    found = importlib.util.find_spec("libfaketime")
    places = list(found.submodule_search_locations or ()) if found is not None else []
    libraries = [path for place in places for path in Path(place).rglob("libfaketime.so.1")]
    return libraries[0] if libraries else None


WHY_NOT = (
    "" if library() is not None else "THE CLOCK STEPS ARE NOT TESTED: pip install libfaketime (it is in the dev extra)"
)


class WallClock:
    """The wall clock of the processes that are started with `environment`."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0)

    def set(self, ahead_s: float) -> None:
        """From now on it is so far ahead of the true one."""
        side = self._file.with_suffix(".new")
        side.write_text(f"{ahead_s:+.3f}\n")
        side.replace(self._file)  # never seen half written

    @property
    def environment(self) -> dict[str, str]:
        """For a child."""
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
            "NO_FAKE_STAT": "1",
        }

    def before(self) -> tuple[str, ...]:
        """What to put before a command."""
        return ("env", *(f"{name}={value}" for name, value in self.environment.items()))

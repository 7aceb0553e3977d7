"""Time zones from the `tzdata` package: the same on every machine, whatever its system files and TZPATH say.

Pure, but for reading the installed package's data. Each zone is loaded once per process. `UTC` needs no data, so that
a schedule in UTC works even where the package is missing.
"""

from __future__ import annotations

from datetime import UTC, tzinfo
from difflib import get_close_matches
from functools import cache
from importlib import import_module, resources
from zoneinfo import ZoneInfo

from timewheel.checks import shown
from timewheel.errors import InvalidRule

_PACKAGE = "tzdata"
_LONGEST_NAME = 64


def zone(name: str) -> tzinfo:
    """The zone called `name` ("Europe/Berlin"), always the same object.

    Raises InvalidRule (`.field` is "tz") for any name that the installed tzdata lacks, and where it is not installed.
    """
    if name == "UTC":
        return UTC
    if not isinstance(name, str) or name not in known():
        raise InvalidRule(f"tz={shown(name)} is not a time zone of tzdata{_hint(name)}", field="tz")
    return _load(name)


@cache
def known() -> frozenset[str]:
    """The names of all zones, links like US/Eastern included. Raises InvalidRule where tzdata is not installed."""
    try:
        listed = resources.files(_PACKAGE).joinpath("zones").read_text(encoding="utf-8")
    except (ImportError, OSError) as error:
        raise _missing(error) from error
    return frozenset(listed.split())


def version() -> str:
    """The release of the time zone database in use, like "2025b". Raises InvalidRule where tzdata is not installed."""
    try:
        return str(import_module(_PACKAGE).IANA_VERSION)
    except ImportError as error:
        raise _missing(error) from error


@cache
def _load(name: str) -> ZoneInfo:
    path = resources.files(_PACKAGE).joinpath("zoneinfo", *name.split("/"))
    try:
        with path.open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except (OSError, ValueError) as error:
        raise InvalidRule(f"tz={shown(name)}: its data in tzdata cannot be read ({error})", field="tz") from error


def _missing(error: Exception) -> InvalidRule:
    return InvalidRule(
        f"tz: the package tzdata, where time zones come from, cannot be read ({error}); install tzdata, or use UTC",
        field="tz",
    )


def _hint(name: object) -> str:
    if isinstance(name, ZoneInfo) and name.key in known():
        return f": give its name, {name.key!r}"
    if not isinstance(name, str):
        return _EXAMPLE
    if len(name) > _LONGEST_NAME:
        return ""
    by_lower = {one.lower(): one for one in known()}
    close = get_close_matches(name.strip().lower(), by_lower, n=3, cutoff=0.75)
    return f": did you mean {' or '.join(by_lower[one] for one in close)}?" if close else _EXAMPLE


_EXAMPLE = ': give a name like "Europe/Berlin"'

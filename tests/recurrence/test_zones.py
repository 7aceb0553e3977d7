"""Zones come from the tzdata package alone, and a name that it lacks is refused with a hint."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import resources
from zoneinfo import ZoneInfo

import pytest
import tzdata

from timewheel import zones
from timewheel.errors import InvalidRule
from timewheel.recurrence.cron import Cron


def refusal(name: object) -> str:
    with pytest.raises(InvalidRule) as caught:
        zones.zone(name)  # type: ignore[arg-type]
    assert caught.value.field == "tz"
    return str(caught.value)


def test_every_listed_zone_loads_and_is_loaded_once() -> None:
    assert len(zones.known()) > 590
    for name in zones.known():
        assert zones.zone(name) is zones.zone(name)


def test_a_zone_knows_its_name_and_its_rules() -> None:
    berlin = zones.zone("Europe/Berlin")
    assert isinstance(berlin, ZoneInfo)
    assert berlin.key == "Europe/Berlin"
    assert datetime(2026, 7, 1, tzinfo=berlin).isoformat() == "2026-07-01T00:00:00+02:00"


def test_utc_is_utc() -> None:
    assert zones.zone("UTC") is UTC


def test_version_is_that_of_the_data() -> None:
    assert zones.version() == tzdata.IANA_VERSION


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("europe/berlin", "did you mean Europe/Berlin"),
        ("America/NewYork", "America/New_York"),
        ("Mars/Olympus", 'like "Europe/Berlin"'),
        ("", 'like "Europe/Berlin"'),
        (None, 'like "Europe/Berlin"'),
        (ZoneInfo("UTC"), "give its name, 'UTC'"),
        (ZoneInfo("Asia/Tokyo"), "give its name, 'Asia/Tokyo'"),
        (UTC, 'like "Europe/Berlin"'),
        ("../../etc/passwd", "is not a time zone"),
        ("/etc/localtime", "is not a time zone"),
        ("x" * 100_000, "is not a time zone"),
    ],
)
def test_any_other_name_is_refused(name: object, hint: str) -> None:
    message = refusal(name)
    assert hint in message
    assert len(message) < 250


ELSEWHERE = """
import zoneinfo
from timewheel import zones
zoneinfo.reset_tzpath([])
print(zones.zone("Europe/Berlin").utcoffset(__import__("datetime").datetime(2026, 7, 1)))
print(zoneinfo.TZPATH)
"""


def test_neither_system_files_nor_the_search_path_matter(tmp_path: os.PathLike[str]) -> None:
    env = {**os.environ, "PYTHONTZPATH": str(tmp_path), "TZ": "Asia/Tokyo", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2:00:00", "()"]


@pytest.fixture
def no_tzdata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the package were not installed."""

    def gone(name: str, *_: object) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}")

    zones.known.cache_clear()
    monkeypatch.setattr(resources, "files", gone)
    monkeypatch.setattr(zones, "import_module", gone)
    yield
    monkeypatch.undo()
    zones.known.cache_clear()


def test_without_the_package_utc_works_and_all_else_says_what_is_missing(no_tzdata: None) -> None:
    assert zones.zone("UTC") is UTC
    assert Cron("0 9 * * *").next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 9, tzinfo=UTC)
    for call in (lambda: zones.zone("Europe/Paris"), zones.version, lambda: Cron("0 9 * * *", tz="Europe/Paris")):
        with pytest.raises(InvalidRule, match="install tzdata"):
            call()

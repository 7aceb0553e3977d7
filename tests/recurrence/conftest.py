"""Shared by the tests of recurrence: the process's own zone, which must not matter."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

PROCESS_ZONES = ("UTC", "Europe/London", "Australia/Sydney")


@pytest.fixture(params=PROCESS_ZONES)
def process_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The process believes to be in this zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()

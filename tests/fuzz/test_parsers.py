"""The laws of the parsers, with inputs drawn by Hypothesis; `python -m tests.fuzz.parsers` draws them with Atheris."""

from __future__ import annotations

import json
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import targets
from tests.fuzz.parsers import NAMES
from tests.fuzz.rows import done, image, journal
from tests.fuzz.targets import SEEDS, TARGETS
from timewheel.errors import JournalCorrupt, JournalError
from timewheel.store.port import JobFilter
from timewheel.testing.builders import claim, owner, stamp

MOST = {"rows": 40}


def drawn(name: str) -> st.SearchStrategy[bytes]:
    """Bytes, and seeds with a part of them replaced."""

    def spoiled(seed: bytes, at: int, length: int, other: bytes) -> bytes:
        place = at % (len(seed) + 1)
        return seed[:place] + other + seed[place + length :]

    few = st.integers(0, 300)
    return st.binary(max_size=300) | st.builds(
        spoiled, st.sampled_from(SEEDS[name]), few, st.integers(0, 4), st.binary(max_size=4)
    )


def test_every_target_has_a_name_and_seeds() -> None:
    assert set(NAMES) == set(TARGETS) == set(SEEDS)


@pytest.mark.parametrize("name", NAMES)
def test_the_law_holds_for_its_seeds(name: str) -> None:
    for seed in SEEDS[name] if name != "rows" else SEEDS[name][::4]:
        TARGETS[name](seed)


@pytest.mark.parametrize("name", NAMES)
def test_the_law_holds_for_what_chance_makes_of_them(name: str) -> None:
    @settings(max_examples=MOST.get(name, 300))
    @given(drawn(name))
    def law(data: bytes) -> None:
        TARGETS[name](data)

    law()


# ---- what they found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["kinds SET retry = '[\"x\"]'", "kinds SET retry = '{'", "jobs SET tags = '{}'"])
def test_a_row_that_makes_no_sense_is_damage_to_the_file_and_is_named(change: str) -> None:
    """It was a TypeError from deep inside, and from a claim only after the claim had been committed."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(image())
    store = journal(connection)
    done(store.open())
    epoch = done(store.own(owner())).epoch
    connection.execute(f"UPDATE {change}")
    with pytest.raises(JournalCorrupt, match=r"job-000000000000[0-9a-z] makes no sense"):
        done(store.jobs(JobFilter()))
    if "tags" not in change:
        with pytest.raises(JournalError, match="job-0000000000006 makes no sense"):
            done(store.commit([claim(6)], stamp(epoch)))
        assert connection.execute("SELECT state FROM jobs WHERE job_id = 6").fetchone() == (0,)
    connection.close()


def all_seeds(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


def test_the_laws_can_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec that loses what it was given, and readers that take anything, are found."""
    monkeypatch.setattr(targets, "loads_call", lambda text: ([], {}))
    monkeypatch.setattr(targets, "strict_loads", json.loads)
    monkeypatch.setattr(targets, "parse_rfc3339", lambda text: -1)
    for name in ("values", "bodies", "times"):
        with pytest.raises((AssertionError, ValueError)):
            all_seeds(name)

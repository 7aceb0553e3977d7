"""Rules against brute force around changes of offset: a share of what `python -m tests.recurrence.sweep` does."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recurrence import tzif
from tests.recurrence.brute import EPOCH, Window
from tests.recurrence.drawn import draw, draw_cron
from tests.recurrence.sweep import check, compare_table, distinct_changes, sweep, wanted_time
from timewheel import zones
from timewheel.errors import InvalidRule
from timewheel.recurrence import offsets

SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("seed", range(4))
def test_random_rules_around_changes_agree_with_brute_force(seed: int) -> None:
    assert sweep(0.005, seed) > 5


ODD = [  # whole days, half hours, quarters, two hours, midnights, a change that is no summer time
    ("Pacific/Apia", 2011),
    ("Australia/Lord_Howe", 2026),
    ("Pacific/Chatham", 2026),
    ("Antarctica/Troll", 2026),
    ("America/Sao_Paulo", 2018),
    ("Asia/Beirut", 2026),
    ("America/Nuuk", 2024),
    ("Asia/Pyongyang", 2018),
    ("Europe/Dublin", 2026),
    ("Africa/Casablanca", 2026),
]


@pytest.mark.parametrize(("name", "year"), ODD)
def test_random_rules_in_odd_zones_agree_with_brute_force(name: str, year: int) -> None:
    rng = random.Random(name)
    for change in tzif.changes(name):
        if datetime.fromtimestamp(change.at_s, UTC).year != year:
            continue
        window = Window(zones.zone(name), change.at_s, 26 * 3600)
        for _ in range(3):
            check(window, name, draw(rng, wanted_time(rng, change)))


@pytest.mark.parametrize("seed", range(5))
def test_rules_of_seconds_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    every = [one for one in distinct_changes() if abs(one[1].after_s - one[1].before_s) <= 3600]
    name, change = rng.choice(every)
    window = Window(zones.zone(name), change.at_s, 1800, step_s=1, margin_s=4000)
    for _ in range(2):
        try:
            drawn = draw_cron(rng, wanted_time(rng, change), seconds=True)
            drawn.make(tz=name)
        except InvalidRule:
            continue
        check(window, name, drawn)


def test_the_table_of_changes_is_that_of_the_data() -> None:
    """Of every 8th zone, from 1970 to 2037; `python -m tests.recurrence.sweep` compares all."""
    for name in tzif.distinct()[::8]:
        compare_table(name)
    offsets._chunk.cache_clear()


def test_no_zone_changes_twice_within_six_days() -> None:
    """What `offsets` relies on when it asks every five days."""
    for name in tzif.distinct():
        listed = tzif.changes(name)
        for one, other in pairwise(listed):
            assert other.at_s - one.at_s > 6 * 86_400, (name, one, other)


@given(SEEDS, st.sampled_from(sorted(zones.known())), st.integers(0, 4_000_000_000))
def test_next_last_and_count_say_the_same(seed: int, name: str, start_s: int) -> None:
    """Over long ranges: as many slots as counted, the last one is the latest, each is after the one before."""
    rng = random.Random(seed)
    rule = draw(rng, EPOCH + timedelta(seconds=start_s)).make(
        tz=name, gap=rng.choice(["SKIP", "FIRE_AFTER", "KEEP_OFFSET"]), fold=rng.choice(["FIRST", "SECOND", "BOTH"])
    )
    start = start_s * 10**6
    found = []
    for one in rule.occurrences(start):
        assert one.instant_us > (found[-1] if found else start)
        found.append(one.instant_us)
        if len(found) == 40:
            break
    if found:
        end = found[-1] + rng.randint(0, 10**6 - 1)
        assert rule.count(start, end) == len(found)
        latest = rule.latest(start, end)
        assert latest is not None
        assert latest.instant_us == found[-1]
        assert rule.count(found[0], found[-1] - 1) == max(0, len(found) - 2)
        assert rule.latest(found[-1], found[-1]) is None

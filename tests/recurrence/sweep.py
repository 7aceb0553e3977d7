"""Random rules around the changes of offset of every zone, against the brute force, under every policy.

python -m tests.recurrence.sweep                    every distinct change from 2000 to 2037
python -m tests.recurrence.sweep --share 0.05 --seed 7
"""

# ruff: noqa: T201  this program talks by printing

from __future__ import annotations

import argparse
import random
from datetime import datetime, timedelta
from functools import cache

from tests.recurrence import tzif
from tests.recurrence.brute import EPOCH, HOUR_S, Window
from tests.recurrence.drawn import Drawn, draw
from timewheel import zones
from timewheel.recurrence import offsets
from timewheel.recurrence.zonal import Zonal

POLICIES = [(gap, fold) for gap in ("SKIP", "FIRE_AFTER", "KEEP_OFFSET") for fold in ("FIRST", "SECOND", "BOTH")]
FROM_S, END_S = 946_684_800, tzif.END_S  # 2000 to 2037
RULES = 2  # a change


@cache
def distinct_changes() -> list[tuple[str, tzif.Change]]:
    """Each change of offset once, with one of the zones that make it."""
    seen: dict[tzif.Change, str] = {}
    for name in tzif.distinct():
        for change in tzif.changes(name):
            if FROM_S <= change.at_s < END_S:
                seen.setdefault(change, name)
    return sorted((name, change) for change, name in seen.items())


def rising(rule: Zonal, after_s: int, until_s: int) -> list[int]:
    """The rule's instants in (after_s, until_s], one question at a time."""
    found: list[int] = []
    for one in rule.occurrences(after_s * 10**6):
        instant, rest = divmod(one.instant_us, 10**6)
        if instant > until_s:
            break
        assert rest == 0
        assert instant > (found[-1] if found else after_s), f"{rule!r} does not rise at {instant}"
        assert one.local == EPOCH + timedelta(seconds=instant + one.offset_s)
        found.append(instant)
    return found


def check(window: Window, name: str, drawn: Drawn) -> None:
    """The rule's instants in the window are those of the brute force, under each policy and under AUTO."""
    auto = ("SKIP", "BOTH") if drawn.wild else ("FIRE_AFTER", "FIRST")
    for gap, fold in [*POLICIES, ("AUTO", "AUTO")]:
        rule = drawn.make(tz=name, gap=gap, fold=fold)
        wanted = window.instants(drawn.match, *(auto if gap == "AUTO" else (gap, fold)))
        found = rising(rule, window.start_s, window.end_s)
        assert found == wanted, f"{rule!r}: {shown(wanted, found)}"
        assert rule.count(window.start_s * 10**6, window.end_s * 10**6) == len(wanted), f"{rule!r} counts wrong"
        latest = rule.latest(window.start_s * 10**6, window.end_s * 10**6)
        assert (latest.instant_us // 10**6 if latest else None) == (wanted[-1] if wanted else None), f"{rule!r}: latest"


def shown(wanted: list[int], found: list[int]) -> str:
    lacks, extra = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    as_text = [[(EPOCH + timedelta(seconds=one)).isoformat() for one in side[:5]] for side in (lacks, extra)]
    return f"lacks {as_text[0]}, has too much {as_text[1]}"


def wanted_time(rng: random.Random, change: tzif.Change) -> datetime:
    """A wall time in the gap or fold, or close to it."""
    first, last = sorted((change.at_s + change.before_s, change.at_s + change.after_s))
    return EPOCH + timedelta(seconds=rng.randint(first - HOUR_S, last + HOUR_S) // 60 * 60)


def compare_table(name: str) -> None:
    """The zone's table of changes, 1970 to 2037, is that of its data."""
    found = offsets.transitions(zones.zone(name), tzif.FIRST_S - 1, tzif.END_S - 1)
    assert found == tzif.changes(name), f"the changes of {name} are not those of its data"


def sweep(share: float, seed: int) -> int:
    """Check that share of all changes; how many there were."""
    rng = random.Random(seed)
    every = distinct_changes()
    chosen = every if share >= 1 else rng.sample(every, round(len(every) * share))
    for name, change in chosen:
        one = random.Random(f"{seed} {change}")
        window = Window(zones.zone(name), change.at_s, 26 * HOUR_S)
        for _ in range(RULES):
            drawn = draw(one, wanted_time(one, change))
            try:
                check(window, name, drawn)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, {name}, {change}, {drawn.text}: {error}") from error
    return len(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names = tzif.distinct()
    for name in names:
        compare_table(name)
    print(f"{len(names)} zones: their tables of changes are those of their data", flush=True)
    count = sweep(given.share, given.seed)
    print(f"{count} changes of offset, {RULES} rules each, {len(POLICIES) + 1} policies: all as the brute force says")


if __name__ == "__main__":
    main()

"""What the reader of cron texts and of stored rules must hold, as a function of bytes (see targets.py)."""

from __future__ import annotations

from contextlib import suppress

import orjson

from timewheel.errors import InvalidRule
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.rule import Rule
from timewheel.recurrence.stored import rule_from_data

START_US = 1_792_886_400_000_000  # 2026-10-25, a night on which Europe's clocks go back
SEEDS = [
    b"30 2 * * *",
    b"*/5 9-17/2 1,15,L,L-3,15W,LW JAN-MAR,11 MON#2,5L,L3,?",
    b"CRON_TZ=Europe/Berlin 0 0 */2 * FRIL",
    b"59/15 */30 0 29 FEB */7",
    b"@daily",
    b"0 0 31 4,5 *",
    orjson.dumps(Cron("0 9 * * MON", tz="Europe/Berlin").to_data()),
    b'{"kind":"every","version":1,"interval_us":60000000,"anchor_us":0,"after_completion":false}',
    b'{"kind":"civil","version":1,"days":null,"weeks":2,"anchor":"2026-01-09T09:00:00","tz":null,"gap":"AUTO",'
    b'"fold":"BOTH","calendar":null,"roll":null}',
]


def recurrences(data: bytes) -> None:
    """A text or data that a rule is made of, which then rises and comes back from its own data, or InvalidRule."""
    with suppress(InvalidRule):
        _hold(Cron(data.decode("utf-8", "surrogateescape")))
    with suppress(InvalidRule, orjson.JSONDecodeError):
        loaded = orjson.loads(data)
        if isinstance(loaded, dict):
            _hold(rule_from_data(loaded))


def _hold(rule: Rule) -> None:
    assert rule_from_data(rule.to_data()) == rule
    assert rule.explain()
    if getattr(rule, "calendar", None) is not None:
        return  # only its name is known
    moment = START_US
    for _ in range(3):
        found = rule.following(moment)
        if found is None:
            return
        assert found.instant_us > moment
        assert rule.count(moment, found.instant_us) == 1
        moment = found.instant_us

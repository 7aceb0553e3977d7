"""What all rules share: values that never change, come back from their data, and say in words what they do."""

from __future__ import annotations

import copy
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel import zones
from timewheel.errors import InvalidRule
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.choices import Fold, Gap, Roll
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.periods import Civil
from timewheel.recurrence.rule import Note, Rule
from timewheel.recurrence.stored import rule_from_data

T0 = datetime(2026, 1, 5, tzinfo=UTC)
SHOP = Calendar("shop", [date(2026, 12, 25)])
RULES: list[Rule] = [
    Cron("0 9 * * MON"),
    Cron("0 9 * * MON", tz="UTC"),
    Cron("0 9 * * MON", tz="Europe/Berlin"),
    Cron("0 9 * * MON", tz="Europe/Berlin", gap="SKIP"),
    Cron("0 9 * * MON", tz="Europe/Berlin", gap="FIRE_AFTER", fold="SECOND"),
    Cron("0 9 * * MON", calendar=SHOP),
    Cron("0 9 * * MON", calendar="shop"),
    Cron("0 9 * * MON", calendar=SHOP, roll="preceding"),
    Cron("@daily"),
    Cron("0 0 * * *"),
    Every(60),
    Every(60, after_completion=True),
    Every(60, anchor=T0),
    Every(60.5),
    Civil(weeks=1, anchor=datetime(2026, 1, 9, 9)),
    Civil(weeks=2, anchor=datetime(2026, 1, 9, 9), tz="Europe/Berlin", fold="BOTH"),
    Civil(days=2, anchor=datetime(2026, 1, 9, 9), calendar=SHOP, roll="modified_following"),
]


def test_rules_are_told_apart_by_what_they_say() -> None:
    assert len(set(RULES)) == len(RULES)
    for number, rule in enumerate(RULES):
        assert [other == rule for other in RULES].index(True) == number
        assert rule != "x"


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_equal_rules_are_equal(rule: Rule) -> None:
    again = rule_from_data(rule.to_data(), {"shop": SHOP})
    if getattr(rule, "calendar", None) == "shop":
        assert again.to_data() == rule.to_data()
        return
    assert again == rule
    assert hash(again) == hash(rule)


def test_writing_does_not_matter() -> None:
    assert Cron("CRON_TZ=Europe/Berlin  0 9 * *  mon") == Cron("0 9 * * MON", tz="Europe/Berlin")
    assert Cron("0 9 * * MON", gap=Gap.SKIP, fold=Fold.BOTH) == Cron("0 9 * * MON", gap="SKIP", fold="BOTH")
    one = Cron("0 9 25 * *", calendar=SHOP, roll=Roll.MODIFIED_FOLLOWING)
    assert one == Cron("0 9 25 * *", calendar=SHOP, roll="modified following")


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_data_is_json(rule: Rule) -> None:
    data = rule.to_data()
    assert json.loads(json.dumps(data)) == data
    assert data["version"] == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (Cron("0 9 * * mon"), "Cron('0 9 * * MON')"),
        (
            Cron("CRON_TZ=Europe/Berlin 0 9 * * *", gap="SKIP", fold=Fold.BOTH, calendar="shop", roll="following"),
            "Cron('0 9 * * *', tz='Europe/Berlin', calendar='shop', roll='following', gap='SKIP', fold='BOTH')",
        ),
        (Every(60), "Every(60)"),
        (Every(0.25, after_completion=True), "Every(0.25, after_completion=True)"),
        (Every(60, anchor=T0), "Every(60, anchor=datetime.datetime(2026, 1, 5, 0, 0, tzinfo=datetime.timezone.utc))"),
        (Civil(weeks=2, anchor=T0), "Civil(weeks=2, anchor=datetime.datetime(2026, 1, 5, 0, 0), tz='UTC')"),
        (SHOP, "Calendar('shop', 1 ranges, weekend=('sat', 'sun'))"),
    ],
)
def test_the_repr_is_how_the_rule_is_made(rule: object, text: str) -> None:
    assert repr(rule) == text


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_rules_never_change(rule: Rule) -> None:
    for name in ("tz", "expr", "interval_us", "new"):
        with pytest.raises(AttributeError, match="never changes"):
            setattr(rule, name, "x")
    with pytest.raises(AttributeError, match="never changes"):
        del rule.kind  # type: ignore[misc]
    assert copy.copy(rule) is rule
    assert copy.deepcopy([rule])[0] is rule


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "sunrise"}, {"kind": None}, {"kind": ["cron"]}, {"version": 2}, {"version": None}, {"version": "1"},
        {"more": 1}, {"expr": 5}, {"expr": "0 0 31 2 *"}, {"tz": "Mars/Olympus"}, {"gap": "x"}, {"roll": "following"},
    ],
)  # fmt: skip
def test_other_data_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRule):
        rule_from_data(Cron("0 9 * * *").to_data() | change)


def test_broken_data_of_other_kinds_is_refused() -> None:
    for rule, change in (
        (Every(60), {"interval_us": "60"}),
        (Every(60), {"anchor_us": "x"}),
        (Every(60), {"anchor_us": 10**30}),
        (Civil(days=1, anchor=datetime(2026, 1, 1)), {"anchor": "yesterday"}),
        (Civil(days=1, anchor=datetime(2026, 1, 1)), {"anchor": None}),
        (Civil(days=1, anchor=datetime(2026, 1, 1)), {"weeks": 1}),
    ):
        with pytest.raises(InvalidRule):
            rule_from_data(rule.to_data() | change)
    data = Cron("0 9 * * *").to_data()
    del data["fold"]
    with pytest.raises(InvalidRule, match="fold"):
        rule_from_data(data)


def test_a_newer_kind_says_so() -> None:
    with pytest.raises(InvalidRule, match="newer timewheel") as caught:
        rule_from_data({"kind": "cron", "version": 9})
    assert caught.value.field == "kind"


def test_an_unknown_calendar_can_be_given_later() -> None:
    rule = rule_from_data(Cron("0 9 * * *", calendar=SHOP).to_data())
    with pytest.raises(InvalidRule, match="shop"):
        rule.next_after(T0)
    assert isinstance(rule, Cron)
    assert rule.with_calendar(SHOP) == Cron("0 9 * * *", calendar=SHOP)


def test_a_default_zone_is_taken_only_where_none_is_named() -> None:
    assert Cron("0 9 * * *", gap="SKIP").with_zone("Asia/Tokyo") == Cron("0 9 * * *", gap="SKIP", tz="Asia/Tokyo")
    assert Cron("0 9 * * *", tz="UTC").with_zone("Asia/Tokyo").tz == "UTC"
    weekly = Civil(weeks=1, anchor=datetime(2026, 1, 9, 9))
    assert weekly.with_zone("Asia/Tokyo") == Civil(weeks=1, anchor=datetime(2026, 1, 9, 9), tz="Asia/Tokyo")


@pytest.mark.parametrize(
    ("options", "field", "hint"),
    [
        ({"tz": "Europe/Berln"}, "tz", "Europe/Berlin"),
        ({"tz": 5}, "tz", "like"),
        ({"gap": "skip"}, "gap", "did you mean 'SKIP'"),
        ({"gap": "fire-after"}, "gap", "did you mean 'FIRE_AFTER'"),
        ({"gap": None}, "gap", "SKIP, FIRE_AFTER, KEEP_OFFSET"),
        ({"fold": "LAST"}, "fold", "FIRST, SECOND, BOTH"),
        ({"roll": "next", "calendar": SHOP}, "roll", "following, preceding, modified_following"),
        ({"calendar": ""}, "calendar", "1 to 200"),
    ],
)
def test_options_are_checked(options: dict[str, Any], field: str, hint: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Cron("0 9 * * *", **options)
    assert caught.value.field == field
    assert hint in str(caught.value)


def test_two_zones_are_one_too_many() -> None:
    assert Cron("CRON_TZ=UTC 0 9 * * *", tz="UTC").tz == "UTC"
    with pytest.raises(InvalidRule, match="another"):
        Cron("CRON_TZ=UTC 0 9 * * *", tz="Europe/Berlin")
    with pytest.raises(InvalidRule, match="Europe/Berlin"):
        Cron("CRON_TZ=Europe/Berln 0 9 * * *")


def first(rule: Rule, after: str) -> Any:
    return rule.following(round(datetime.fromisoformat(after).timestamp()) * 10**6)


def test_an_occurrence_says_how_it_came_about() -> None:
    gap = first(Cron("30 2 * * *", tz="Europe/Berlin"), "2026-03-28T12:00Z")
    assert gap.notes == (Note.GAP,)
    assert (gap.nominal, gap.local) == (datetime(2026, 3, 29, 2, 30), datetime(2026, 3, 29, 3, 0))
    assert gap.offset_s == 7200
    kept = first(Cron("30 2 * * *", tz="Europe/Berlin", gap="KEEP_OFFSET"), "2026-03-28T12:00Z")
    assert (kept.notes, kept.nominal, kept.local) == (gap.notes, gap.nominal, datetime(2026, 3, 29, 3, 30))
    rule = Cron("30 2 * * *", tz="Europe/Berlin", fold="BOTH")
    once = first(rule, "2026-10-24T12:00Z")
    twice = rule.following(once.instant_us)
    assert twice is not None
    assert (once.notes, once.offset_s, twice.notes, twice.offset_s) == (
        (Note.FOLD_FIRST,),
        7200,
        (Note.FOLD_SECOND,),
        3600,
    )
    assert once.local == twice.local == once.nominal == twice.nominal
    assert twice.instant_us - once.instant_us == 3600 * 10**6
    plain = first(rule, "2026-06-01T00:00Z")
    assert (plain.notes, plain.local, plain.nominal) == ((), datetime(2026, 6, 1, 2, 30), datetime(2026, 6, 1, 2, 30))


def test_a_whole_missing_day_is_one_run() -> None:
    """The moved slot of 30 December and the real one of the 31st are one instant: the real one is told."""
    rule = Cron("0 0 * * *", tz="Pacific/Apia")
    moved = first(rule, "2011-12-29T12:00Z")
    assert (moved.nominal, moved.notes) == (datetime(2011, 12, 31), ())
    day = 86_400 * 10**6
    assert rule.count(moved.instant_us - 10**6, moved.instant_us) == 1
    assert rule.count(moved.instant_us, moved.instant_us + day) == 1
    assert rule.count(moved.instant_us - day, moved.instant_us + day) == 2
    assert rule.latest(0, moved.instant_us) == moved
    noon = first(Cron("0 12 30 * *", tz="Pacific/Apia"), "2011-12-29T12:00Z")
    assert (noon.nominal, noon.local, noon.notes) == (datetime(2011, 12, 30, 12), datetime(2011, 12, 31), (Note.GAP,))


@given(st.sampled_from(sorted(zones.known())), st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 1)))
def test_next_is_after_and_the_answer_is_utc(name: str, naive: datetime) -> None:
    when = naive.replace(tzinfo=UTC)
    for expr in ("*/7 * * * 5", "0 0 * * *", "30 1 * * *"):
        found = Cron(expr, tz=name).next_after(when)
        assert found is None or (found > when and found.tzinfo is UTC)
        assert found is not None or when.year == 9999


def test_the_end_of_time() -> None:
    rule = Cron("0 0 * * *", tz="Pacific/Kiritimati")
    last = rule.latest(0, 253_402_300_799 * 10**6)
    assert last is not None
    assert rule.next_after(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)) is None
    assert rule.following(last.instant_us) is None
    assert rule.count(last.instant_us, 253_402_300_799 * 10**6) == 0


def test_a_rule_that_lives_in_a_gap_has_no_next_and_says_so_soon() -> None:
    rule = Cron("30 2 * MAR SUN#2", tz="America/New_York", gap="SKIP")
    assert rule.next_after(T0) is None or rule.next_after(T0) > T0 + timedelta(days=9)  # type: ignore[operator]
    always = Cron("30 2 ? MAR SUN#2", tz="America/New_York", gap="SKIP")
    assert always.next_after(datetime(2027, 1, 1, tzinfo=UTC)) is None
    assert always.latest(round(T0.timestamp()) * 10**6, round(T0.timestamp() + 10**9) * 10**6) is None


WORDS = [
    ("* * * * *", "every minute, in UTC"),
    ("* * * * * *", "every second, in UTC"),
    ("*/15 * * * * *", "every 15 seconds, in UTC"),
    ("*/7 * * * *", "at minute 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour, in UTC"),
    ("*/5 9-17 * * mon-fri", "every 5 minutes, at hour 9 to 17, on Monday to Friday, in UTC"),
    ("0 */2 * * *", "at minute 0, every 2 hours, in UTC"),
    ("0 9,17 * * *", "at 09:00 and 17:00, in UTC"),
    ("30 14 9 * * *", "at 09:14:30, in UTC"),
    ("*/20 5 9 * * *", "at 09:05, 09:05:20 and 09:05:40, in UTC"),
    ("* 5 9 * * *", "every second, at minute 5, at hour 9, in UTC"),
    ("@daily", "at 00:00, in UTC"),
    ("0 0 1,15 * FRI", "at 00:00, on day 1 and 15 of the month and on Friday, in UTC"),
    ("0 0 */10 * FRI", "at 00:00, on day 1, 11, 21 and 31 of the month if it falls on Friday, in UTC"),
    ("0 0 L-3,15W,LW * ?", "at 00:00, on 3 days before the last day of the month, the day from Monday to Friday "
     "nearest to day 15 of the month and the last day from Monday to Friday of the month, in UTC"),
    ("0 0 L-1 * *", "at 00:00, on 1 day before the last day of the month, in UTC"),
    ("0 0 * * 5L,1#2", "at 00:00, on the second Monday of the month and the last Friday of the month, in UTC"),
    ("0 0 1 1-3,12 *", "at 00:00, on day 1 of the month, in January to March and December, in UTC"),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "words"), WORDS)
def test_cron_in_words(expr: str, words: str) -> None:
    assert Cron(expr).explain() == words


def test_policies_in_words() -> None:
    assert Cron("0 2 * * *", tz="Europe/Berlin").explain() == (
        "at 02:00, in Europe/Berlin; a time that the clocks skip runs once, at the first instant after the gap; a time "
        "that occurs twice runs the first time"
    )
    wild = Cron("0 * * * *", tz="Europe/Berlin").explain()
    assert "skip does not run" in wild
    assert "runs both times" in wild
    kept = Cron("0 2 * * *", tz="Europe/Berlin", gap="KEEP_OFFSET", fold="SECOND").explain()
    assert "runs as if they had not changed yet; a time that occurs twice runs the second time" in kept


def test_civil_and_calendars_in_words() -> None:
    biweekly = Civil(weeks=2, anchor=datetime(2026, 1, 9, 9), calendar=SHOP, roll="preceding")
    assert biweekly.explain() == (
        "at 09:00 on every second Friday, from 2026-01-09 on, in UTC; a date that is no business day of the calendar "
        "'shop' moves to the business day before"
    )
    assert (
        Civil(days=1, anchor=datetime(2026, 1, 9, 9)).explain() == "at 09:00 on every day, from 2026-01-09 on, in UTC"
    )
    assert "every 3rd day" in Civil(days=3, anchor=datetime(2026, 1, 9, 9)).explain()
    assert "every 11th day" in Civil(days=11, anchor=datetime(2026, 1, 9, 9)).explain()
    assert Cron("0 9 * * *", calendar=SHOP).explain().endswith("of the calendar 'shop' is left out")

"""Cron texts: what each form means, and that nothing is guessed, whatever is written."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.errors import InvalidRule
from timewheel.recurrence.cron_text import NAMED, read


def minutes(text: str) -> list[int]:
    return list(read(f"{text} * * * *").times.minutes)


def weekdays(text: str) -> list[int]:
    bits = read(f"0 0 * * {text}").dates.rule.weekdays
    return [day for day in range(7) if bits >> day & 1]


def refusal(text: object) -> InvalidRule:
    with pytest.raises(InvalidRule) as caught:
        read(text)
    assert len(str(caught.value)) < 400
    return caught.value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("5", [5]),
        ("05", [5]),
        ("0059", [59]),
        ("5,5,7", [5, 7]),
        ("5-5", [5]),
        ("5-5/3", [5]),
        ("0-0", [0]),
        ("58-59", [58, 59]),
        ("*/45", [0, 45]),
        ("0-59/59", [0, 59]),
        ("*/60", [0]),
        ("41-59/24", [41]),
        ("10-20/7", [10, 17]),
        ("5/15", [5, 20, 35, 50]),
        ("59/15", [59]),
        ("50-51/15", [50]),
        ("*/20,7", [0, 7, 20, 40]),
        ("*", list(range(60))),
        ("0-59", list(range(60))),
        ("0-29,30-59", list(range(60))),
        ("*,5", list(range(60))),
    ],
)
def test_minutes(text: str, values: list[int]) -> None:
    assert minutes(text) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0", [0]), ("7", [0]), ("0,7", [0]), ("sun", [0]), ("5-7", [0, 5, 6]), ("0-7", list(range(7))),
        ("1-7/2", [0, 1, 3, 5]), ("1/2", [0, 1, 3, 5]), ("*/2", [0, 2, 4, 6]), ("*/7", [0]), ("fri-sun", [0, 5, 6]),
        ("Sun-wed,FRI", [0, 1, 2, 3, 5]), ("sun-sun", [0]), ("mon-fri/2", [1, 3, 5]), ("7-7", [0]), ("6-7", [0, 6]),
    ],
)  # fmt: skip
def test_weekdays(text: str, values: list[int]) -> None:
    assert weekdays(text) == values


def test_months_have_names() -> None:
    assert read("0 0 1 jan,MAR-may,11 *").dates.months == (1, 3, 4, 5, 11)
    assert read("0 0 1 */5 *").dates.months == (1, 6, 11)


@pytest.mark.parametrize(
    ("text", "both"),
    [
        ("1 * 1", False), ("* * 1", True), ("1 * *", True), ("*/2 * 1", True), ("1-31 * 1", False), ("1 * */3", True),
        ("? * 1", True), ("1 * ?", True), ("1,*/2 * 1", False), ("*,2 * 1", True), ("L * 5L", False),
    ],
)  # fmt: skip
def test_the_star_rule(text: str, both: bool) -> None:
    assert read(f"0 0 {text}").dates.rule.both is both


def test_seconds_come_first() -> None:
    assert tuple(read("30 14 9 * * *").times) == ((9,), (14,), (30,))
    assert tuple(read("14 9 * * *").times) == ((9,), (14,), (0,))


@pytest.mark.parametrize(
    ("text", "wild"),
    [
        ("* 5 * * *", True), ("5 * * * *", True), ("*/5 5 * * *", True), ("5 */5 * * *", True), ("5 5 * * *", False),
        ("0-59 0-23 * * *", False), ("* 5 5 * * *", False), ("5 * 5 * * *", True), ("@hourly", True), ("@daily", False),
    ],
)  # fmt: skip
def test_wild_is_a_star_in_minute_or_hour(text: str, wild: bool) -> None:
    assert read(text).wild is wild


@pytest.mark.parametrize("name", NAMED)
def test_names_mean_their_fields(name: str) -> None:
    by_name, by_fields = read(name.title()), read(NAMED[name])
    assert by_name[2:] == by_fields[2:]
    assert by_name.text == name


def test_the_text_is_written_plainly() -> None:
    assert read("\t*/30 \t 8\t*  * mon-Fri ").text == "*/30 8 * * MON-FRI"
    assert read("CRON_TZ=Europe/Berlin  @Daily").text == "@daily"
    assert read("CRON_TZ=Europe/Berlin 0 9 * * *").tz == "Europe/Berlin"


WRONG = [
    ("", "expr", "empty"),
    (" \t ", "expr", "empty"),
    ("*", "expr", "1 field"),
    ("* * * *", "expr", "4 fields"),
    ("* * * * * * *", "expr", "year"),
    ("0 0 * * *\n", "expr", "character 10"),
    ("0 0 * * *\x00", "expr", "character 10"),
    ("0 0\u00a0* * * *", "expr", "character 4"),
    ("\u0665 * * * *", "expr", "character 1"),
    ("1_0 * * * *", "minute", "'1_0'"),
    ("+5 * * * *", "minute", "0 to 59"),
    ("-5 * * * *", "minute", "missing"),
    ("5- * * * *", "minute", "missing"),
    ("5--7 * * * *", "minute", "'-7'"),
    ("1-5-7 * * * *", "minute", "'5-7'"),
    ("60 * * * *", "minute", "0 to 59"),
    ("* 24 * * *", "hour", "0 to 23"),
    ("* * 0 * *", "day of month", "1 to 31"),
    ("* * * 13 *", "month", "1 to 12 or JAN to DEC"),
    ("* * * * 8", "day of week", "0 to 7 or SUN to SAT"),
    ("* * * JANUARY *", "month", "'JANUARY'"),
    ("* * * * MOND", "day of week", "'MOND'"),
    ("60 * * * * *", "second", "0 to 59"),
    ("*/0 * * * *", "minute", "step of 0"),
    ("*/00 * * * *", "minute", "1 to 60"),
    ("*/61 * * * *", "minute", "1 to 60"),
    ("*/ * * * *", "minute", "1 to 60"),
    ("*/5/5 * * * *", "minute", "'5/5'"),
    ("*/99999999999999999999 * * * *", "minute", "1 to 60"),
    ("1-5/99999999999999999999 * * * *", "minute", "1 to 60"),
    ("99999999999999999999 * * * *", "minute", "0 to 59"),
    ("*5 * * * *", "minute", "'*5'"),
    ("*-5 * * * *", "minute", "'*'"),
    ("** * * * *", "minute", "'**'"),
    ("30-10 * * * *", "minute", "write 30-59,0-10"),
    ("* * * NOV-FEB *", "month", "write 11-12,1-2"),
    ("* * * * FRI-MON", "day of week", "write 5-6,0-1"),
    ("* * * * 6-0", "day of week", "write 6-7"),
    ("1,,2 * * * *", "minute", "empty"),
    (",1 * * * *", "minute", "empty"),
    ("1, * * * *", "minute", "empty"),
    ("? * * * *", "minute", "write *"),
    ("* * ?/2 * *", "day of month", "alone"),
    ("* * 1,? * *", "day of month", "alone"),
    ("* * L-0 * *", "day of month", "1 to 30"),
    ("* * L-31 * *", "day of month", "1 to 30"),
    ("* * L- * *", "day of month", "1 to 30"),
    ("* * W * *", "day of month", "15W"),
    ("* * W15 * *", "day of month", "15W"),
    ("* * 15L * *", "day of month", "L-3"),
    ("* * 1-15W * *", "day of month", "15W"),
    ("* * 32W * *", "day of month", "1 to 31"),
    ("* * L/2 * *", "day of month", "L-3"),
    ("* * LW-1 * *", "day of month", "L-3"),
    ("* * * * L", "day of week", "FRIL"),
    ("* * * * 15W", "day of week", "FRIL"),
    ("* * * * 8L", "day of week", "0 to 7"),
    ("* * * * 1-5L", "day of week", "'1-5'"),
    ("* * * * LL", "day of week", "'L'"),
    ("* * * * MON#0", "day of week", "1 to 5"),
    ("* * * * MON#6", "day of week", "1 to 5"),
    ("* * * * MON#", "day of week", "1 to 5"),
    ("* * * * #1", "day of week", "missing"),
    ("* * * * 1-5#1", "day of week", "'1-5'"),
    ("* * * * MON#1#2", "day of week", "1 to 5"),
    ("L * * * *", "minute", "'L'"),
    ("h * * * *", "minute", "'H'"),
    ("r * * * *", "minute", "'R'"),
    ("0 H(0-7) * * *", "hour", "'H(0'"),
    ("@reboot", "expr", "start"),
    ("@every 5m", "expr", "Every"),
    ("@fortnightly", "expr", "@weekly"),
    ("@daily 5", "expr", "@daily"),
    ("TZ=UTC 0 9 * * *", "tz", "CRON_TZ="),
    ("cron_tz=UTC 0 9 * * *", "tz", "CRON_TZ="),
    ("MAILTO=x 0 9 * * *", "tz", "CRON_TZ="),
    ("CRON_TZ=UTC", "expr", "0 fields"),
    ("0 0 31 2 *", "day of month", "never runs"),
]


@pytest.mark.parametrize(("text", "field", "hint"), WRONG)
def test_anything_else_is_refused_naming_the_field(text: str, field: str, hint: str) -> None:
    error = refusal(text)
    assert error.field == field
    assert hint in str(error)


@pytest.mark.parametrize("text", [None, 5, b"0 9 * * *", ["0", "9", "*", "*", "*"], 1.5, True])
def test_only_text_is_a_cron_rule(text: object) -> None:
    assert refusal(text).field == "expr"


def test_a_rule_may_have_256_characters_and_no_more() -> None:
    longest = "0," * ((256 - len("0 * * * *")) // 2) + "0 * * * *"
    longest = longest + " " * (256 - len(longest))
    assert read(longest).times.minutes == (0,)
    assert "256" in str(refusal(longest + " "))


HOSTILE = [
    *[text for text, _, _ in WRONG],
    "0 " * 50_000,
    "*" * 100_000,
    "1," * 50_000 + "1 * * * *",
    "\u0660" * 100_000,
    "9" * 250,
    ",".join(["1-59/2"] * 34) + " * * * 8",
    "0 0 " + ",".join(["31W"] * 55) + " 2 *",
    "0 0 */29 2 " + ",".join(["1#5"] * 55),
    "\x00" * 256,
    "@" * 256,
    "CRON_TZ=" + "A" * 248,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20].encode("unicode_escape").decode())
def test_a_refusal_costs_less_than_ten_milliseconds(text: str) -> None:
    """Of the processor's time, and the best of five: a busy machine is no fault of the parser."""
    best = 1.0
    for _ in range(5):
        began = time.process_time()
        with pytest.raises(InvalidRule):
            read(text)
        best = min(best, time.process_time() - began)
    assert best < 0.010


ALPHABET = "0123456789*/-,#?LW " + "MONJANUFRI" + "\t@=_+." + "\u00e9\u0665\n\x00"


@given(st.one_of(st.text(ALPHABET, max_size=60), st.text(string.printable, max_size=300), st.text(max_size=80)))
def test_any_text_is_a_rule_or_refused(text: str) -> None:
    try:
        rule = read(text)
    except InvalidRule:
        return
    assert read(rule.text)[2:] == rule[2:], "its plain writing means the same"
    assert rule.dates.possible()


FIELD = st.text("0123456789*/-,#?LWMONFRI", min_size=1, max_size=8)


@given(st.lists(FIELD, min_size=5, max_size=6))
def test_any_five_or_six_fields_are_a_rule_or_refused(fields: list[str]) -> None:
    test_any_text_is_a_rule_or_refused.hypothesis.inner_test(" ".join(fields))  # type: ignore[attr-defined]

"""A TOML file of the desired schedules: what it says, and what it may not say."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.cli.desired import NotDesired, read
from timewheel.cli.parser_schedules import FORMAT

WHOLE = """
[[calendar]]
name = "bank"
exclude = [[2026-12-28, 2026-12-31], 2026-12-25, "2026-12-24", 2026-12-26]
weekend = ["sun", "fri"]

[[schedule]]
id = "payroll"
task = "pay.run"
args = ["monthly", 1, { deep = [true] }]
kwargs = { amount = 1.5 }
cron = "0 18 L * *"
tz = "Europe/London"
calendar = "bank"
roll = "preceding"
overlap = { kind = "ALLOW", limit = 5 }
retry = 3
start = 2026-01-05T00:00:00Z
end = "2027-01-05T00:00:00+01:00"

[[schedule]]
id = "fortnight"
task = "echo"
weeks = 2
anchor = 2026-01-09T09:00:00
"""


def test_tables_become_bodies() -> None:
    desired = read(WHOLE)
    assert desired.calendars == {
        "bank": {"exclude": [["2026-12-24", "2026-12-26"], ["2026-12-28", "2026-12-31"]], "weekend": ["fri", "sun"]}
    }
    assert desired.schedules == {
        "payroll": {
            "id": "payroll", "task": "pay.run", "args": ["monthly", 1, {"deep": [True]}], "kwargs": {"amount": 1.5},
            "cron": "0 18 L * *", "tz": "Europe/London", "calendar": "bank", "roll": "preceding",
            "overlap": {"kind": "ALLOW", "limit": 5}, "retry": 3, "managed": "file",
            "start": "2026-01-05T00:00:00+00:00", "end": "2027-01-05T00:00:00+01:00",
        },
        "fortnight": {
            "id": "fortnight", "task": "echo", "weeks": 2, "anchor": "2026-01-09T09:00:00", "managed": "file",
        },
    }  # fmt: skip


def test_the_format_that_help_shows_is_one() -> None:
    shown = FORMAT[FORMAT.index("    [[calendar]]") : FORMAT.index("Every other key")]
    desired = read(textwrap.dedent(shown))
    assert (list(desired.calendars), list(desired.schedules)) == (["bank"], ["payroll"])


def test_nothing_is_a_set_too() -> None:
    assert read("# all gone\n") == ({}, {})


@pytest.mark.parametrize(
    ("every", "seconds"),
    [("90", 90), ("0.5", 0.5), ('"90s"', 90), ('"5m"', 300), ('"1.5 h"', 5400), ('"1d"', 86400), ('"250ms"', 0.25)],
)
def test_an_interval_may_have_a_unit(every: str, seconds: float) -> None:
    assert read(f'[[schedule]]\nid = "x"\nevery = {every}').schedules["x"]["every_s"] == seconds


def body(text: str) -> str:
    return f'[[schedule]]\nid = "x"\n{text}\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "not TOML"),
        ('[[schedules]]\nid = "x"', "'schedules' is not known"),
        ('[schedule]\nid = "x"', "[[schedule]]"),
        ("schedule = [1]", "[[schedule]]"),
        ('[[schedule]]\ntask = "x"', "[[schedule]] number 1: it needs id"),
        ("[[schedule]]\nid = 7", "it needs id"),
        (body("") + body(""), "[[schedule]] number 2: id = 'x' stands there twice"),
        (body("every_s = 1"), "write every ="),
        (body('if_exists = "keep"'), "if_exists"),
        (body("dry_run = true"), "dry_run"),
        (body('managed = "code"'), "managed"),
        (body('every = "soon"'), "every = 'soon'"),
        (body("every = true"), "every"),
        (body("start = 2026-01-05T00:00:00"), "needs a time with an offset"),
        (body("start = 2026-01-05"), "needs a time with an offset"),
        (body("end = [2026-01-05]"), "which JSON does not have"),
        (body("args = [2026-01-05]"), "which JSON does not have"),
        (body("kwargs = { a = [inf] }"), "which JSON does not have"),
        (body("kwargs = { a = nan }"), "which JSON does not have"),
        ('[[calendar]]\nname = ""', "it needs name"),
        ('[[calendar]]\nname = "a"\nexclude = 2026-12-25', "exclude is a list"),
        ('[[calendar]]\nname = "a"\nexclude = [7]', "exclude"),
        ('[[calendar]]\nname = "a"\nexclude = [[2026-12-25]]', "exclude"),
        ('[[calendar]]\nname = "a"\nexclude = [2026-12-25T00:00:00]', "exclude"),
        ('[[calendar]]\nname = "a"\nweekend = ["monday"]', "weekend"),
        ('[[calendar]]\nname = "a"\nweekend = 7', "[[calendar]] number 1"),
        ('[[calendar]]\nname = "a"\ndays = []', "'days' is not known"),
        ('[[calendar]]\nname = "a\\nb"', "printable"),
    ],
)
def test_what_it_may_not_say_is_named(text: str, said: str) -> None:
    with pytest.raises(NotDesired) as refused:
        read(text)
    assert said in str(refused.value)


def test_a_date_of_a_calendar_may_be_text_as_well() -> None:
    assert read('[[calendar]]\nname = "a"\nexclude = ["2026-12-25"]').calendars["a"]["exclude"] == ["2026-12-25"]


PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="ascii", exclude_characters="\x7f")),
    lambda inner: st.lists(inner, max_size=3),
)


@given(PLAIN)
def test_arguments_come_through_as_they_are(value: Any) -> None:
    text = json.dumps([value])
    assert read(body(f"args = {text}")).schedules["x"]["args"] == [value]


@given(st.text(alphabet="[]calendrshu=\"'\n 0129-:TZ{},.#", max_size=60))
def test_no_file_does_anything_but_say_or_be_refused(text: str) -> None:
    try:
        desired = read(text)
    except NotDesired:
        return
    json.dumps([desired.calendars, desired.schedules], allow_nan=False)

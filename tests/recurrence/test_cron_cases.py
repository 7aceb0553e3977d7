"""Every case of cron_cases.json: instants that schedulers got wrong, under each policy, whatever the process's zone."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from timewheel.errors import InvalidRule
from timewheel.recurrence.cron import Cron

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cron_cases.json").read_text("ascii"))["cases"]
REFUSED = [case for case in CASES if case.get("error")]
AUTO = "gap=AUTO,fold=AUTO"
WANTED = [
    pytest.param(case, policy, instants, id=f"{case['id']}-{policy}")
    for case in CASES
    if "expected" in case
    for policy, instants in {AUTO: case["expected"], **case.get("with_policy", {})}.items()
]


def test_the_cases_are_all_there() -> None:
    assert len(CASES) == 77
    assert len(REFUSED) + sum("expected" in case for case in CASES) == len(CASES)


@pytest.mark.parametrize(("case", "policy", "instants"), WANTED)
def test_next_instants(case: dict[str, Any], policy: str, instants: list[str], process_zone: str) -> None:
    options: dict[str, Any] = dict(one.split("=") for one in policy.split(","))
    rule = Cron(case["expr"], tz=case["tz"], **options)
    moment: datetime | None = datetime.fromisoformat(case["start"])
    for instant in instants:
        assert moment is not None
        moment = rule.next_after(moment)
        assert moment == datetime.fromisoformat(instant), case["note"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["id"])
def test_refused_when_made(case: dict[str, Any], process_zone: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Cron(case["expr"], tz=case["tz"])
    assert caught.value.field in str(caught.value) or caught.value.field == "expr"


def test_the_field_at_fault_is_named() -> None:
    fields = {}
    for case in REFUSED:
        with pytest.raises(InvalidRule) as caught:
            Cron(case["expr"], tz=case["tz"])
        fields[case["id"]] = caught.value.field
    assert fields == {
        "X01": "day of month", "X03": "day of month", "X05": "day of month", "X07": "minute", "X09": "hour",
        "X11": "day of month", "X13": "day of week", "X15": "expr", "X17": "day of week", "X19": "minute",
        "X21": "minute", "X23": "minute", "X25": "expr", "X27": "minute", "X29": "day of week", "X31": "month",
        "X33": "day of month", "X35": "expr", "X37": "tz",
    }  # fmt: skip

"""The table of reported behaviours (cases.toml) against the tests that exist: none forgotten, none made up."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads(Path(__file__).with_name("cases.toml").read_text(encoding="utf-8"))
NUMBERS = [
    *(*range(1, 10), 11, *range(13, 25), *range(27, 32), 33, 34, 37, 39, *range(41, 45), *range(46, 50), 51, 52, 54),
    *(55, *range(57, 63), 64, *range(66, 71), 72, 74, *range(76, 79), *range(80, 83), 86),
]
PARTS = {"authentication"}  # what is not built yet


@cache
def names(file: str) -> list[str]:
    """The tests of a file, without importing it."""
    path = ROOT / file
    assert path.exists(), f"{file} does not exist"
    found = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [each.name for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_every_reported_behaviour_is_accounted_for() -> None:
    assert list(TABLE) == [f"B{number:02}" for number in NUMBERS]


@pytest.mark.parametrize("case", TABLE)
def test_a_case_is_told_and_proved_or_waits_for_a_part_that_is_named(case: str) -> None:
    entry = TABLE[case]
    assert set(entry) <= {"kind", "tests", "later"}
    assert re.fullmatch(r"[A-Z].{20,}\.", entry["kind"])
    assert entry.get("tests") or entry.get("later"), "neither proved nor waiting"
    if "later" in entry:
        assert entry["later"].partition(" (")[0] in PARTS
    for test in entry.get("tests", []):
        file, _, name = test.partition("::")
        assert [each for each in names(file) if each.startswith(name or "test_")], f"there is no test {test}"


def test_a_test_that_names_a_case_stands_in_the_table() -> None:
    """A new test called test_b54_... is found by whoever looks the case up."""
    listed = {case: entry.get("tests", []) for case, entry in TABLE.items()}
    missing = [
        f"{case}: {file}::{name}"
        for file in sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))
        for name in names(file)
        for case in re.findall(r"b\d\d(?=_)", "".join(re.findall(r"^test_((?:[bi]\d+_)+)", name)))
        if not any(f"{file}::{name}".startswith(test) for test in listed[case.upper()])
    ]
    assert not missing, "\n".join(["name them in cases.toml:", *missing])

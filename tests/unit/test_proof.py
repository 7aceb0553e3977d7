"""The table of proof: what the reports come to, and that every method can be asked as the table says."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.methods import METHODS
from tests.proof.table import Result, markdown

ROOT = Path(__file__).resolve().parents[2]
TOLD = {"cases": 12_000, "faults": 7, "violations": 0}


def result(code=0, told=TOLD):
    return Result("power-cut", "images", "tests.crash.power --images 12000", code, 61.2, told)


def test_a_line_says_what_was_done_and_how():
    line = markdown([result()]).splitlines()[-1]
    assert line == "| power-cut | 12,000 images | 7 | 0 | 61 s | `tests.crash.power --images 12000` |"


@pytest.mark.parametrize(
    ("one", "shown"),
    [
        (result(told=TOLD | {"violations": 2}, code=1), "| 2 |"),
        (result(code=3), "| 0, exit 3 |"),
        (result(code=1, told=None), "| no report |  | exit 1 |"),
    ],
)
def test_what_did_not_hold_is_shown(one, shown):
    assert not one.held
    assert shown in markdown([one])


def test_what_held():
    assert result().held


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_takes_a_report(method):
    name = method.module if "." in method.module else f"{method.module}.__main__"
    assert importlib.util.find_spec(name) is not None
    asked = [sys.executable, "-m", method.module, "--help"]
    shown = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout
    words = method.command(quick=False).split() + method.command(quick=True).split()
    assert "--report" in shown
    assert [word for word in words if word.startswith("--") and word not in shown] == []


@pytest.mark.slow  # a campaign of power cuts
def test_one_method_from_end_to_end(tmp_path):
    written = tmp_path / "all.json"
    asked = [sys.executable, "-m", "tests.proof", "--quick", "--only", "power-cut", "--json", str(written)]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| power-cut | 3" in done.stdout
    assert written.exists()

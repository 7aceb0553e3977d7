"""The mutation score: its table of survivors fits the code, and the command finds what a few mutants change."""

import json
import subprocess
import sys

import pytest

from tests.mutation.modules import MODULES, TOO_SLOW
from tests.mutation.mutants import ROOT, Mutant
from tests.mutation.survivors import Survivors

TABLE = ROOT / "tests/mutation/survivors.toml"


def test_every_survivor_stands_in_its_module_and_has_a_reason():
    assert Survivors(TABLE).unknown(set(MODULES)) == []


def test_a_survivor_is_known_by_its_lines(tmp_path):
    table = tmp_path / "survivors.toml"
    table.write_text('[[bucket]]\nwas = "a = 1"\nbecomes = "a = 2"\nwhy = "nobody looks"\n')
    survivors = Survivors(table)
    assert survivors.explains(Mutant("bucket", "m_1", 0, "a = 1", "a = 2"))
    assert not survivors.explains(Mutant("wheel", "m_1", 0, "a = 1", "a = 2"))
    assert not survivors.explains(Mutant("bucket", "m_1", 0, "a = 1", "a = 3"))
    assert [entry.was for entry in survivors.unknown({"bucket"})] == ["a = 1"]
    table.write_text('[[bucket]]\nwas = "a = 1"\nbecomes = "a = 2"\nwhy = " "\n')
    with pytest.raises(AssertionError, match="say why"):
        Survivors(table)


def test_files_and_tests_are_there():
    for module in MODULES.values():
        assert (ROOT / module.path).is_file()
        for test in module.tests:
            assert (ROOT / test).is_file()
    for test in TOO_SLOW:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_command_mutates_a_copy_and_reports(tmp_path):
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "tests.mutation", "--only", "backoff.gives_up", "--report", str(report)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    numbers = json.loads(report.read_text())
    assert numbers["method"] == "mutation"
    assert numbers["cases"] == numbers["killed"] >= 3
    assert (numbers["violations"], numbers["score"]) == (0, 100.0)
    assert "backoff" in told.stdout

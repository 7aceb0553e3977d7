"""Runs mutmut on a copy of the checkout, and reads what it found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.mutation.modules import MODULES, TOO_SLOW, Module

ROOT = Path(__file__).parents[2]
FAILED = {1, 3}  # pytest's exit codes: a test failed, or could not even be run
HANGS_S = 20  # of a single test, unless it says that it takes longer
ENDLESS = {-24, 24, 36, 152, 255}  # mutmut's: the mutant ran out of time


class Mutant(NamedTuple):
    """One small change. `was` and `becomes` are the changed lines; they are read for survivors only."""

    module: str
    name: str
    exit_code: int | None
    was: str = ""
    becomes: str = ""

    @property
    def endless(self) -> bool:
        return self.exit_code in ENDLESS

    @property
    def found(self) -> bool:
        return self.endless or self.exit_code in FAILED

    @property
    def verdict(self) -> str:
        return {0: "survived", 5: "no test", 33: "no test", None: "not run"}.get(
            self.exit_code, f"exit {self.exit_code}"
        )


def run_mutmut(folder: Path, chosen: dict[str, Module], functions: dict[str, set[str]], jobs: int) -> None:
    """Copy what is needed into `folder`, and let mutmut run there. Exits, with what it said, when it fails."""
    for name in ("timewheel", "storage", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8") + _settings(chosen)
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(jobs)]
    for name, module in chosen.items():
        dotted = module.path.removesuffix(".py").replace("/", ".")
        command += [f"{dotted}.x*{function}__mutmut_*" for function in functions.get(name, ())]
        command += [] if name in functions else [f"{dotted}.*"]
    environment = os.environ | {"HYPOTHESIS_PROFILE": "mutation", "PYTHONPATH": ""}
    with (folder / "mutmut.log").open("w") as log:
        seen = None if sys.stdout.isatty() else log  # its progress is for people
        ended = subprocess.run(command, cwd=folder, env=environment, stdout=seen, stderr=seen, check=False)
    if ended.returncode != 0:
        told = (folder / "mutmut.log").read_text(encoding="utf-8").replace("\r", "\n")
        sys.exit(f"{told[-4_000:]}\nmutmut ended with {ended.returncode}")


def _settings(chosen: dict[str, Module]) -> str:
    tests = dict.fromkeys(test for module in chosen.values() for test in module.tests)
    deselect = [word for test in TOO_SLOW for word in ("--deselect", test)]
    values = {
        "source_paths": ["timewheel"],
        "only_mutate": [module.path for module in chosen.values()],
        "also_copy": ["storage"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "--timeout", str(HANGS_S), *deselect],
        "pytest_add_cli_args_test_selection": list(tests),
        "timeout_multiplier": 4.0,
        "timeout_constant": 10.0,
        "use_git_change_detection": False,
    }
    return "\n[tool.mutmut]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


def read_mutants(folder: Path, module: str, functions: set[str] | None) -> Iterator[Mutant]:
    """What became of the mutants of one module (or of some functions of it)."""
    found = json.loads((folder / "mutants" / f"{MODULES[module].path}.meta").read_text(encoding="utf-8"))
    for name, exit_code in found["exit_code_by_key"].items():
        if functions is not None and not re.search(rf"x(_|.*ǁ)({'|'.join(functions)})__mutmut_\d+$", name):
            continue
        mutant = Mutant(module, name, exit_code)
        yield mutant if mutant.found else _with_lines(folder, mutant)


def _with_lines(folder: Path, mutant: Mutant) -> Mutant:
    shown = subprocess.run(
        [sys.executable, "-m", "mutmut", "show", mutant.name], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.splitlines()

    def changed(sign: str) -> str:
        lines = [line[1:].strip() for line in shown if line.startswith(sign) and not line.startswith(sign * 3)]
        return " ".join(lines)

    return mutant._replace(was=changed("-"), becomes=changed("+"))

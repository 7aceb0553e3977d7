"""The types of the public API, as mypy --strict and pyright see them: tests/typing/ has right and wrong calls."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

RIGHT = "tests/typing/right_calls.py"
WRONG = "tests/typing/wrong_calls.py"


def run(root, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(root), str(root / "storage")])
    env = {**os.environ, "MYPYPATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=root, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )


def mypy(root, tmp_path) -> dict[str, dict[int, str]]:
    """The complaints by file and line."""
    done = run(root, "mypy", "--strict", "--no-pretty", "--no-error-summary", f"--cache-dir={tmp_path}", RIGHT, WRONG)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, dict[int, str]] = {}
    for name, line, message in re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE):
        found.setdefault(name, {}).setdefault(int(line), message)
    return found


def pyright(root, tmp_path) -> dict[str, dict[int, str]]:
    """The same of pyright."""
    done = run(root, "pyright", "--outputjson", "--pythonpath", sys.executable, RIGHT, WRONG)
    assert done.stdout.lstrip().startswith("{"), f"pyright did not run: {done.stdout}{done.stderr}"
    found: dict[str, dict[int, str]] = {}
    for complaint in json.loads(done.stdout)["generalDiagnostics"]:
        if complaint["severity"] == "error":
            name = os.path.relpath(complaint["file"], root)
            found.setdefault(name, {}).setdefault(complaint["range"]["start"]["line"] + 1, complaint["message"])
    return found


@pytest.mark.slow  # half a minute, and the same on every interpreter
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_right_calls_are_accepted_and_wrong_ones_refused(checker, root, tmp_path):
    found = checker(root, tmp_path)
    right = found.pop(RIGHT, {})
    wrong = found.pop(WRONG, {})
    lines = (root / WRONG).read_text(encoding="utf-8").splitlines()
    marked = {number: line.strip() for number, line in enumerate(lines, 1) if "# WRONG" in line}
    complaints = [f"{RIGHT}:{line}: {message}" for line, message in right.items()]
    complaints += [f"{WRONG}:{line}: {message}" for line, message in wrong.items() if line not in marked]
    complaints += [f"{WRONG}:{line}: not refused: {text}" for line, text in marked.items() if line not in wrong]
    complaints += [f"{name}:{line}: {text}" for name, lines in found.items() for line, text in lines.items()]
    assert not complaints, "\n".join(complaints)

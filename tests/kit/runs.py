"""Runs of pytest in a process of their own, with exactly the plugins that are named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio.pytest_plugin")


class Run:
    """What a run of pytest came to: `passed`, `failed` and `errors` are numbers, `text` what it printed."""

    def __init__(self, done):
        self.text = done.stdout + done.stderr
        self.code = done.returncode
        found = dict.fromkeys(("passed", "failed", "error", "warning", "skipped"), 0)
        lines = [line for line in done.stdout.splitlines() if re.search(r" in [\d.]+s", line)]
        for number, word in re.findall(r"(\d+) (passed|failed|error|warning|skipped)", lines[-1] if lines else ""):
            found[word] = int(number)
        self.passed, self.failed, self.errors = found["passed"], found["failed"], found["error"]
        self.warnings, self.skipped = found["warning"], found["skipped"]


def run_pytest(folder, text, *options, plugins=(*ASYNCIO, "-o", "asyncio_mode=auto"), conftest=""):
    """Run a test file of this text, warnings being errors."""
    (folder / "test_it.py").write_text(textwrap.dedent(text), encoding="utf-8")
    (folder / "conftest.py").write_text(textwrap.dedent(conftest), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--strict-markers"]
    command += ["-p", "timewheel.testing.plugin", *plugins, *options]
    return Run(subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=200))


def run_python(code):
    """Run a line of Python; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def environment():
    """This process's, without its plugins and options."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "storage")])
    return {**kept, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}

"""The steps of CI, in order; each is timed, a failed one does not keep the others from running.

tests     the README's test command, word for word, in a fresh clone of HEAD, on the oldest Python found
lint      ruff check, ruff format, mypy, pyright, import-linter, with what that command installed
wheel     the built wheel holds every tracked file of both packages, and imports with the core's dependencies alone
serve     the README's first command starts a server that gets ready, takes the README's curl, and drains on SIGTERM
others    what may differ from one Python to another (ELSEWHERE and its share, without slow) on the other ones, at once

Uses the standard library only. Works in a temporary directory, so what git does not know does not count.
"""

# ruff: noqa: T201  this program talks by printing

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile
from pathlib import Path

BUDGET_S = 20 * 60
WANTED = ("3.11", "3.12", "3.13")
ROOT = Path(__file__).resolve().parent.parent
STEPS = ("tests", "lint", "wheel", "serve", "others")
READY_WITHIN_S = 300
ELSEWHERE = ["tests/unit", "tests/kit"]
ON_THE_NEXT = ["tests/e2e/test_embed.py"]
LOOPS = ("handlers", "starting", "stop")  # what leans on asyncio the most
ON_THE_NEWEST = [f"tests/simulation/test_{name}.py" for name in LOOPS]


class Failed(Exception):
    """A step did not do what it must."""


class Run:
    """One run of CI: its directory, its Pythons, what came of each step."""

    def __init__(self, pythons: dict[str, str], work: Path) -> None:
        self.pythons = pythons
        self.oldest = next(iter(pythons))
        self.work = work
        self.ends = time.monotonic() + BUDGET_S
        self.results: list[tuple[str, float, str]] = []
        self.env = self._environment()

    def _environment(self) -> dict[str, str]:
        """The machine's, less what would leak in from a developer's shell; `python3` is the oldest Python found."""
        env = {
            key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        }
        shims = self.work / "bin"
        shims.mkdir()
        shim = shims / "python3"  # not a link: venv would take the link's directory for the Python's home
        shim.write_text(f'#!/bin/sh\nexec "{self.pythons[self.oldest]}" "$@"\n')
        shim.chmod(0o755)
        return {
            **env,
            "PATH": f"{shims}{os.pathsep}{env.get('PATH', os.defpath)}",
            "CI": "true",
            "PIP_NO_INPUT": "1",
            "PIP_QUIET": "2",
        }

    def clone(self, name: str) -> Path:
        """A fresh clone of HEAD."""
        target = self.work / name
        subprocess.run(
            ["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(target)], check=True, stdin=subprocess.DEVNULL
        )
        return target

    def step(self, name: str, action, *arguments) -> None:
        """Carry out one step and note what came of it and how long it took."""
        print(f"\n===== {name}", flush=True)
        began = time.monotonic()
        try:
            verdict = action(*arguments) or "ok"
        except (Failed, OSError, subprocess.SubprocessError) as error:
            verdict = f"FAILED: {error}"
        took = time.monotonic() - began
        self.results.append((name, took, verdict))
        print(f"===== {name}: {verdict} ({took:.1f} s)", flush=True)

    def command(self, arguments: list[str] | str, folder: Path, *, output=None) -> None:
        """Run a command to its end, within what is left of the budget; raise Failed unless it exits 0."""
        shown = arguments if isinstance(arguments, str) else " ".join(arguments)
        line = ["bash", "-euo", "pipefail", "-c", arguments] if isinstance(arguments, str) else arguments
        print(f"$ {shown}", flush=True, file=output)
        process = subprocess.Popen(
            line,
            cwd=folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output and subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(max(1.0, self.ends - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Failed(f"the {BUDGET_S // 60} minutes of CI are over: {shown}") from None
        finally:
            end_group(process)
        if code:
            raise Failed(f"exit {code}: {shown}")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End whatever is left of a command's own process group."""
    with contextlib.suppress(ProcessLookupError):  # nothing is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def readme_command(checkout: Path, name: str) -> str | None:
    """The fenced block of README.md after the line `<!-- ci:NAME -->`; None without such a line."""
    text = (checkout / "README.md").read_text(encoding="utf-8") if (checkout / "README.md").exists() else ""
    found = re.search(rf"<!-- ci:{name} -->\s*```\w*\n(.*?)\n```", text, re.DOTALL)
    return found[1] if found else None


def needed_command(checkout: Path, name: str) -> str:
    """The same; Failed without such a line."""
    command = readme_command(checkout, name)
    if command is None:
        raise Failed(f"README.md has no fenced block after a line `<!-- ci:{name} -->`")
    return command


def tests(run: Run, checkout: Path) -> None:
    """What a stranger types to try the tests."""
    run.command(needed_command(checkout, "tests"), checkout)


def lint(run: Run, checkout: Path) -> None:
    """Every checker runs, also when one before it complains."""
    tools = checkout / ".venv/bin"
    if not (tools / "ruff").exists():
        raise Failed("the README's test command left no .venv with the tools")
    complaints = []
    for command in (
        [f"{tools}/ruff", "check"],
        [f"{tools}/ruff", "format", "--check"],
        [f"{tools}/mypy", "--strict", "-p", "timewheel", "-p", "timewheel_storage"],
        [f"{tools}/pyright", "--pythonpath", f"{tools}/python", "tests/typing/right_calls.py"],
        [f"{tools}/lint-imports", "--no-cache"],
    ):
        try:
            run.command(command, checkout)
        except Failed as failure:
            complaints.append(str(failure))
    if complaints:
        raise Failed("; ".join(complaints))


def wheel(run: Run, checkout: Path) -> None:
    """Build it, look into it, and import it where only the core's dependencies are installed."""
    built = run.work / "wheel"
    python = run.pythons[run.oldest]
    run.command([python, "-m", "pip", "wheel", "--no-deps", "-w", str(built), str(checkout)], checkout)
    package = next(built.glob("*.whl"))
    listed = subprocess.run(
        ["git", "ls-files", "timewheel", "storage"], cwd=checkout, check=True, capture_output=True, text=True
    ).stdout.split()
    inside = set(zipfile.ZipFile(package).namelist())
    missing = [name for name in listed if name.removeprefix("storage/") not in inside]
    if missing:
        raise Failed(f"the wheel lacks {missing}")
    alone = run.work / "alone"
    run.command([python, "-m", "venv", str(alone)], run.work)
    run.command([f"{alone}/bin/python", "-m", "pip", "install", str(package)], run.work)
    check = "from timewheel import *; from timewheel.testing import *; import timewheel_storage; print(Clock)"
    run.command([f"{alone}/bin/python", "-W", "error", "-c", check], run.work)


def serve(run: Run) -> None:
    """The README's first command, and its curl, as a stranger would type them."""
    checkout = run.clone("serve")
    command = needed_command(checkout, "serve")
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex(("127.0.0.1", 8400)) == 0:
            raise Failed("port 8400 is taken on this machine: the README's server cannot be tried")
    print(f"$ {command}", flush=True)
    server = subprocess.Popen(
        ["bash", "-euc", command], cwd=checkout, env=run.env, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until_ready(run, server)
        run.command(needed_command(checkout, "curl"), checkout)
        for process in group_of(server.pid):
            os.kill(process, signal.SIGTERM)
        code = server.wait(60)
        if code:
            raise Failed(f"the server ended with exit {code} after SIGTERM")
    finally:
        end_group(server)


def wait_until_ready(run: Run, server: subprocess.Popen[bytes]) -> None:
    """Until /readyz answers 200."""
    until = min(run.ends, time.monotonic() + READY_WITHIN_S)
    while time.monotonic() < until:
        if server.poll() is not None:
            raise Failed(f"the server ended with exit {server.returncode}")
        try:
            with urllib.request.urlopen("http://127.0.0.1:8400/readyz", timeout=2):
                return
        except OSError:  # not yet: installing, starting, or 503
            time.sleep(0.2)
    raise Failed("the server did not get ready")


def group_of(leader: int) -> list[int]:
    """The processes of a group: without its leader, a shell that waits for them, unless that is the only one."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # gone meanwhile
            continue
        if int(fields[2]) == leader:
            members.append(int(stat.parent.name))
    return [member for member in members if member != leader] or members


def quick_suite(run: Run, version: str, log: Path) -> None:
    """Install and test with one other Python."""
    checkout = run.clone(f"checkout-{version}")
    with log.open("w") as output:
        run.command([run.pythons[version], "-m", "venv", ".venv"], checkout, output=output)
        run.command([".venv/bin/python", "-m", "pip", "install", "-e", ".[dev]"], checkout, output=output)
        parts = [*ELSEWHERE]  # the rest is shared out among those that run at the same time
        parts += ON_THE_NEXT if version == list(run.pythons)[1] else []
        parts += ON_THE_NEWEST if version == list(run.pythons)[-1] else []
        run.command([".venv/bin/python", "-m", "pytest", "-q", "-m", "not slow", *parts], checkout, output=output)


def others(run: Run) -> str | None:
    """The quick suites of the other Pythons, at the same time; each output is shown whole when all have ended."""
    failures: dict[str, str] = {}
    logs = {version: run.work / f"{version}.log" for version in run.pythons if version != run.oldest}

    def one(version: str) -> None:
        try:
            quick_suite(run, version, logs[version])
        except (Failed, OSError, subprocess.SubprocessError) as failure:
            failures[version] = str(failure)

    threads = [threading.Thread(target=one, args=(version,)) for version in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for version, log in logs.items():
        print(f"--- Python {version}\n{log.read_text() if log.exists() else ''}", flush=True)
    missing = [version for version in WANTED if version not in run.pythons]
    if missing:
        print(f"!!! SKIPPED: no Python {', '.join(missing)} on this machine", flush=True)
    if failures:
        raise Failed("; ".join(f"Python {version}: {why}" for version, why in failures.items()))
    return f"ok, but SKIPPED Python {', '.join(missing)}" if missing else None


def main() -> int:
    """All steps that are asked for; 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", nargs="+", required=True, metavar="VERSION=PATH")
    parser.add_argument("--only", default=",".join(STEPS), help="some of: " + ",".join(STEPS))
    options = parser.parse_args([argument for argument in sys.argv[1:] if argument != "--"])
    wanted = options.only.split(",")
    work = Path(tempfile.mkdtemp(prefix="timewheel-ci-"))
    began = time.monotonic()
    try:
        run = Run(dict(pair.split("=", 1) for pair in options.pythons), work)
        print("Pythons:", *(f"{version} {path}" for version, path in run.pythons.items()), flush=True)
        checkout = run.clone("checkout")
        for name, action, arguments in (
            ("tests", tests, (run, checkout)),
            ("lint", lint, (run, checkout)),
            ("wheel", wheel, (run, checkout)),
            ("serve", serve, (run,)),
            ("others", others, (run,)),
        ):
            if name in wanted:
                run.step(name, action, *arguments)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"\n===== all: {time.monotonic() - began:.1f} s")
    for name, took, verdict in run.results:
        print(f"{took:8.1f} s  {name:8} {verdict}")
    return any(verdict.startswith("FAILED") for _, _, verdict in run.results)


if __name__ == "__main__":
    sys.exit(main())

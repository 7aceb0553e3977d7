"""Real processes: each runs a small program that says lines on a pipe, and is told lines on another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
PRELUDE = """
import asyncio, os, sys, threading
from timewheel import *

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # at once: a forked child says lines on it, too

def hear():
    return sys.stdin.readline().strip()

async def forever():
    await asyncio.Event().wait()
"""


def environment() -> dict[str, str]:
    """What a child needs to find timewheel, and to report what it should not do."""
    path = f"{ROOT}{os.pathsep}{ROOT / 'storage'}"
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}


class Child:
    """`python NAME.py ARGUMENTS` in `folder`, where NAME.py holds the prelude and the program. Killed on leaving."""

    def __init__(
        self, folder: Path, program: str, *arguments: object, name: str = "app", before: tuple[str, ...] = ()
    ) -> None:
        self.errors = folder / f"{name}.err"
        (folder / f"{name}.py").write_text(PRELUDE + textwrap.dedent(program))
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [*before, sys.executable, f"{name}.py", *map(str, arguments)],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment(),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        """The next line that it says; an AssertionError with its errors when it ended instead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended without a word: {self.errors.read_text()}"
        return line.strip()

    def tell(self, text: str = "") -> None:
        """Give it a line to hear."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def kill(self) -> list[str]:
        """SIGKILL; what it had said before."""
        self.process.kill()
        return self.rest()

    def rest(self) -> list[str]:
        """Wait until it ends; the lines that it still said."""
        assert self.process.stdout is not None
        lines = self.process.stdout.read().splitlines()
        self.process.wait()
        return lines

    def end(self) -> int:
        """Wait until it ends; its exit code."""
        self.rest()
        return self.process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

"""Runs lives in children of its own, with the shim between them and their files. `kth.py` tells it which, on its stdin.

Everything is imported once; each life, and each look at what it left, is a forked child. The looks meet no fault.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash import iolives, iolives_told, shim

LIMIT_S = 90.0
JOURNAL = "jobs.db"


def in_a_child(work: Callable[[], int], errors: Path) -> tuple[int, bool]:
    """Run it in a forked child: its exit status as waitpid tells it, and whether it had to be killed for its time."""
    child = os.fork()
    if not child:
        code = 70
        try:
            descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(descriptor, 2)
            os.dup2(descriptor, 1)
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    ended = os.pidfd_open(child)
    try:
        late = not select.select([ended], [], [], LIMIT_S)[0]
        if late:
            os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1], late
    finally:
        os.close(ended)


class Worker:
    """See the module. `folder` is where the lives have their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._page = shim.Page()
        self._messes: dict[str, Path] = {}

    def run(self, life: str, fault: shim.Fault, kth: int) -> dict[str, Any]:
        """One life with one fault, and what came of it; `wrong` is empty when all is well."""
        home = self._folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        self._furnish(life, home)
        journal, told, errors = home / "journal" / JOURNAL, home / "told", home / "errors"
        self._page.clear()

        def work() -> int:
            if life == "migration":
                iolives.update_to_come()
            shim.arm(journal.parent, self._page, fault, kth)
            met = iolives.live(life, journal, told, lambda: self._page.hits > 0, passes=not fault.for_ever)
            return asyncio.run(met)

        status, late = in_a_child(work, errors)
        wrong = "it never ended" if late else self._wrong_end(fault, status, told)
        wrong = wrong or self._look(life, journal, told)
        result = {"life": life, "fault": fault.name, "kth": kth, "calls": self._page.calls, "hit": self._page.hit}
        result |= {"code": os.waitstatus_to_exitcode(status), "wrong": wrong}
        result["met"] = iolives_told.told_in(told).errors
        if wrong:
            result["errors"] = errors.read_text()[-6000:]
            result["told"] = told.read_text()[-6000:] if told.exists() else ""
        return result

    def _furnish(self, life: str, home: Path) -> None:
        if life == "full":
            (home / "journal").mkdir(parents=True)
            return
        if life not in self._messes:
            self._messes[life] = self._mess(life)
        shutil.copytree(self._messes[life], home)

    def _mess(self, life: str) -> Path:
        mess = self._folder / f"mess-{life}"
        (mess / "journal").mkdir(parents=True)
        work = iolives.leave_a_mess(mess / "journal" / JOURNAL, mess / "told")
        status, _ = in_a_child(lambda: asyncio.run(work), mess / "errors")  # type: ignore[func-returns-value]
        work.close()
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise RuntimeError(f"no mess: {(mess / 'errors').read_text()}")
        return mess

    def _wrong_end(self, fault: shim.Fault, status: int, told_at: Path) -> str:
        code = os.waitstatus_to_exitcode(status)
        hit = self._page.hits > 0
        if hit and fault.name in ("kill", "torn"):
            return "" if code == -signal.SIGKILL else f"it should have been killed, and ended with {code}"
        if hit and fault.for_ever:
            return "" if code in (0, 65, 73, 74) else f"it ended with {code}"
        told = iolives_told.told_in(told_at)
        return "" if code == 0 and not told.gave_up else f"what passes by should not end it, and it ended with {code}"

    def _look(self, life: str, journal: Path, told: Path) -> str:
        def look() -> int:
            if life == "migration":
                iolives.update_to_come()
            iolives_told.check_life(life, journal, told)
            return 0

        words = told.with_name("look")
        status, late = in_a_child(look, words)
        if late:
            return "the look at what it left never ended"
        return "" if status == 0 else f"what it left is wrong: {words.read_text()[-4000:]}"


def main() -> None:
    """Answer each line `[life, fault, kth]` with a result."""
    logging.disable(logging.CRITICAL)
    worker = Worker(Path(sys.argv[1]))
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        life, fault, kth = json.loads(line)
        sys.stdout.write(json.dumps(worker.run(life, shim.FAULTS[fault], kth)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

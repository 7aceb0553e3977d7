"""Lives of the embedding program in processes of their own, and how each ended."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.book import Book

ROOT = Path(__file__).resolve().parents[2]
LONG_S = 120.0  # longer than anything here takes, on a busy machine too
TERM_SHARE = 0.12
ERRORS = "errors.log"


def environment(**more: str) -> dict[str, str]:
    """What a child needs to find this checkout."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "storage")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error", **more}


class Moment(NamedTuple):
    """When a life is ended, and how: `delay_s` after the `nth` event of a kind."""

    what: str
    delay_s: float
    nth: int
    signal: int


@dataclass(slots=True)
class Ended:
    """How a life ended. `draining`: when it had begun to drain, if it did."""

    code: int
    killed: bool = False
    when: str = ""
    draining: int | None = None
    drained: bool = False


def embedded_life(folder: Path, book: Book, life: int, chance: random.Random) -> Ended:
    """One life, ended at a moment that the chance draws."""
    return _run(folder, book, ("work", str(life), str(chance.random())), draw_moment(chance))


def drain(folder: Path, book: Book, life: int) -> Ended:
    """A last life, in which everything is run to its end."""
    ended = _run(folder, book, ("drain", str(life), "0"), None)
    ended.drained = True
    return ended


def draw_moment(chance: random.Random, *, longest_s: float = 1.2, events: int = 100) -> Moment:
    """Anywhere; or right around a start, a commit, a checkpoint."""
    if chance.random() < TERM_SHARE:
        return Moment("did", chance.uniform(0, 0.01), chance.randint(1, events), signal.SIGTERM)
    return Moment(
        *chance.choice(
            [
                ("any time", chance.uniform(0, longest_s), 1),
                ("starting", chance.uniform(0, longest_s / 20), 1),
                ("started", chance.uniform(0, 0.02), 1),
                ("did", chance.uniform(0, 0.002), chance.randint(1, events)),
                ("will", chance.uniform(0, 0.002), chance.randint(1, events)),
                ("checkpoints", chance.uniform(0, 0.02), chance.randint(1, events)),
            ]
        ),
        signal.SIGKILL,
    )


def _run(folder: Path, book: Book, arguments: tuple[str, ...], moment: Moment | None) -> Ended:
    brisk = {"ENDURANCE": "brisk"} if moment is not None and moment.what == "checkpoints" else {}
    with (folder / ERRORS).open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.embedded", *arguments],
            cwd=folder, env=environment(**brisk), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            start_new_session=True,
        )  # fmt: skip
    watch = threading.Timer(LONG_S, os.killpg, (process.pid, signal.SIGABRT))
    watch.start()
    try:
        return _hear_to_the_end(process, book, moment)
    finally:
        watch.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _hear_to_the_end(process: subprocess.Popen[bytes], book: Book, moment: Moment | None) -> Ended:
    """Read its lines; when the moment has come, send the signal from a thread, so that the pipe never fills."""
    ended = Ended(0, when=moment.what if moment else "")
    left = moment.nth if moment else 0
    sender = None
    if moment is not None and moment.what == "any time":
        sender = _send_later(process, moment)
    assert process.stdout is not None
    for line in process.stdout:
        if not line.endswith(b"\n"):
            break  # cut off: it was not said
        event: dict[str, Any] = json.loads(line)
        if event.get("phase") == "draining":
            ended.draining = event["t"]
        book.hear(event)
        if moment is not None and sender is None and is_a(event, moment.what):
            left -= 1
            if left == 0:
                sender = _send_later(process, moment)
    ended.code = process.wait()
    if sender is not None:
        sender.join()
    ended.killed = ended.code == -signal.SIGKILL
    process.stdout.close()
    return ended


def is_a(event: dict[str, Any], what: str) -> bool:
    """Whether an event is of the kind that a moment counts."""
    return event.get("phase") == what or what in event or (what == "checkpoints" and "did" in event)


def _send_later(process: subprocess.Popen[bytes], moment: Moment) -> threading.Thread:
    def send() -> None:
        time.sleep(moment.delay_s)
        if process.poll() is None:
            os.killpg(process.pid, moment.signal)

    sender = threading.Thread(target=send)
    sender.start()
    return sender

"""`jobs import FILE`: send a file of jobs to a running server; safe to repeat, and to interrupt at any moment.

Every line has an idempotency key (its own, or one made of the file's hash and its number), so sending a line again
gives the job that is there. That is what makes it safe to go on after a lost answer, a restarted server or Ctrl-C.
"""

from __future__ import annotations

import asyncio
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from timewheel.checks import counted
from timewheel.cli import output
from timewheel.cli.client import BACKOFF_S, Answer, Client, detail_of, may_pass
from timewheel.cli.exits import DATA, OK, UNAVAILABLE, Exit
from timewheel.cli.lines import Line, Refusal, Source, open_source

BATCH = "/api/v1/jobs/batch"
BATCH_JOBS = 500
BATCH_BYTES = 4 << 20
AT_ONCE = 4
BUSY = 429
LINE_EVERY_S = 3.0
SHOWN_REFUSALS = 20


@dataclass
class Tally:
    """What became of the lines so far."""

    created: int = 0
    existed: int = 0
    refused: list[Refusal] = field(default_factory=list)
    said: str = ""
    away: bool = False

    def waiting(self, answer: Answer) -> None:
        """Say once why nothing moves."""
        self.away = answer.status != BUSY
        if answer.detail != self.said:
            self.said = answer.detail
            output.say(f"waiting: {answer.detail}")

    def moving(self) -> None:
        """Say once that it goes on. While the server is busy, some batches wait and others do not: that says itself."""
        if self.away:
            self.away, self.said = False, ""
            output.say("the server answers again; going on")

    @property
    def done(self) -> int:
        """Lines that are settled."""
        return self.created + self.existed + len(self.refused)


async def import_jobs(options: Namespace) -> int:
    """Import a file; 65 when a line was refused, 69 when the server stayed away for `--patience` seconds."""
    with open_source(options.file, sys.stdin.buffer) as source:
        tally = Tally(refused=source.check())
        if tally.refused:
            _report(options, source, tally, "nothing was imported: mend these lines first")
            return DATA
        return await _import(options, source, tally)


async def _import(options: Namespace, source: Source, tally: Tally) -> int:
    try:
        with _progress(source.jobs, hidden=options.json) as show:
            await _send_all(options, source, tally, show)
    except (Exit, asyncio.CancelledError) as stop:
        left = f"{counted(rest := source.jobs - tally.done, 'line')} {'is' if rest == 1 else 'are'} left"
        again = "run the same command again to go on: no job is made twice"
        why = str(stop) or "interrupted"
        if why == tally.said and not options.json:  # it stands there already
            why = f"that lasted longer than the --patience of {options.patience:g} s"
        _report(options, source, tally, f"{why}; {left}; {again}")
        if isinstance(stop, Exit):
            return stop.code
        raise
    _report(options, source, tally, None)
    return DATA if tally.refused else OK


async def _send_all(options: Namespace, source: Source, tally: Tally, show: Callable[[int], None]) -> None:
    """Send every batch, a few at a time. The first that fails for good ends it."""
    batches = source.batches(BATCH_JOBS, BATCH_BYTES)
    async with Client(options.url) as client:

        async def send_some() -> None:
            for batch in batches:  # shared: each worker takes the next one
                await _send(client, batch, options.patience, tally)
                show(tally.done)

        workers = [asyncio.create_task(send_some()) for _ in range(AT_ONCE)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


async def _send(client: Client, batch: list[Line], patience_s: float, tally: Tally) -> None:
    """Send a batch until each of its lines is settled. Raises Exit when patience ends or all of it is refused."""
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s
    tries = 0
    while batch:
        body = {"jobs": [line.job for line in batch]}
        answer = await client.post_patiently(BATCH, body, max(0.0, until - loop.time()), tally.waiting)
        if not answer.ok:
            raise answer.exit()
        tally.moving()
        left, wait_s = _settle(batch, answer, tally)
        if left and loop.time() + wait_s > until and len(left) == len(batch):
            raise Exit(UNAVAILABLE, "the server has no room for more jobs")
        if len(left) < len(batch):
            until, tries = loop.time() + patience_s, 0
        elif left:
            wait_s = max(wait_s, BACKOFF_S[min(tries, len(BACKOFF_S) - 1)])
            tries += 1
        batch = left
        if batch:
            await asyncio.sleep(wait_s)


def _settle(batch: list[Line], answer: Answer, tally: Tally) -> tuple[list[Line], float]:
    """Count the results of a batch; the lines to send again, and how long to wait before."""
    left: list[Line] = []
    for line, result in zip(batch, answer.body["results"], strict=True):
        status, problem = result["status"], result.get("problem")
        if 200 <= status < 300:
            tally.created += bool(result["created"])
            tally.existed += not result["created"]
        elif may_pass(status):
            left.append(line)
        else:
            tally.refused.append(Refusal(line.number, detail_of(problem, f"status {status}")))
    return left, answer.retry_after_s or BACKOFF_S[0]


def _report(options: Namespace, source: Source, tally: Tally, trouble: str | None) -> None:
    refused = sorted(tally.refused)
    if options.json:
        lines = [refusal._asdict() for refusal in refused]
        summary = {"lines": source.jobs, "created": tally.created, "existed": tally.existed, "refused": lines}
        output.json_line({**summary, "left": source.jobs - tally.done, "trouble": trouble})
        return
    for refusal in refused[:SHOWN_REFUSALS]:
        output.say(f"line {refusal.line}: {refusal.reason}")
    if len(refused) > SHOWN_REFUSALS:
        output.say(f"... and {counted(len(refused) - SHOWN_REFUSALS, 'more line')}; --json lists them all")
    if refused and trouble is None:
        output.say(
            "put the refused lines, mended, into a new file: in a changed file the other lines would get new keys"
        )
    if trouble:
        output.say(trouble)
    output.result(f"{tally.created} created, {tally.existed} already there, {len(refused)} refused")


class _Lines:
    """Progress where there is no terminal: a line every `LINE_EVERY_S`, none when it is over before."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = time.monotonic() + LINE_EVERY_S

    def tell(self, done: int) -> None:
        """Hear how many lines are settled."""
        now = time.monotonic()
        if now >= self._next and done < self._total:
            self._next = now + LINE_EVERY_S
            output.say(f"imported {done:,} of {self._total:,}")


@contextmanager
def _progress(total: int, *, hidden: bool) -> Iterator[Callable[[int], None]]:
    """Progress on stderr, a bar or in a log a line now and then; gives the function that hears how much is settled."""
    if hidden:
        yield lambda _done: None
        return
    if not sys.stderr.isatty():
        yield _Lines(total).tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("importing", total=total)
        yield lambda done: bar.update(task, completed=done)

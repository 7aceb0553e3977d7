"""The worker: bounded runs, their limits of time, and the settlement of each.

For every job that passed the gate it finds the task, loads the arguments, has the runner enter the handler, and turns
the ending into one Settle by `lifecycle`. A handler that cannot be stopped at one of its limits (see `watch`) keeps its
slot and its key: the job is WAITING (overrun), or DEAD, until it ends; what it returns then is recorded as ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from timewheel.alarm import Alarm
from timewheel.codec import loads_call
from timewheel.errors import NotSerializable
from timewheel.model import MAX_TIME_US, SECOND_US, AttemptState, ClockKind, JobState, Now, WaitingReason, job_text
from timewheel.work.context import JobContext
from timewheel.work.lifecycle import SHUTDOWN, Decision, Ending, EndingKind, decide
from timewheel.work.run import Run, Stopping
from timewheel.work.runner import Runner
from timewheel.work.settling import Ledger, counters_of, ending_of, release_of, settlement, terms_of
from timewheel.work.watch import Watch

if TYPE_CHECKING:
    from timewheel.dispatch.gate import Claimant
    from timewheel.ports import Clock, Threads
    from timewheel.task import Task

_log = logging.getLogger("timewheel")
OVERRUN_AFTER_S = 1.0  # an async handler that ignores its cancellation for longer than this overruns
LAST_WORD_US = SECOND_US // 2  # what a handler gets to end after the grace


class Worker:
    """See the module. `find(name)` gives a task or the reason why there is none."""

    def __init__(
        self,
        threads: Threads,
        now: Callable[[], Now],
        clock: Clock,
        chance: Callable[[], float],
        find: Callable[[str], tuple[Task | None, str]],
        ledger: Ledger,
        scheduler: object,
    ) -> None:
        self._now = now
        self._clock = clock
        self._chance = chance
        self._find = find
        self._ledger = ledger
        self._scheduler = scheduler
        self._watch = Watch(clock, now, self._expired)
        self.look = self._watch.look  # a clock was set: whose deadline has come?
        self._runner = Runner(threads, now, clock, began=self._began, ended=self._ended, mistimed=self._mistimed)
        self._runs: dict[int, Run] = {}  # by job id: every attempt that passed the gate and has not ended
        self._emptied = Alarm(clock)
        self._grace_ends = 2 * MAX_TIME_US  # steady

    # ---- starting ----------------------------------------------------------------------------------------------------

    def start(self, claimant: Claimant, now: Now) -> None:
        """Run a job that passed the gate."""
        job = claimant.job
        task, reason = self._find(job.task)
        if task is None:
            self._hold(claimant, reason)
            return
        try:
            args, kwargs = loads_call(job.arguments)
        except NotSerializable as error:
            self._hold(claimant, str(error))
            return
        offset_us = now.wall_us - now.steady_us
        wall = job.due_at if job.clock is ClockKind.WALL else job.due_at + offset_us
        deadline = None if job.flow is None else job.flow.deadline
        context = JobContext(job.job_id, job.attempt, wall, self._scheduler, job.origin, offset_us, deadline)
        run = Run(claimant, task, args, kwargs, context)
        self._runs[job.job_id] = run
        try:
            self._runner.start(run)
        except RuntimeError as error:  # no thread to be had: not the job's fault, so it costs the job nothing
            _log.warning("no thread for %s: %s", job.task, error)
            later = now.steady_us + SECOND_US
            decision = Decision(AttemptState.RELEASED, JobState.SCHEDULED, later, *counters_of(run), "no_thread")
            self._finish(run, decision, now)

    def release(self, claimant: Claimant, reason: str) -> None:
        """Give a claimed job back that was not entered."""
        change = release_of(claimant, reason, JobState.SCHEDULED, self._now(), self._ledger.epoch)
        self._ledger.settle(change, claimant)

    def _hold(self, claimant: Claimant, reason: str) -> None:
        """Nobody here can run this job: it is kept, in view, until somebody can."""
        _log.warning("job %s waits: %s", job_text(claimant.job.job_id), reason)
        why = WaitingReason.UNRESOLVABLE.value
        change = release_of(claimant, why, JobState.WAITING, self._now(), self._ledger.epoch)
        change.error = reason
        self._ledger.settle(change, claimant)
        self._ledger.slot_free(claimant)

    def _began(self, run: Run) -> None:
        if run.watched and not run.settled:
            self._watch.begin(run)

    # ---- the verbs ---------------------------------------------------------------------------------------------------

    def running(self, job_id: int) -> Run | None:
        """The run of a job whose handler has been entered and whose attempt is still open."""
        run = self._runs.get(job_id)
        return run if run is not None and run.entered and not run.settled else None

    def has(self, job_id: int) -> bool:
        """Whether an attempt of this job passed the gate and has not ended."""
        return job_id in self._runs

    def withdraw(self, job_id: int) -> Claimant | None:
        """Take a job back that waits for a thread; None: it does not."""
        run = self._runs.get(job_id)
        if run is None or run.settled or not self._runner.withdraw(run):
            return None
        self._forget(run)
        claimant: Claimant = run.claimant
        return claimant

    def _mistimed(self, run: Run) -> None:
        if run.entered:  # verbs took it for entered: back at the gate it would not hear of a cancel under way
            now = self._now()
            self._finish(run, self._judge(run, Ending(EndingKind.NOT_ENTERED), now), now)
        elif not run.withdrawn:  # otherwise it was taken back already
            self._forget(run)
            self._ledger.came_early(run.claimant)

    def cancel(self, job_id: int) -> None:
        """The cancel request is durable: stop the handler."""
        if (run := self.running(job_id)) is not None:
            self._runner.stop(run, Stopping.CANCEL, run.task.cancel_grace_us / SECOND_US)

    # ---- ending ------------------------------------------------------------------------------------------------------

    def _ended(self, run: Run, error: BaseException | None, value: Any) -> None:
        if run.settled:
            self._forget(run)
            self._ledger.slot_free(run.claimant)
            self._ledger.overran(run.job.job_id, run.job.attempt, run.stopping is Stopping.TIMEOUT)
            return
        now = self._now()
        self._finish(run, self._judge(run, ending_of(run, error, now.wall_us), now), now, error, value)
        if isinstance(error, KeyboardInterrupt):
            self._ledger.interrupted()

    def release_unborn(self) -> None:
        """Give back the runs whose task somebody cancelled before its first step: such a task never says so itself."""
        now = self._now()
        for run in [run for run in self._runs.values() if run.unborn]:
            self._finish(run, self._judge(run, Ending(EndingKind.NOT_ENTERED), now), now)

    def _judge(self, run: Run, ending: Ending, now: Now, *, overrun: bool = False) -> Decision:
        counters, terms = counters_of(run), terms_of(run, now)
        run.retry_after_us = 0 if ending.verdict is None else ending.verdict.delay_us
        return decide(ending, counters, run.job.retry, now.steady_us, self._chance(), terms=terms, overrun=overrun)

    def _finish(
        self, run: Run, decision: Decision, now: Now, error: BaseException | None = None, value: Any = None
    ) -> None:
        self._settle(run, decision, now, error, value)
        self._forget(run)
        self._ledger.slot_free(run.claimant)

    def _settle(
        self, run: Run, decision: Decision, now: Now, error: BaseException | None = None, value: Any = None
    ) -> None:
        run.settled = True
        if run.watched:
            self._watch.end(run)
        change = settlement(run, decision, now, self._ledger.epoch, error, value)
        catch_up = (origin := run.job.origin) is not None and origin.catch_up
        self._ledger.settle(change, run.claimant, retry_after_us=run.retry_after_us, catch_up=catch_up)
        self._ledger.ended(run.claimant, decision, run.retry_after_us)

    def _expired(self, run: Run, why: str) -> None:
        if run.settled or run.expired is not None:
            return
        run.expired = why
        self._runner.stop(run, Stopping.TIMEOUT)
        if run.handle is None:
            self._overrun(run)
            return
        if run.timer is not None:
            run.timer.cancel()
        run.timer = self._clock.call_later(OVERRUN_AFTER_S, lambda: self._overrun(run))

    def _overrun(self, run: Run) -> None:
        if run.settled:
            return
        _log.warning("%s of job %s timed out and does not stop", run.task.name, run.context.job_id)
        now = self._now()
        self._ledger.overruns(run.claimant)
        self._settle(run, self._judge(run, Ending(EndingKind.TIMED_OUT), now, overrun=True), now)

    def _forget(self, run: Run) -> None:
        del self._runs[run.job.job_id]
        if not self._runs:
            self._emptied.ring()

    # ---- stopping ----------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> int:
        """How many handlers run or wait for a thread."""
        return len(self._runs)

    async def finish(self, grace_s: float) -> list[str]:
        """Let what runs finish, for `grace_s` at most; then stop it. The names of the handlers that would not end.

        What still runs `LAST_WORD_US` after the grace is given back (RELEASED, shutdown): its attempt is not spent.
        """
        for run in list(self._runs.values()):
            if not run.entered:
                claimant = self.withdraw(run.job.job_id)
                if claimant is not None:
                    self.release(claimant, SHUTDOWN)
                    self._ledger.slot_free(claimant)
        self.hurry(grace_s)
        await self._wait_until_empty(lambda: self._grace_ends)
        for run in list(self._runs.values()):
            self._runner.stop(run, Stopping.SHUTDOWN)
        last_word = self._now().steady_us + LAST_WORD_US
        await self._wait_until_empty(lambda: last_word)
        left = list(self._runs.values())
        for run in left:
            if not run.settled:
                now = self._now()
                self._settle(run, self._judge(run, Ending(EndingKind.SHUTDOWN), now), now)
        return [f"{run.task.name} ({run.context.job_id})" for run in left]

    def close(self, when_threads_end: Callable[[], None]) -> bool:
        """Start no more threads. Whether handlers still run in some; then `when_threads_end` is called by the last."""
        self._runner.close(when_threads_end)
        return self._runner.in_threads > 0

    def hurry(self, grace_s: float) -> None:
        """End the grace after so many seconds from now, if it would end later."""
        self._grace_ends = min(self._grace_ends, self._now().steady_us + round(grace_s * SECOND_US))
        self._emptied.ring()

    async def _wait_until_empty(self, limit_us: Callable[[], int]) -> None:
        while self._runs and (left := limit_us() - self._now().steady_us) > 0:
            await self._emptied.wait(left / SECOND_US)

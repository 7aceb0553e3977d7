"""The users of a simulation: they call the verbs of the scheduler that lives, and write down what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from timewheel import (
    IdempotencyConflict,
    InvalidTask,
    Job,
    JobNotFound,
    JournalFull,
    JournalUnknown,
    NotStarted,
    PartlyScheduled,
    Scheduler,
    SchedulerFailed,
    UniqueConflict,
)
from timewheel.errors import JournalUnavailable, TimewheelError, WaitTimeout
from timewheel.model import SECOND_US, ClockKind, SchedulerState, job_number
from timewheel.testing.invariants import Violated
from timewheel.testing.simulation.book_flow import UNIQUE
from timewheel.testing.simulation.facts import Answered, Asked
from timewheel.testing.simulation.flow_plans import RETRIES, job_options, queue_options
from timewheel.testing.simulation.subjects import TAG

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

What = dict[str, Any]


class Users:
    """See the module. `jobs`: the handles of this life, by tag; `acknowledged`: every job's id that anyone was told."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.scheduler: Scheduler | None = None
        self.jobs: dict[str, Job[Any]] = {}
        self.acknowledged: dict[str, str] = {}  # id -> tag
        self.asked: dict[str, What] = {}  # tag -> what was asked for, acknowledged or not
        self.waiting: dict[int, str] = {}  # calls that have not come back
        self.retries = RETRIES
        self._numbers = 0

    def begin(self, scheduler: Scheduler) -> None:
        """Go on with another scheduler."""
        self.scheduler = scheduler
        self.world.standing.seen = {}
        self.jobs = {}
        self.waiting = {}

    async def recall(self, tags: set[str]) -> None:
        """Get handles of jobs of former lives."""
        assert self.scheduler is not None
        for job_id, tag in list(self.acknowledged.items()):
            if tag in tags and tag not in self.jobs:
                self.jobs[tag] = await self.scheduler.get_job(job_id)

    # ---- verbs -------------------------------------------------------------------------------------------------------

    async def submit(self, what: What) -> None:
        """Make a job. See `timewheel.testing.simulation.moves` for the fields of `what`."""
        self.asked.setdefault(what["tag"], what)
        call = what.get("task", "act"), what["tag"], {**what["script"], "queue": what.get("queue", "default")}

        async def go() -> str:
            scheme = self._options(what)
            if what["clock"] == "at":
                instant = self.world.machine.now() + timedelta(seconds=what["delay_s"])
                job = await scheme.at(instant, *call)
            elif what["clock"] == "after":
                job = await scheme.after(what["delay_s"], *call)
            else:
                job = await scheme.now(*call)
            self._acknowledge(what["tag"], job)
            return "created" if job.created else "existed"

        await self.ask("submit", what["tag"], go, what.get("give_up_s"))

    async def submit_many(self, what: What) -> None:
        """Make several jobs in one call."""
        for each in what["jobs"]:
            self.asked.setdefault(each["tag"], each)

        async def go() -> str:
            drafts = []
            for each in what["jobs"]:
                call = each.get("task", "act"), each["tag"], {**each["script"], "queue": each.get("queue", "default")}
                drafts.append(self._options(each).new(timedelta(seconds=abs(each["delay_s"])), *call))
            try:
                jobs = await self.the_scheduler.at_many(drafts)
            except PartlyScheduled as partly:
                jobs = partly.jobs
            for job in jobs:
                self._acknowledge(job.args[0], job)
            return f"{len(jobs)}"

        await self.ask("at_many", "", go, what.get("give_up_s"))

    async def cancel(self, tag: str, give_up_s: float | None = None) -> None:
        """Cancel a job, if it is known."""
        if job := self.jobs.get(tag):
            await self.ask("cancel", tag, lambda: job.cancel("planned"), give_up_s, job_id=job.id)

    async def reschedule(self, tag: str, clock: str, delay_s: float, give_up_s: float | None = None) -> None:
        """Move a job, if it is known."""
        job = self.jobs.get(tag)
        engine = self.the_scheduler._engine
        if job is None or engine is None:
            return
        when: Any
        if clock == "after":
            when = timedelta(seconds=delay_s)
            target = (ClockKind.STEADY, engine.now().steady_us + round(delay_s * SECOND_US))
        else:
            when = self.world.machine.now() + timedelta(seconds=delay_s)
            target = (ClockKind.WALL, round(when.timestamp() * SECOND_US))
        await self.ask("reschedule", tag, lambda: job.reschedule(when), give_up_s, job_id=job.id, target=target)

    async def wait(self, tag: str, timeout_s: float) -> None:
        """Wait for a job's end; what comes must be final."""
        if job := self.jobs.get(tag):

            async def go() -> str:
                done = await job.wait(timeout_s)
                if not done.state.final:
                    raise Violated("I1", "wait() gave a job that is not final", done)
                return f"{done.state}"

            await self.ask("wait", tag, go, None, job_id=job.id)

    async def cancel_all(self, which: What) -> None:
        """Cancel every job that matches."""

        async def go() -> str:
            answer = await self.the_scheduler.jobs(**which).cancel(reason="planned, all")
            return f"{answer}"

        await self.ask("cancel all", str(which), go, None)

    async def queue(self, verb: str, queue: str, what: What) -> None:
        """Pause, resume or update a queue."""

        async def go() -> str:
            handle = self.the_scheduler.queue(queue)
            if verb == "update":
                self.world.limits.reshape(queue, what)
                await handle.update(**queue_options(what))
                self.world.limits.reshaped(queue, what)
            else:
                await (handle.pause() if verb == "pause" else handle.resume())
            return "done"

        await self.ask(verb, queue, go, None)

    async def look(self) -> None:
        """Read what there is to read."""

        async def go() -> str:
            page = await self.the_scheduler.jobs(page_size=5)
            for job in page.items:
                await job.attempts()
            return f"{len(page)}"

        await self.ask("look", "", go, None)

    # ---- what they were told -----------------------------------------------------------------------------------------

    async def ask(
        self,
        verb: str,
        tag: str,
        go: Callable[[], Awaitable[Any]],
        give_up_s: float | None,
        *,
        job_id: str = "",
        target: tuple[ClockKind, int] | None = None,
        explains: Callable[[TimewheelError], bool] = lambda error: False,
    ) -> None:
        """Call a verb and write down question and answer; an error that neither the faults nor `explains` explain..."""
        self._numbers += 1
        number = self._numbers
        self.world.add(Asked(self.world.elapsed_us, number, verb, tag, job_id, target))
        self.waiting[number] = f"{verb} {tag}"
        try:
            async with asyncio.timeout(give_up_s):
                how, answer = "ok", str(await go())
        except WaitTimeout as error:
            how, answer = "refused", type(error).__name__
        except TimeoutError:
            how, answer = "gave up", ""
        except IdempotencyConflict as conflict:
            how, answer = "refused", f"IdempotencyConflict {conflict.job_id}"
        except UniqueConflict as conflict:
            how, answer = "refused", f"UniqueConflict {conflict.job_id}"
        except TimewheelError as error:
            if not explains(error):
                self._judge(verb, tag, error)
            how, answer = "refused", type(error).__name__
        finally:
            self.waiting.pop(number, None)
        self.world.counts[f"answer: {verb}, {answer.partition(' ')[0] if how == 'refused' else answer or how}"] += 1
        self.world.add(Answered(self.world.elapsed_us, number, verb, tag, job_id, how, answer))

    def _judge(self, verb: str, tag: str, error: TimewheelError) -> None:
        """Whether an error is one that the faults of this life explain; raises Violated if not."""
        kinds = {fault.kind for fault in self.world.life.faults}
        explained = {
            JournalUnknown: kinds & {"unknown", "reopen"} or self.world.record.meddled,
            JournalFull: kinds & {"full"},
            JournalUnavailable: kinds & {"read", "gone", "reopen"},
            SchedulerFailed: self.world.may_fail(),
            NotStarted: self.the_scheduler.state is not SchedulerState.RUNNING,
            InvalidTask: self.world.life.without,
            JobNotFound: job_number(str(getattr(error, "job_id", ""))) in self.world.journal.book.flow.jobs,
        }
        if not explained.get(type(error)):
            number = "I1" if isinstance(error, JobNotFound) else "I25"
            raise Violated(number, f"{verb} of {tag} raised {type(error).__name__}: {error}")

    def _acknowledge(self, tag: str, job: Job[Any]) -> None:
        unique = self.asked.get(tag, {}).get("unique")
        if unique and not job.created and self.asked[job.args[0]].get("unique", {}).get("key") == unique["key"]:
            tag = job.args[0]  # a rival was there before
        if job.args[0] != tag:
            raise Violated("I4", f"{tag} got the job of {job.args[0]}, which has another body", job.record)
        self.jobs[tag] = job
        self.acknowledged[job.id] = tag

    @property
    def the_scheduler(self) -> Scheduler:
        """The one that lives."""
        assert self.scheduler is not None, "users come to a scheduler that was made"
        return self.scheduler

    def _options(self, what: What) -> Any:
        ids = {tag: job_id for job_id, tag in self.acknowledged.items()}
        tags = [TAG + what["tag"], *([UNIQUE + what["unique"]["key"]] if "unique" in what else [])]
        options = job_options(what, ids, self.world.machine.now())
        return self.the_scheduler.options(tags=tags, **options)

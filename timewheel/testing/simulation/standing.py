"""The users of schedules in a simulation: they call the verbs, and compare each answer with what they asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from timewheel import (
    Calendar,
    Cron,
    InvalidOption,
    InvalidRule,
    InvalidTime,
    Job,
    Schedule,
    ScheduleExists,
    ScheduleNotFound,
)
from timewheel.errors import TimewheelError, VersionConflict
from timewheel.model import JobState
from timewheel.schedule_records import ScheduleState
from timewheel.testing.laws import demand
from timewheel.testing.simulation.standing_plans import calendar_of, compare, options_of, rule_of
from timewheel.testing.simulation.subjects import TAG

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

What = dict[str, Any]
MOST_MADE_UP = 40  # jobs of one backfill, which may run one after the other
DROP = "drop"
FORCED = "trigger by force"
OPEN = (JobState.SCHEDULED, JobState.WAITING, JobState.ACTIVE)


class StandingUsers:
    """See the module. `seen` are the handles that anyone of this life got, by schedule, the newest last."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: dict[str, list[Schedule[Any]]] = {}

    # ---- verbs -------------------------------------------------------------------------------------------------------

    async def declare(self, what: What) -> None:
        """Declare a schedule; see `moves_of_schedules` for the fields of `what`."""
        users, now = self.world.users, self.world.machine.now()
        name = what["schedule"]
        queue = what.get("queue", "default")

        async def go() -> str:
            given = options_of(what["options"], users.retries, now)
            rule = await self._saved(rule_of(what["rule"], now))
            given |= {"id": name, "queue": queue, "tags": [TAG + name]}
            given |= {"if_exists": what["if_exists"]} if "if_exists" in what else {}
            scheme = users.the_scheduler.recurring(**given)
            script = {**what["script"], "queue": queue}
            schedule = await scheme.schedule(rule, what.get("task", "act"), name, script)
            self._note(schedule)
            if what.get("if_exists") != "keep":
                compare(schedule, given, rule)
            return f"{schedule.state}"

        await self._ask("declare", name, go, what.get("give_up_s"))

    async def edit(self, what: What) -> None:
        """Update a schedule."""
        users, now = self.world.users, self.world.machine.now()
        rule = None if what["rule"] is None else rule_of(what["rule"], now)
        given = options_of(what["options"], users.retries, now)

        async def update(one: Schedule[Any], **version: Any) -> Schedule[Any]:
            return await one.update(await self._saved(rule), **given, **version)

        await self._change("edit", what, update, lambda one: compare(one, given, rule))

    async def _saved(self, rule: Any) -> Any:
        """The rule by the name of its calendar, which is saved: a process may bring but one calendar of a name."""
        if not isinstance(rule, Cron) or not isinstance(rule.calendar, Calendar):
            return rule
        await self.world.users.the_scheduler.save_calendar(rule.calendar)
        return Cron(rule.expr, tz=rule.tz, calendar=rule.calendar.name)

    async def pause(self, what: What) -> None:
        """Pause a schedule."""
        until_s = what["until_s"]
        until = None if until_s is None else self.world.machine.now() + timedelta(seconds=until_s)

        def compare_pause(one: Schedule[Any]) -> None:
            demand(one.state in (ScheduleState.PAUSED, ScheduleState.ENDED), "I25", "paused, and is not", one.record)

        await self._change("rest", what, lambda one, **version: one.pause("planned", until, **version), compare_pause)

    async def resume(self, what: What) -> None:
        """Resume a schedule."""

        def compare_resumed(one: Schedule[Any]) -> None:
            demand(one.state is not ScheduleState.PAUSED, "I25", "resumed, and is not", one.record)

        await self._change("go on", what, lambda one, **version: one.resume(**version), compare_resumed)

    async def delete(self, what: What) -> None:
        """Delete a schedule."""

        async def delete(one: Schedule[Any], **version: int) -> None:
            await one.delete(**version)

        await self._change(DROP, what, delete, lambda one: None)

    async def trigger(self, what: What) -> None:
        """Trigger a schedule."""
        name = what["schedule"]

        async def go() -> str:
            job = await (await self._get(name)).trigger(force=what["force"])
            if job is not None:
                self._acknowledge(name, job)
            return "skipped" if job is None else "made"

        await self._ask(FORCED if what["force"] else "trigger", name, go, None)

    async def backfill(self, what: What) -> None:
        """Backfill a schedule, or count what would be made."""
        name, now = what["schedule"], self.world.machine.now()
        span = now + timedelta(seconds=what["from_s"]), now + timedelta(seconds=what["to_s"])

        async def go() -> str:
            schedule = await self._get(name)
            done = await schedule.backfill(*span, dry_run=what["dry"], at_once=what["at_once"], most=MOST_MADE_UP)
            demand(done.made + done.already_ran <= done.slots, "I5", "a backfill that does not add up", done)
            demand(len(done.jobs) == (0 if what["dry"] else done.made), "I5", "jobs of a backfill", done)
            for job in done.jobs:
                self._acknowledge(name, job)
            return "counted" if what["dry"] else "made"

        await self._ask("backfill", name, go, None)

    async def put_calendar(self, *, shut: bool) -> None:
        """Save the calendar."""
        calendar = calendar_of(self.world.machine.now(), shut=shut)

        async def go() -> str:
            await self.world.users.the_scheduler.save_calendar(calendar)
            return "saved"

        await self._ask("calendar", calendar.name, go, None)

    async def disturb(self, what: What) -> None:
        """Cancel or move a job of a schedule that is not final."""
        found: list[Job[Any]] = []

        async def go() -> str:
            found.extend(
                [job async for job in self.world.users.the_scheduler.jobs(schedule=what["schedule"], state=OPEN)]
            )
            return f"{bool(found)}"

        await self._ask("find", what["schedule"], go, None)
        if found:
            job = found[0 if what["which"] == "newest" else -1]
            tag = f"{what['schedule']} {job.id}"
            self.world.users.jobs[tag] = job
            if what["verb"] == "cancel":
                await self.world.users.cancel(tag)
            else:
                await self.world.users.reschedule(tag, "after", what["delay_s"])

    async def look(self, what: What) -> None:
        """Read what there is to read."""

        async def go() -> str:
            page = await self.world.users.the_scheduler.schedules(page_size=3)
            schedule = await self._get(what["schedule"])
            lines = await schedule.preview(5)
            to_run = [line for line in lines if line.reason is None]
            demand(len(to_run) <= 5, "I25", "more than was asked for", lines)
            rows = [row async for row in schedule.occurrences(page_size=7)]
            return f"{bool(page.items)}, {bool(rows)}"

        await self._ask("peep", what["schedule"], go, None)

    # ---- what they were told -----------------------------------------------------------------------------------------

    async def _change(
        self,
        verb: str,
        what: What,
        call: Callable[..., Awaitable[Schedule[Any] | None]],
        compare_with: Callable[[Schedule[Any]], None],
    ) -> None:
        """Call a verb that takes `if_version`; a version that was accepted is the one before, or is still there."""
        name = what["schedule"]

        async def go() -> str:
            before = await self._get(name)
            handles = self.seen.get(name)
            seen = handles[0 if what["as_seen"] == "oldest" else -1] if handles and what.get("as_seen") else None
            version = {} if seen is None else {"if_version": seen.version}
            after = await call(before, **version)
            if after is None:
                return "done"
            if seen is not None:
                fits = after.version - seen.version in (0, 1)
                demand(fits, "I22", f"accepted for version {seen.version}, and there were edits since", after.record)
            self._note(after)
            compare_with(after)
            return f"{after.state}"

        await self._ask(verb, name, go, what.get("give_up_s"))

    async def _get(self, name: str) -> Schedule[Any]:
        return await self.world.users.the_scheduler.get_schedule(name)

    def _note(self, schedule: Schedule[Any]) -> None:
        """An answer tells what is in the journal."""
        record = schedule.record
        written = self.world.journal.book.said[record.schedule]
        told = (record.version, record.definition) in written
        demand(told, "I1", "a schedule was acknowledged that was never written", record)
        self.seen.setdefault(record.schedule, []).append(schedule)

    def _acknowledge(self, name: str, job: Job[Any]) -> None:
        demand(job.schedule_id == name, "I3", f"a job of {name} belongs to another", job.record)
        self.world.users.acknowledged[job.id] = name

    async def _ask(self, verb: str, name: str, go: Callable[[], Awaitable[Any]], give_up_s: float | None) -> None:
        asked_us = self.world.elapsed_us
        await self.world.users.ask(
            verb, name, go, give_up_s, explains=lambda error: self._explains(error, name, asked_us)
        )

    def _explains(self, error: TimewheelError, name: str, asked_us: int) -> bool:
        """Whether an error is the answer to what was asked."""
        book = self.world.journal.book
        if isinstance(error, ScheduleNotFound | ScheduleExists):
            may_be = name in book.schedules if isinstance(error, ScheduleExists) else name not in book.schedules
            return may_be or book.changed_us.get(name, -1) >= asked_us
        if isinstance(error, VersionConflict):
            return True
        if isinstance(error, InvalidTime):
            return "until=" in str(error) or "end" in str(error)
        if isinstance(error, InvalidOption):
            return "nothing would ever run" in str(error) or "concurrency_key" in str(error)
        return isinstance(error, InvalidRule) and "never runs" in str(error)

"""The part of a Scheduler that has to do with schedules: its verbs, its lists, and what is declared in code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Unpack

from timewheel import guidance
from timewheel.declarations import Declarations
from timewheel.desk import Desk
from timewheel.errors import InvalidOption, InvalidRule
from timewheel.handles import Query
from timewheel.lists import ScheduleStateLike, states_of
from timewheel.misfits import told
from timewheel.model import SchedulerState
from timewheel.options import ScheduleOptions
from timewheel.periodic import Periodic
from timewheel.planning.options import schedule_options
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.rule import Rule
from timewheel.recurring import Call, Recurring
from timewheel.running import Running
from timewheel.schedule import Schedule
from timewheel.schedule_records import ScheduleState
from timewheel.standing import Standing
from timewheel.store.port import ScheduleFilter

F = TypeVar("F", bound=Callable[[], Any])


class Timetable(Running, Recurring):
    """See the module. `_tz` is the zone of rules that name none, `_prune` whether the start ends what code left out."""

    def _open_bureau(self, desk: Desk, tz: str, *, prune: bool) -> None:
        declarations = Declarations(self._registry, guidance.zone_name(tz))
        self.standing = Standing(desk, self._store, self._guard, lambda: self._engine, declarations)
        self._periodic = Periodic(self._registry, declarations)
        self._declarations = declarations
        self._prune = guidance.flag("prune", prune)
        self._bureau = self
        self._recurring = {}

    async def declare(self, call: Call) -> Schedule[Any]:
        """Make one schedule durable."""
        return await self.standing.declare(self._declarations.declare(call))

    def recurring(self, **options: Unpack[ScheduleOptions]) -> Recurrent:
        """The verbs cron, every and schedule with these options. Raises InvalidOption."""
        schedule_options(options)
        return Recurrent(self, dict(options))

    def periodic(self, rule: str | Rule, /, **options: Unpack[ScheduleOptions]) -> Callable[[F], F]:
        """Declare a schedule in code: `@scheduler.periodic("*/5 * * * *")` above a function without arguments.

        Nothing is written before the start, which makes the schedule, or updates it where it has changed; one that is
        declared later is made in the background. The function is registered as a task if it is none. Returns it
        unchanged. Raises InvalidTask, InvalidRule, InvalidOption, ScheduleIdRequired, ScheduleExists.
        """
        if not isinstance(rule, str | Rule):
            raise InvalidRule(f"periodic needs a rule, and {rule!r} is none: {guidance.PERIODIC}", field="rule")
        schedule_options(options)

        def declare(fn: F) -> F:
            known = self._registry.known(fn)
            declaration = self._periodic.add(rule, fn, dict(options))
            if known is None:
                self._task_known(declaration.definition.task)
            engine, loop = self._engine, self.loop
            if engine is not None and loop is not None and self._state is SchedulerState.RUNNING:
                apply = lambda: self.standing.apply(declaration)  # noqa: E731
                loop.call_soon_threadsafe(engine.spawn, f"declaration of {declaration.schedule}", apply)
            return fn

        return declare

    async def engine_ready(self) -> None:
        """The journal is recovered and nothing runs yet: apply what is declared in code."""
        self._declarations.begin()
        await self.standing.apply_all(self._periodic.all(), prune=self._prune)

    async def get_schedule(self, schedule_id: str) -> Schedule[Any]:
        """The schedule of this id. Raises ScheduleNotFound."""
        return await self.standing.fetch(schedule_id)

    async def save_calendar(self, calendar: Calendar) -> None:
        """Save a calendar under its name, in the place of the one there is: schedules that name it follow from now on.

        Once this returns, it survives a crash. A rule that brings a Calendar saves it as well, but never another one
        than this process knows. Raises InvalidRule, NotStarted, NotOwner, JournalFull, JournalUnknown.
        """
        await self.standing.put_calendar(calendar)

    @told("schedules()", InvalidOption, elsewhere={"id": "one by its id is get_schedule(id)"})
    def schedules(
        self,
        *,
        state: ScheduleStateLike | Iterable[ScheduleStateLike] | None = None,
        task: str | None = None,
        queue: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Query[Schedule[Any]]:
        """The schedules that match, by id: `await` for one Page, `async for` for all. Raises InvalidOption."""
        which = ScheduleFilter(states_of(state, ScheduleState), task, queue)
        return self.standing.query(which, page_size, page_token)

    def _task_known(self, name: str) -> None:
        """A task was registered; from a sync handler's thread, too."""
        engine, loop = self._engine, self.loop
        if engine is not None and loop is not None and self._state is SchedulerState.RUNNING:
            loop.call_soon_threadsafe(engine.task_registered, name)


class Recurrent(Recurring):
    """The verbs that make schedules, with options: what `scheduler.recurring(...)` gives."""

    def __init__(self, bureau: Timetable, options: dict[str, Any]) -> None:
        self._bureau = bureau
        self._recurring = options

    def __getattr__(self, name: str) -> Any:
        whose = "scheduler.recurring(...), which has cron, every and schedule,"
        raise AttributeError(guidance.unknown_attribute(name, whose))

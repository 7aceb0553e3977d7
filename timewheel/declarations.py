"""From a call to a declaration: which schedule, by which rule in which zone, of which task, with which options.

Pure, but for looking up functions. What can be refused is refused here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from timewheel.checks import shown
from timewheel.codec import dumps_call
from timewheel.errors import InvalidOption, InvalidRule, ScheduleIdRequired
from timewheel.options import SCHEDULE_NAMES
from timewheel.planning.definition import Definition
from timewheel.planning.options import ScheduleChoices, schedule_options
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.rule import Rule
from timewheel.recurrence.stored import rule_from_data
from timewheel.recurrence.zonal import Zonal
from timewheel.recurring import Call
from timewheel.tasks import TaskRegistry, check_call

_ZONE = frozenset({"tz", "gap", "fold"})


@dataclass(frozen=True, slots=True)
class Declaration:
    """A schedule as it is to be. `named`: it was given its id; otherwise that is the name of its task.

    `importable`: its task is not registered, but a fresh process could import it.
    """

    schedule: str
    named: bool
    definition: Definition
    if_exists: str
    importable: bool


class Change(NamedTuple):
    """An edit: another rule or None, and the options that change. `stays`: of tz, gap and fold, what is not named."""

    rule: Rule | None
    choices: ScheduleChoices
    stays: Collection[str] = ()

    def apply(self, definition: Definition) -> Definition:
        """The definition with the change made to it. Raises InvalidOption, InvalidRule."""
        rule = self.rule
        if rule is None:
            rule = _in_zone(definition.rule, self.choices.zone_options())
        elif isinstance(rule, Zonal) and isinstance(definition.rule, Zonal):
            before = definition.rule.to_data()
            rule = _in_zone(rule, {name: before[name] for name in self.stays})
        return replace(definition, rule=rule, **self.choices.changes(definition))


class Declarations:
    """Makes declarations; `tz` is the zone of rules that name none.

    It also remembers which definitions were declared without an id since the start, and which calendars: a second,
    different one of the same task or name would silently replace the first.
    """

    def __init__(self, registry: TaskRegistry, tz: str) -> None:
        self.registry = registry
        self.tz = tz
        self._unnamed: dict[str, str] = {}
        self._calendars: dict[str, Calendar] = {}

    # ---- calls -------------------------------------------------------------------------------------------------------

    def declare(self, call: Call, *, declared: str | None = None) -> Declaration:
        """The declaration of a call. Raises InvalidRule, InvalidOption, InvalidTask, NotSerializable.

        `declared`: where it stands written ("code", "file"), so that what is no longer written there can be ended.
        """
        choices = schedule_options(call.options)
        rule = self._rule(call.rule, choices)
        task, more_args, more_kwargs = self.registry.resolve(call.fn)
        args, kwargs = (*more_args, *call.args), {**more_kwargs, **call.kwargs}
        check_call(task, args, kwargs, SCHEDULE_NAMES, "recurring({}).schedule(...)")
        definition = choices.definition(rule, task, dumps_call(args, kwargs))
        return Declaration(
            choices.id or task.name,
            choices.id is not None,
            replace(definition, declared=declared),
            choices.if_exists,
            self.registry.is_adopted(task),
        )

    def change(self, rule: str | Rule | None, options: dict[str, Any], stays: Collection[str] | None = None) -> Change:
        """An edit of a schedule. Raises InvalidRule, InvalidOption.

        `stays` are those of tz, gap and fold that go on as they are; None: of a text those that neither it nor the
        options name, of a rule that is an object none.
        """
        for name in ("id", "if_exists"):
            if name in options:
                raise InvalidOption(f"{name} cannot be updated: it belongs to the call that declares the schedule")
        for name in ("fn", "task", "args", "kwargs"):
            if name in options:
                raise InvalidOption(
                    f"{name} cannot be updated: declare the schedule again under its id, which replaces it, like "
                    f"scheduler.recurring(id=...).schedule(rule, fn, *args)",
                    field=name,
                )
        choices = schedule_options(options)
        if rule is None:
            return Change(None, choices)
        if stays is None:
            stays = _ZONE - choices.zone_options().keys() if isinstance(rule, str) else ()
        made = self._rule(rule, choices)
        named = rule.tz is not None if isinstance(rule, Zonal) else isinstance(rule, str) and Cron(rule).tz is not None
        return Change(made, choices, frozenset(stays) - ({"tz"} if named else set()))

    def _rule(self, rule: str | Rule, choices: ScheduleChoices) -> Rule:
        given = choices.zone_options()
        if isinstance(rule, str):
            rule = Cron(rule, **given)
        elif not isinstance(rule, Rule):
            raise InvalidRule(
                f'{shown(rule)} is no rule: give Cron, Every, Civil, or a text like "0 9 * * mon"', field="rule"
            )
        elif given:
            names = ", ".join(given)
            raise InvalidOption(f"{names} is for rules given as text; with {rule!r}, write it in the rule itself")
        return rule.with_zone(self.tz) if isinstance(rule, Zonal) else rule

    # ---- without an id -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """The scheduler starts: nothing has been declared yet."""
        self._unnamed.clear()
        self._calendars.clear()

    def claim_unnamed(self, declaration: Declaration) -> bool:
        """Whether this is the first declaration without an id that takes this name since the start.

        Raises ScheduleIdRequired when a different one took it.
        """
        if declaration.named:
            return False
        fresh = declaration.schedule not in self._unnamed
        text = replace(declaration.definition, declared=None).to_text()
        first = self._unnamed.setdefault(declaration.schedule, text)
        if first != text:
            raise ScheduleIdRequired(
                f"{declaration.schedule} is scheduled a second time, differently, which would replace the first: give "
                f"each an id of its own, like recurring(id=...)",
                schedule=declaration.schedule,
            )
        return fresh

    def forget_unnamed(self, schedule: str) -> None:
        """The schedule is gone: its name is free."""
        self._unnamed.pop(schedule, None)

    # ---- calendars ---------------------------------------------------------------------------------------------------

    def claim_calendar(self, calendar: Calendar, *, instead: bool = False) -> bool:
        """Whether this is the first calendar of its name since the start.

        Raises InvalidRule when there was one with other days, unless this one is to stand in its place.
        """
        name = calendar.name
        fresh = name not in self._calendars
        if fresh or instead:
            self._calendars[name] = calendar
        elif self._calendars[name] != calendar:
            raise InvalidRule(
                f"two calendars with different days are called {name!r}, and schedules share a calendar by its name: "
                f"give one another name, or write calendar={name!r} for the saved one; to change it for all of them "
                f"there is `await scheduler.save_calendar(...)`, `calendars put` and PUT /api/v1/calendars/{{name}}",
                field="calendar",
            )
        return fresh

    def forget_calendar(self, name: str) -> None:
        """It could not be saved: its name is free."""
        self._calendars.pop(name, None)


def _in_zone(rule: Rule, given: dict[str, Any]) -> Rule:
    """The rule with another zone, gap or fold. Raises InvalidOption for a rule of elapsed time."""
    if not given:
        return rule
    if not isinstance(rule, Zonal):
        raise InvalidOption(f"{', '.join(given)}: {rule!r} counts elapsed time and knows no zone")
    calendar = rule.calendar
    calendars = {} if calendar is None or isinstance(calendar, str) else {calendar.name: calendar}
    return rule_from_data(rule.to_data() | given, calendars)

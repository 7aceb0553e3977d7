"""Schedules that are declared in code: `@scheduler.periodic(rule)`. Noted at import, applied at start.

Pure. Applying them is the desk's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from timewheel.declarations import Declaration, Declarations
from timewheel.errors import InvalidOption, InvalidTask, ScheduleExists
from timewheel.names import describe, replaces
from timewheel.recurrence.calendar import Calendar
from timewheel.recurrence.rule import Rule
from timewheel.recurring import Call
from timewheel.signatures import shape_of
from timewheel.task import Task
from timewheel.tasks import TaskRegistry

IN_CODE = "code"


class _InCode(NamedTuple):
    declaration: Declaration
    fn: Callable[..., Any]


class Periodic:
    """The schedules that this process declares in code, by id. Used from the loop's thread, or before the start."""

    def __init__(self, registry: TaskRegistry, declarations: Declarations) -> None:
        self._registry = registry
        self._declarations = declarations
        self._declared: dict[str, _InCode] = {}

    def add(self, rule: str | Rule, fn: Callable[..., Any], options: dict[str, Any]) -> Declaration:
        """Note one more. `fn` is registered as a task unless it is one.

        Raises InvalidTask for a function that cannot be called without arguments, InvalidRule, InvalidOption,
        ScheduleIdRequired and ScheduleExists where another declaration has its id.
        """
        if options.get("if_exists") == "fail":
            raise InvalidOption('if_exists="fail" on @scheduler.periodic would fail at each start but the first')
        task = self._task_of(fn)
        declaration = self._declarations.declare(Call(rule, fn, (), {}, options), declared=IN_CODE)
        there = self._declared.get(declaration.schedule)
        if there is not None and there.fn is not fn and replaces(fn, there.fn):
            self._declarations.forget_unnamed(declaration.schedule)  # its module was loaded again
        elif there is not None and declaration.named and there.declaration != declaration:
            raise ScheduleExists(
                f"two functions or rules are declared in code as schedule {declaration.schedule!r}: "
                f"{there.declaration.definition.task} and {task.name}; give one of them another id=",
                schedule=declaration.schedule,
            )
        self._declarations.claim_unnamed(declaration)
        calendar = getattr(declaration.definition.rule, "calendar", None)
        if isinstance(calendar, Calendar):
            reloaded = there is not None and there.fn is not fn and replaces(fn, there.fn)
            self._declarations.claim_calendar(calendar, instead=reloaded)
        self._declared[declaration.schedule] = _InCode(declaration, fn)
        return declaration

    def _task_of(self, fn: Callable[..., Any]) -> Task:
        shape = shape_of(fn) if callable(fn) else None
        reason = None if shape is None else shape.misfit((), {})
        if reason is not None:
            raise InvalidTask(
                f"{describe(fn)} cannot be declared with @scheduler.periodic: nobody gives it arguments, and {reason}; "
                f"give them defaults, or use `await scheduler.schedule(rule, fn, *args)`"
            )
        known = self._registry.known(fn)
        return known if known is not None else self._registry.register(fn)

    def all(self) -> list[Declaration]:
        """What is declared, in the order of the ids."""
        return [self._declared[schedule].declaration for schedule in sorted(self._declared)]

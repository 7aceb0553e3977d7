"""The registry of tasks: which function stands behind which name, and which calls may be made durable.

A job stores a name, so a target is accepted only if a fresh process could find it again: registered tasks wherever they
are defined, and functions that importing `module:qualname` gives back. The rest is refused with the fix.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Collection
from typing import Any, NoReturn, Unpack

from timewheel.checks import shown
from timewheel.errors import InvalidTask
from timewheel.names import (
    default_name,
    describe,
    innermost,
    load,
    one_source,
    replaces,
    unfit,
    unreachable,
)
from timewheel.options import ONE_SHOT_NAMES, TaskOptions, task_options
from timewheel.task import Task, make_task

MAX_NAME = 200

Resolved = tuple["Task", tuple[Any, ...], dict[str, Any]]


class TaskRegistry:
    """Tasks by name and by function. One belongs to one scheduler; used from its loop's thread or before it starts."""

    def __init__(self) -> None:
        self._registered: dict[str, Task] = {}
        self._adopted: dict[str, Task] = {}  # functions that were scheduled without being registered
        self._targets: dict[Any, Task] = {}  # registered names and any known function: what `resolve` looks up
        self._unhashable: list[Task] = []

    def register(self, fn: Callable[..., Any], *, name: str | None = None, **options: Unpack[TaskOptions]) -> Task:
        """Make `fn` known as `name` (default: `module:qualname`) and return its Task.

        A function may have several names; scheduling the function itself uses the first. The same function of a
        reloaded module replaces the old one. Raises InvalidTask for what can be no handler and for a name that belongs
        to another function, InvalidOption for a bad option.
        """
        reason = unfit(fn)
        if reason is not None:
            _refuse("registered", fn, reason)
        task = make_task(_task_name(fn, name), fn, task_options(options))
        old = self._registered.get(task.name)
        if old is not None and not replaces(task.fn, old.fn):
            raise InvalidTask(
                f"the name {shown(task.name)} belongs to {describe(old.fn)} already, so {describe(fn)} cannot have it; "
                f"give it a name of its own: @scheduler.task(name=...)"
            )
        self._registered[task.name] = self._targets[task.name] = task
        self._remember(task, old)
        return task

    def _remember(self, task: Task, old: Task | None) -> None:
        """Let the function itself lead to its task, unless it has an earlier name."""
        self._adopted.pop(task.name, None)
        if old is not None:
            self._targets = {target: other for target, other in self._targets.items() if other is not old}
            self._unhashable = [other for other in self._unhashable if other is not old]
        known = self._known(task.fn)
        if known is not None and self._registered.get(known.name) is known:
            return
        try:
            self._targets[task.fn] = task
        except TypeError:
            self._unhashable.append(task)

    def known(self, fn: Callable[..., Any]) -> Task | None:
        """The task that this very function is registered as, under its first name; None when it is not."""
        task = self._known(fn)
        return task if task is not None and self._registered.get(task.name) is task else None

    def _known(self, target: Any) -> Task | None:
        try:
            return self._targets.get(target)
        except TypeError:  # an object without a hash
            return next((task for task in self._unhashable if task.fn is target), None)

    def resolve(self, target: Callable[..., Any] | str) -> Resolved:
        """(task, args, kwargs) of a target: the latter two are what a `partial` holds, to be stored with the call.

        Raises InvalidTask naming the target and the fix for a text that is no registered name, and for a
        function that a fresh process could not find.
        """
        try:
            task = self._targets.get(target)
        except TypeError:
            task = self._known(target)
        if task is not None:
            return task, (), {}
        if isinstance(target, str):
            self._refuse_text(target)
        if isinstance(target, functools.partial):
            task, args, kwargs = self.resolve(target.func)
            return task, (*args, *target.args), {**kwargs, **target.keywords}
        return self._adopt(target), (), {}

    def _refuse_text(self, name: str) -> NoReturn:
        near = difflib.get_close_matches(name, self._registered, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else f"registered: {', '.join(self.names()[:10]) or 'none'}."
        )
        raise InvalidTask(
            f"no task is registered as {shown(name)}; {hint} A text names registered tasks only: import the "
            f"module that registers it, or give the function itself"
        )

    def _adopt(self, fn: Any) -> Task:
        """The task of a function that was never registered, if a fresh process could import it."""
        reason = unfit(fn) or self._unregistered_wrapper(fn)
        if reason is not None:
            _refuse("scheduled", fn, reason)
        name = default_name(fn)
        owner = self._registered.get(name) if name is not None else None
        if owner is not None and one_source(owner.fn, fn):
            return owner
        reason = unreachable(fn)
        if reason is None and owner is not None:
            reason = f"its name belongs to another function, {describe(owner.fn)}; register it under a name of its own"
        if reason is not None or name is None:
            _refuse("scheduled", fn, reason or "it has no name")
        task = make_task(name, fn)
        self._adopted[name] = self._targets[fn] = task
        return task

    def _unregistered_wrapper(self, fn: Any) -> str | None:
        for inner in innermost(fn)[1:]:
            task = self._known(inner)
            if task is not None and task.name in self._registered:
                return f"it wraps the task {task.name}, but is itself not registered; put @scheduler.task outermost"
        return None

    def find(self, name: str) -> Task | None:
        """The task of this name: registered, or a function that was scheduled here."""
        return self._registered.get(name) or self._adopted.get(name)

    def importable(self, name: str, allowed: Collection[str]) -> tuple[Task | None, str]:
        """(task, "") of a name that is not known yet, importing its module; (None, why) when that gives none.

        Only a name in `allowed` (those recorded by an in-process call) is imported, since importing runs code.
        """
        known = self.find(name)
        if known is not None:
            return known, ""
        if name not in allowed:
            return None, f"no task is registered as {shown(name)}, and it may not be imported"
        fn, reason = load(name)
        known = self.find(name)  # importing the module may have registered it
        if known is not None:
            return known, ""
        reason = reason or unfit(fn) or self._unregistered_wrapper(fn)
        if reason is not None:
            return None, f"no task is registered as {shown(name)}: {reason}"
        self._adopted[name] = task = make_task(name, fn)
        return task, ""

    def is_adopted(self, task: Task) -> bool:
        """Whether a task was scheduled without being registered: a later process has to import it."""
        return self._adopted.get(task.name) is task

    def names(self) -> list[str]:
        """The registered names, sorted."""
        return sorted(self._registered)


def check_call(
    task: Task,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: frozenset[str] = ONE_SHOT_NAMES,
    place: str = "options({}).at(...)",
) -> None:
    """Raise InvalidTask when a call with these arguments would fail before the handler's first line.

    `options` and `place`: the options that go elsewhere, and where, for a call that mixed them into its arguments.
    """
    shape = task.signature
    if shape is None or (not kwargs and shape.least <= len(args) <= shape.most):
        return
    reason = shape.misfit(args, kwargs)
    if reason is None:
        return
    misplaced = [name for name in shape.unexpected(kwargs) if name in options]
    written = place.format(", ".join(f"{name}=..." for name in misplaced))
    hint = f". {misplaced[0]} is an option: write scheduler.{written}" if misplaced else ""
    raise InvalidTask(f"the arguments do not fit {task.name}{shape.full}: {reason}{hint}")


def _task_name(fn: Callable[..., Any], name: str | None) -> str:
    if name is None:
        name = default_name(fn)
        if name is None or name.endswith("<lambda>"):
            _refuse("registered", fn, "it has no name of its own; write @scheduler.task(name=...)")
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidTask(
            f"name={shown(name)} of {describe(fn)}: it must be a str of 1 to {MAX_NAME} printable characters"
        )
    return name


def _refuse(verb: str, fn: object, reason: str) -> NoReturn:
    raise InvalidTask(f"{describe(fn)} cannot be {verb}: {reason}")

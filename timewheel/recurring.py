"""The verbs that make schedules, with their types: cron, every, schedule; of a Scheduler and of `recurring(...)`.

Each verb has three signatures, tried in this order: as in `timewheel.scheduling`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple, ParamSpec, Protocol, TypeVar, overload

from timewheel.checks import shown
from timewheel.errors import InvalidRule, InvalidTask
from timewheel.recurrence.cron import Cron
from timewheel.recurrence.interval import Every
from timewheel.recurrence.rule import Rule
from timewheel.schedule import Schedule
from timewheel.scheduling import Delay

P = ParamSpec("P")
R = TypeVar("R")
_NOTHING: Final[Any] = object()


class Call(NamedTuple):
    """A call of one of these verbs: when, what, with which arguments and options (as they were written)."""

    rule: str | Rule
    fn: Callable[..., Any] | str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: dict[str, Any]


class Bureau(Protocol):
    """The scheduler, as these verbs see it."""

    async def declare(self, call: Call) -> Schedule[Any]:
        """Make one schedule durable."""


class Recurring:
    """See the module. `_bureau` makes the schedules, `_recurring` are the options they get, as they were written."""

    _bureau: Bureau
    _recurring: dict[str, Any]

    @overload
    async def cron(
        self, rule: str | Cron, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Schedule[R]: ...
    @overload
    async def cron(self, rule: str | Cron, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Schedule[R]: ...
    @overload
    async def cron(self, rule: str | Cron, fn: str, /, *args: Any, **kwargs: Any) -> Schedule[Any]: ...
    def cron(
        self, rule: str | Cron, fn: Callable[..., Any] | str = _NOTHING, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Schedule[Any]]:
        """Run `fn(*args, **kwargs)` by a cron rule: its text, in the scheduler's zone, or a Cron with all its options.

        Once this returns, the schedule survives a crash. It is named by `recurring(id=...)`, else by its task; declared
        again and equal, nothing changes; different, it is updated, and only its next time is worked out anew.

        Raises InvalidRule, InvalidOption, InvalidTask, NotSerializable; ScheduleIdRequired, ScheduleExists; NotStarted,
        NotOwner, WrongThread, SchedulerFailed; JournalFull, JournalUnknown.
        """
        if not isinstance(rule, str | Cron):
            raise _no_cron(rule)
        return self._declare("cron", rule, rule, fn, args, kwargs)

    @overload
    async def every(
        self, delay: Delay, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Schedule[R]: ...
    @overload
    async def every(self, delay: Delay, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Schedule[R]: ...
    @overload
    async def every(self, delay: Delay, fn: str, /, *args: Any, **kwargs: Any) -> Schedule[Any]: ...
    def every(
        self, delay: Delay, fn: Callable[..., Any] | str = _NOTHING, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Schedule[Any]]:
        """Run `fn(*args, **kwargs)` every `delay` (a timedelta or seconds) of elapsed time, first one delay from now.

        Elapsed time goes on while the process is down and does not care when the wall clock is set; the phase stays,
        whatever ran when. Raises like `cron`.
        """
        if isinstance(delay, Rule):
            raise InvalidRule(f"every() takes a delay; for a rule write schedule({delay!r}, ...)", field="interval")
        return self._declare("every", delay, Every(delay), fn, args, kwargs)

    @overload
    async def schedule(
        self, rule: str | Rule, fn: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Schedule[R]: ...
    @overload
    async def schedule(
        self, rule: str | Rule, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Schedule[R]: ...
    @overload
    async def schedule(self, rule: str | Rule, fn: str, /, *args: Any, **kwargs: Any) -> Schedule[Any]: ...
    def schedule(
        self, rule: str | Rule, fn: Callable[..., Any] | str = _NOTHING, /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Schedule[Any]]:
        """Run `fn(*args, **kwargs)` by any rule: Cron, Every, Civil, or the text of a cron rule. Raises like `cron`."""
        return self._declare("schedule", rule, rule, fn, args, kwargs)

    def _declare(
        self, verb: str, written: object, rule: str | Rule, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Coroutine[Any, Any, Schedule[Any]]:
        if fn is _NOTHING:
            rule_text = f"Every({shown(written)})" if verb == "every" else shown(written)
            raise InvalidTask(
                f"{verb}({shown(written)}) has nothing to run: write `await scheduler.{verb}({shown(written)}, fn, "
                f"*args)`; as a decorator it is @scheduler.periodic({rule_text})"
            )
        return self._bureau.declare(Call(rule, fn, args, kwargs, self._recurring))


def _no_cron(rule: object) -> InvalidRule:
    if isinstance(rule, Rule):
        return InvalidRule(f"cron() takes a cron rule; for this one write schedule({rule!r}, ...)", field="rule")
    return InvalidRule(
        f'{shown(rule)} is no cron rule: give a text, like "0 9 * * mon", or Cron("0 9 * * mon", tz=...)', field="rule"
    )

"""From a request to options, and to a schedule: what the paths about schedules have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from timewheel.checks import shown
from timewheel.errors import (
    InvalidOption,
    InvalidRule,
    InvalidTask,
    InvalidTime,
    NotSerializable,
    ScheduleNotFound,
)
from timewheel.options import Retry
from timewheel.planning.options import schedule_options
from timewheel.planning.policies import Overlap
from timewheel.recurring import Call
from timewheel.serve.making import FLOW_OPTIONS, Maker, check_open, instant_of
from timewheel.serve.problems import invalid
from timewheel.serve.rules import KINDS, given, rule_of
from timewheel.serve.schedule_inputs import ChoicesIn, OverlapIn, PreviewIn, ScheduleChangeIn, ScheduleIn
from timewheel.serve.schedule_views import flat_view

if TYPE_CHECKING:
    from timewheel.planning.definition import Definition
    from timewheel.schedule import Schedule
    from timewheel.scheduler import Scheduler

_IN_PLACE = ("tz", "gap", "fold")  # what may change without saying the rule again
_PLAIN: tuple[str, ...] = (
    "queue", "priority", "timeout_s", "tags", "misfire", "misfire_grace_s", "catch_up_max", "catch_up_per_s",
    "jitter_s", "max_runs", *FLOW_OPTIONS,
)  # fmt: skip
_INSTANTS = ("start", "end")
# null says something of its own; elsewhere it is the same as silence.
_NULL_MEANS = frozenset({"retry", "timeout_s", "catch_up_per_s", "max_runs", *_INSTANTS, *FLOW_OPTIONS} - {"cost"})
_BAD = (InvalidOption, InvalidRule, InvalidTime)


class Made(NamedTuple):
    """What became of a request, or would; `schedule` None: there is none yet."""

    change: str
    changes: dict[str, dict[str, Any]]
    schedule: Schedule[Any] | None


class ScheduleMaker:
    """Makes and changes schedules. `maker` knows the tasks."""

    def __init__(self, scheduler: Scheduler, maker: Maker) -> None:
        self._scheduler = scheduler
        self._maker = maker

    async def make(self, wanted: ScheduleIn) -> Made:
        """Make the schedule, or bring it to what is wanted. Raises Problem, TimewheelError."""
        check_open(self._scheduler)
        self._maker.check_task(wanted.task)
        self._maker.check_arguments(wanted.task, wanted.args, wanted.kwargs)
        if wanted.id is not None and ("/" in wanted.id or wanted.id in (".", "..")):
            raise invalid(f"{shown(wanted.id)} cannot stand in a URL: take an id without /, not . and not ..", "id")
        rule = rule_of(wanted)
        if rule is None:
            raise invalid(f"say when it recurs: give one of {', '.join(KINDS)}", "cron")
        options = options_of(wanted)
        options |= {"if_exists": wanted.if_exists} | ({"id": wanted.id} if wanted.id is not None else {})
        check_options(options)
        call = Call(rule, wanted.task, tuple(wanted.args), wanted.kwargs, options)
        standing = self._scheduler.standing
        try:
            declaration = await standing.declaration(call, declared=wanted.managed)
        except (InvalidTask, NotSerializable) as error:
            raise invalid(str(error), "args") from None
        before = await self._existing(declaration.schedule)
        changes = _differences(before, declaration.definition) if before is not None else {}
        if wanted.dry_run:
            kept = before is not None and (not changes or wanted.if_exists == "keep")
            change = "created" if before is None else "unchanged" if kept else "updated"
            return Made(change, {} if kept else changes, before)
        self._scheduler.check_room()
        after = await standing.declare(declaration)
        if before is None:
            return Made("created", {}, after)
        same = after.version == before.version
        return Made("unchanged" if same else "updated", {} if same else changes, after)

    async def change(self, schedule_id: str, wanted: ScheduleChangeIn, if_version: int | None) -> Schedule[Any]:
        """Edit a schedule. Raises Problem, TimewheelError."""
        check_open(self._scheduler)
        rule = rule_of(wanted)
        options = options_of(wanted)
        if rule is None:
            stray = [name for name in ("calendar", "roll", "anchor", "after_completion") if given(wanted, name)]
            if stray:
                raise invalid(f"{stray[0]} belongs to a rule: give the rule as well", stray[0])
            options |= {name: getattr(wanted, name) for name in _IN_PLACE if given(wanted, name)}
        check_options(options)
        if rule is None and not options:
            raise invalid("nothing is to change: give a rule, or options", "body")
        self._scheduler.check_room()
        stays = [name for name in _IN_PLACE if not given(wanted, name)]
        return await self._scheduler.standing.update(schedule_id, rule, options, if_version, stays)

    async def definition(self, wanted: PreviewIn) -> Definition:
        """What a rule that is not saved would be. Raises Problem, TimewheelError."""
        rule = rule_of(wanted)
        if rule is None:
            raise invalid(f"say when it recurs: give one of {', '.join(KINDS)}", "cron")
        options: dict[str, Any] = {"jitter_s": wanted.jitter_s, "max_runs": wanted.max_runs}
        options |= {name: instant_of(name, getattr(wanted, name)) for name in _INSTANTS}
        chosen = {name: value for name, value in options.items() if value is not None}
        return await self._scheduler.standing.imagined(rule, chosen)

    async def _existing(self, schedule_id: str) -> Schedule[Any] | None:
        try:
            return await self._scheduler.get_schedule(schedule_id)
        except ScheduleNotFound:
            return None


def _differences(before: Schedule[Any], after: Definition) -> dict[str, dict[str, Any]]:
    """What differs, by name; values that are withheld are shown as such, and differ all the same."""
    try:
        old = before.definition
    except InvalidRule:
        return {"definition": {"before": None, "after": "(it could not be read)"}}
    if old.to_text() == after.to_text():
        return {}
    was, will = flat_view(old), flat_view(after)
    found = {name: {"before": was[name], "after": will[name]} for name in will if was[name] != will[name]}
    if not found:
        found = {"arguments": {"before": "(withheld)", "after": "(withheld)"}}
    return found


# ---- options ---------------------------------------------------------------------------------------------------------


def options_of(wanted: ChoicesIn) -> dict[str, Any]:
    """The options that were given, as `recurring(...)` takes them. Raises Problem naming the field."""
    options: dict[str, Any] = {name: getattr(wanted, name) for name in _PLAIN if name in wanted.model_fields_set}
    options |= {name: instant_of(name, getattr(wanted, name)) for name in _INSTANTS if name in wanted.model_fields_set}
    if "retry" in wanted.model_fields_set:
        options["retry"] = wanted.retry
        if wanted.retry is not None and not isinstance(wanted.retry, int):
            try:
                options["retry"] = Retry(**wanted.retry.model_dump())
            except InvalidOption as error:
                raise invalid(str(error), "retry") from None
    if wanted.overlap is not None:
        options["overlap"] = _overlap(wanted.overlap)
    return {name: value for name, value in options.items() if value is not None or name in _NULL_MEANS}


def check_options(options: dict[str, Any]) -> None:
    """Raise Problem naming the option that is bad."""
    try:
        schedule_options(options)
    except _BAD as error:
        for name, value in options.items():
            try:
                schedule_options({name: value})
            except _BAD as culprit:
                raise invalid(str(culprit), name) from None
        raise invalid(str(error)) from None


def _overlap(wanted: str | OverlapIn) -> Overlap | str:
    if isinstance(wanted, str):
        return wanted
    kind, limit, key = wanted.kind, wanted.limit, wanted.key
    try:
        if kind == "SERIALIZE":
            if key is None or limit is not None:
                raise invalid("SERIALIZE takes a key, and no limit", "overlap")
            return Overlap.SERIALIZE(key)
        if key is not None:
            raise invalid(f"{kind} takes no key; SERIALIZE does", "overlap")
        member: Overlap = getattr(Overlap, kind)
        return member if limit is None else member(limit=limit)
    except InvalidOption as error:
        raise invalid(str(error), "overlap") from None

"""From a request to a job: what `POST /api/v1/jobs` and its batch have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from timewheel.checks import shown
from timewheel.errors import InvalidOption, InvalidTask, InvalidTime, JobNotFound, NotSerializable
from timewheel.model import SchedulerState
from timewheel.options import Retry, Unique
from timewheel.serve.inputs import FlowIn, JobIn
from timewheel.serve.problems import Problem, cause_of, fields_of, invalid, unavailable
from timewheel.store.changes import Submit
from timewheel.times import delay_us, parse_rfc3339, utc_datetime

if TYPE_CHECKING:
    from timewheel.job import Job
    from timewheel.scheduler import Optioned, Scheduler

Fault = Callable[[Sequence[Any], Mapping[str, Any]], "str | None"]

SLICE = 50  # jobs of a batch that are judged in one turn of the event loop: a few milliseconds
FLOW_OPTIONS = tuple(FlowIn.model_fields)
_OPTIONS = (
    *("queue", "priority", "retry", "timeout_s", "tags", "idempotency_key", "misfire_grace_s"),
    *("wait_for", "if_dependency_fails"),
    *FLOW_OPTIONS,
)
_INSTANTS = ("expires_at", "deadline")
# One attempt; no limit. Elsewhere null is the same as silence.
_NULL_MEANS = frozenset({"retry", "timeout_s", "heartbeat_timeout_s"})


class Maker:
    """Makes jobs. `faults`: task -> what is wrong with arguments for it, or None; for tasks that know.

    `absent`: tasks that could be here and are not -> how to have them.
    """

    def __init__(
        self, scheduler: Scheduler, faults: Mapping[str, Fault], absent: Mapping[str, str] | None = None
    ) -> None:
        self._scheduler = scheduler
        self._faults = faults
        self._absent = absent or {}

    async def make(self, wanted: JobIn) -> Job[Any]:
        """The job that was asked for, durable. Raises Problem, TimewheelError."""
        check_open(self._scheduler)
        submit = self._draft(wanted)
        self._scheduler.check_room()
        try:
            return await self._scheduler.submit(submit)
        except JobNotFound as error:
            raise invalid(str(error), "wait_for") from None

    async def make_many(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        """One result an item, in their order; the good ones are written together. Raises Problem, TimewheelError."""
        check_open(self._scheduler)
        self._scheduler.check_room(len(items))
        drafts: list[Submit | Problem] = []
        for start in range(0, len(items), SLICE):
            drafts += map(self._judge, items[start : start + SLICE])
            await asyncio.sleep(0)
        made = iter(await self._scheduler.submit_each([draft for draft in drafts if isinstance(draft, Submit)]))
        return [_result(draft if isinstance(draft, Problem) else next(made)) for draft in drafts]

    def _judge(self, item: Any) -> Submit | Problem:
        try:
            return self._draft(JobIn.model_validate(item))
        except ValidationError as error:
            return fields_of(error.errors(), (JobIn,))
        except Exception as error:  # noqa: BLE001 - one job of a batch never harms another
            return cause_of(error)

    def _draft(self, wanted: JobIn) -> Submit:
        """A checked submission. Raises Problem, TimewheelError."""
        self.check_task(wanted.task)
        when = time_of(wanted.scheduled_at, wanted.delay_s) or timedelta()
        verbs = self._with_options(_options(wanted))
        try:
            draft = verbs.new(when, wanted.task, *wanted.args, **wanted.kwargs)
        except (InvalidTask, NotSerializable) as error:
            raise invalid(str(error), "args") from None
        except InvalidOption as error:
            raise invalid(str(error), error.field) from None
        self.check_arguments(wanted.task, wanted.args, wanted.kwargs)
        submit: Submit = draft.submit
        return submit

    def check_task(self, task: str) -> None:
        """Raise Problem when no task has this name; nothing is ever imported for a name that came this way."""
        known = self._scheduler.task_names()
        if task in known:
            return
        if task in self._absent:
            raise invalid(f"the task {task} is off here: {self._absent[task]}", "task")
        raise invalid(f"no task is registered as {shown(task)}; known: {', '.join(known) or 'none'}", "task")

    def check_arguments(self, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise Problem when the task itself says that it can never run with these arguments."""
        find_fault = self._faults.get(task)
        fault = find_fault(args, kwargs) if find_fault is not None else None
        if fault is not None:
            raise invalid(f"{task} cannot run with these arguments: {fault}", "args")

    def _with_options(self, options: dict[str, Any]) -> Optioned:
        """The verbs with these options. Raises Problem naming the one that is bad."""
        try:
            return self._scheduler.options(**options)
        except InvalidOption as error:
            raise invalid(str(error), error.field) from None


def _result(made: Job[Any] | BaseException) -> dict[str, Any]:
    if isinstance(made, BaseException):
        problem = invalid(str(made), "wait_for") if isinstance(made, JobNotFound) else cause_of(made)
        return {"status": problem.status, "problem": problem.document()}
    return {"status": 201 if made.created else 200, "id": made.id, "created": made.created}


def check_open(scheduler: Scheduler) -> None:
    """Raise a Problem when the scheduler takes nothing new because it is about to stop."""
    if scheduler.state is SchedulerState.DRAINING:
        raise unavailable("draining", "the scheduler is about to stop and takes nothing new", state="DRAINING")


def time_of(scheduled_at: str | None, delay_s: float | None) -> datetime | timedelta | None:
    """The instant or the delay that was asked for; None when neither was. Raises Problem."""
    if scheduled_at is not None and delay_s is not None:
        raise invalid("give scheduled_at or delay_s, not both", "delay_s")
    try:
        if delay_s is not None:
            return timedelta(microseconds=delay_us(delay_s))
        return None if scheduled_at is None else utc_datetime(parse_rfc3339(scheduled_at))
    except InvalidTime as error:
        raise invalid(str(error), "delay_s" if scheduled_at is None else "scheduled_at") from None


def instant_of(field: str, text: str | None) -> datetime | None:
    """The instant that was given; None when none was. Raises Problem naming the field."""
    try:
        return None if text is None else utc_datetime(parse_rfc3339(text))
    except InvalidTime as error:
        raise invalid(str(error), field) from None


def _options(wanted: JobIn) -> dict[str, Any]:
    given = {name: getattr(wanted, name) for name in _OPTIONS if name in wanted.model_fields_set}
    options = {name: value for name, value in given.items() if value is not None or name in _NULL_MEANS}
    options |= {name: found for name in _INSTANTS if (found := instant_of(name, getattr(wanted, name))) is not None}
    if wanted.unique is not None:
        try:
            options["unique"] = Unique(**wanted.unique.model_dump())
        except InvalidOption as error:
            raise invalid(str(error), "unique") from None
    if wanted.retry is not None and not isinstance(wanted.retry, int):
        try:
            options["retry"] = Retry(**wanted.retry.model_dump())
        except InvalidOption as error:
            raise invalid(str(error), "retry") from None
    return options

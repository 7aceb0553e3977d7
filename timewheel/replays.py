"""Replay and discard of one job: the part of the desk that repairs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from timewheel.audits import account, replay_account
from timewheel.checks import shown
from timewheel.codec import dumps_call, loads_call
from timewheel.errors import InvalidOption, InvalidTask
from timewheel.model import DiscardAnswer, JobRecord, ReplayAnswer, job_text
from timewheel.store.aftermath import reply_to
from timewheel.store.changes import Missing
from timewheel.store.letters import Discard, Replay, TooLate
from timewheel.submissions import Submissions, missing
from timewheel.tasks import check_call

if TYPE_CHECKING:
    from timewheel.engine import Engine
    from timewheel.tasks import TaskRegistry


class Replays(Submissions):
    """See the module. `registry` is known before the first use."""

    registry: TaskRegistry

    async def replay(
        self,
        job_id: int,
        said: tuple[str, str, str | bool],
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
    ) -> ReplayAnswer:
        """See Job.replay; `said` is (actor, reason, cause_fixed)."""
        who = replay_account(*said)
        engine = self._running()
        arguments = replaced = None
        if args is not None or kwargs is not None:
            record = await self._store.job(job_id)
            if record is None:
                raise missing(job_id)
            arguments, replaced = self._edited(record, args, kwargs), record.arguments
        if engine.worker.has(job_id):
            return ReplayAnswer.TOO_LATE  # it has timed out for good, and its handler still runs
        entry = who.entry("replay", job=job_text(job_id), replaced=replaced)
        outcome = await _written(engine, Replay(job_id, engine.now().steady_us, entry, arguments))
        return ReplayAnswer.TOO_LATE if _is_late(job_id, outcome) else ReplayAnswer.REPLAYED

    async def discard(self, job_id: int, actor: str, reason: str) -> DiscardAnswer:
        """See Job.discard."""
        who = account(actor, reason)
        outcome = await _written(self._running(), Discard(job_id, who.entry("discard", job=job_text(job_id))))
        return DiscardAnswer.TOO_LATE if _is_late(job_id, outcome) else DiscardAnswer.DISCARDED

    def _edited(self, record: JobRecord, args: Any, kwargs: Any) -> str:
        """The new payload, checked as at submission; what is None stays as it was."""
        if args is not None and (isinstance(args, str) or not isinstance(args, Sequence)):
            raise InvalidOption(f"args={shown(args)}: it must be a list or a tuple of arguments", field="args")
        if kwargs is not None and not isinstance(kwargs, Mapping):
            raise InvalidOption(f"kwargs={shown(kwargs)}: it must map names to arguments", field="kwargs")
        task = self.registry.find(record.task)
        if task is None:
            raise InvalidTask(
                f"no task is registered as {shown(record.task)} here, so that its new arguments cannot be checked: "
                f"import the module that registers it, or replay the job as it is"
            )
        if args is None or kwargs is None:
            before = loads_call(record.arguments)
            args, kwargs = before[0] if args is None else args, before[1] if kwargs is None else kwargs
        check_call(task, tuple(args), dict(kwargs))
        return dumps_call(tuple(args), dict(kwargs))


async def _written(engine: Engine, change: Replay | Discard) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    engine.committer.verb(change, reply_to(future))
    return await future


def _is_late(job_id: int, outcome: Any) -> bool:
    if isinstance(outcome, Missing):
        raise missing(job_id)
    return isinstance(outcome, TooLate)

"""What planning asks of the rest of the engine: ids, which tasks are known, word of an end, and the end of a job.

A job that is to be replaced is asked to end as by anybody's cancel. The request is repeated until the journal takes it;
should the process die before, the next one's planner asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from timewheel.alarm import Alarm
from timewheel.errors import JournalFull, JournalUnknown
from timewheel.store.changes import Cancel

if TYPE_CHECKING:
    from timewheel.aftermath import Consequences
    from timewheel.ports import Clock
    from timewheel.verbs import Verbs

RETRY_S = 1.0
REPLACED = "replaced"


class Replacing:
    """The surroundings of the planner. `spawn(name, run)` has work done beside everything else."""

    def __init__(
        self,
        new_id: Callable[[], int],
        knows: Callable[[str], bool],
        consequences: Consequences,
        spawn: Callable[[str, Callable[[], Coroutine[Any, Any, Any]]], None],
        clock: Clock,
    ) -> None:
        self.new_id = new_id
        self.knows = knows
        self.verbs: Verbs | None = None  # there is nobody to ask before the engine is wired
        self._consequences = consequences
        self._spawn = spawn
        self._clock = clock

    def watch(self, job_id: int, schedule: str) -> None:
        """Have the planner told when this job of the schedule is final."""
        self._consequences.awaited[job_id] = schedule

    def replace_soon(self, job_id: int) -> None:
        """Have a cancel of this job asked for: another is to take its place."""
        self._spawn(f"replacement of job {job_id}", lambda: self._replace(job_id))

    async def _replace(self, job_id: int) -> None:
        assert self.verbs is not None, "planning begins once the engine is wired"
        while True:
            try:
                await self.verbs.cancel(Cancel(job_id, REPLACED, entered=False))
            except (JournalFull, JournalUnknown):
                await Alarm(self._clock).wait(RETRY_S)
            else:
                return

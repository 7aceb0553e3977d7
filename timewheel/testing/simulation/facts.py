"""What happened in a simulation, in order: the log that the checkers read, and of which the trace is the hash."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from timewheel.model import ClockKind, JobState, Now
from timewheel.schedule_records import ScheduleRecord, UnfinishedJob
from timewheel.store.changes import Planned, PlanOccurrences
from timewheel.testing.invariants import Dump
from timewheel.testing.simulation.facts_flow import Forgotten, Heard, Passed, Rerun, Rival, Went
from timewheel.testing.simulation.plan import Life


class Began(NamedTuple):
    """A handler's first line ran: the `running`-th of its queue and the `in_all`-th of all, where so many might."""

    elapsed_us: int
    tag: str
    queue: str
    job_id: str
    attempt: int
    now: Now
    running: int
    in_all: int
    most: int
    most_in_all: int


class Ended(NamedTuple):
    """A handler ended: "ok", or the type of what it raised."""

    elapsed_us: int
    tag: str
    job_id: str
    attempt: int
    how: str
    steady_us: int


class Asked(NamedTuple):
    """Somebody called a verb about a job. `target`: where a reschedule is to move it, (clock, microseconds)."""

    elapsed_us: int
    number: int
    verb: str
    tag: str
    job_id: str
    target: tuple[ClockKind, int] | None = None


class Answered(NamedTuple):
    """The call number `number` came back: "ok" with what it gave, "refused" with an error's type, or "gave up"."""

    elapsed_us: int
    number: int
    verb: str
    tag: str
    job_id: str
    how: str
    answer: str


class Token(NamedTuple):
    """A job passed the gate and took its tokens: `steady_us` is when."""

    elapsed_us: int
    queue: str
    steady_us: int


class Shaped(NamedTuple):
    """A queue has other limits from now on; queue "*" is the whole scheduler, and every rate begins anew.

    `key_concurrency`: of the queue, since `update`.
    """

    elapsed_us: int
    queue: str
    key_concurrency: int | None = None


class Put(NamedTuple):
    """A schedule was written: made when `before` is None. `now`: of the commit."""

    elapsed_us: int
    schedule: str
    before: ScheduleRecord | None
    record: ScheduleRecord
    now: Now


class Dropped(NamedTuple):
    """A schedule was deleted."""

    elapsed_us: int
    schedule: str
    before: ScheduleRecord | None
    now: Now


class Carried(NamedTuple):
    """A plan of a schedule was carried out.

    `before`: the schedule as it was; `busy`, `left`: its jobs that were not final before the batch, and after it.
    `calendars`: the place of those that held then in the book.
    """

    elapsed_us: int
    schedule: str
    change: PlanOccurrences
    made: Planned
    now: Now
    before: ScheduleRecord
    busy: tuple[UnfinishedJob, ...]
    left: tuple[UnfinishedJob, ...]
    calendars: int


class Freed(NamedTuple):
    """Jobs that waited became SCHEDULED."""

    elapsed_us: int
    job_ids: tuple[int, ...]


class Over(NamedTuple):
    """A job became final."""

    elapsed_us: int
    job_id: int
    now: Now
    state: JobState


class Requested(NamedTuple):
    """A running job was asked to end."""

    elapsed_us: int
    job_id: int


class Told(NamedTuple):
    """What the handler of a schedule's job was told of it: instants in wall microseconds."""

    elapsed_us: int
    job_id: str
    schedule: str
    nominal_us: int
    missed: int | None  # how many
    offset_us: int  # wall minus steady, then


class Note(NamedTuple):
    """Anything else: that a life began or ended, a clock was set, and so on."""

    elapsed_us: int
    what: str
    facts: tuple[Any, ...] = ()


Fact = (
    Began
    | Ended
    | Asked
    | Answered
    | Token
    | Shaped
    | Passed
    | Heard
    | Went
    | Rerun
    | Rival
    | Forgotten
    | Put
    | Dropped
    | Carried
    | Freed
    | Over
    | Requested
    | Told
    | Note
)


@dataclass(slots=True)
class LifeRecord:
    """How one life went. `begin` and `end` are its places in the log."""

    number: int
    life: Life
    begin: int
    before: Dump
    after: Dump = field(default_factory=dict)
    end: int = 0
    how: str = ""  # killed, died in a commit, stopped, failed, cut, start refused
    epoch: int = 0
    boots: int = 0
    offset_us: int = 0  # steady minus elapsed
    ran: bool = False  # its scheduler was RUNNING, so its recovery was complete
    faulted: bool = False  # the journal failed in some commit or read
    meddled: bool = False  # strangers cancelled what was not theirs
    peaceful: bool = False  # the last life, without faults
    longest_commit_us: int = 0
    acknowledged: dict[str, str] = field(default_factory=dict)  # by its end: id -> tag
    watched: list[Now] = field(default_factory=list)  # when it began; when its machine woke, or its clock was set
    stepped_us: list[int] = field(default_factory=list)
    last_step_us: int = 0  # awake
    stopped_us: int = 0  # awake, when stop was called
    notices: list[Any] = field(default_factory=list)
    entries: list[tuple[int, int, str, str]] = field(default_factory=list)  # journal entries of this life
    schedules: dict[str, ScheduleRecord] = field(default_factory=dict)  # by its end, as the book has them

    @property
    def clean(self) -> bool:
        """Whether it went and ended in order: then everything that was asked for in it has been written."""
        return self.how == "stopped" and self.ran and not self.faulted and not self.meddled

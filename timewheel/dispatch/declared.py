"""What is declared of tasks and queues: which limits concern the starts of a job, beyond its queue's own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from timewheel.dispatch.meters import SEPARATOR
from timewheel.dispatch.slots import UNLIMITED, Slots
from timewheel.store.changes import Governed
from timewheel.store.key_limits import ONE_OF_A_KEY, KeyLimits

if TYPE_CHECKING:
    from timewheel.flow import Flow
    from timewheel.policies import Queue, Rate
    from timewheel.task import Task

T = TypeVar("T")


class Demand(NamedTuple):
    """Tokens of one meter that a start takes."""

    meter: str
    rate: Rate
    tokens: int


class _Declared(NamedTuple):
    """What concerns the jobs of a task."""

    rate: Rate | None
    key_rate: Rate | None
    slots: Slots | None


_NOTHING = _Declared(None, None, None)


class Declarations:
    """See the module. `governed`: which jobs need to be judged before they are claimed (None: none); `key_limits`: of
    concurrency keys; `edition`: grows when the needs of some job may have changed."""

    def __init__(self) -> None:
        self.governed: Governed | None = None
        self.key_limits: KeyLimits = ONE_OF_A_KEY
        self.slots: dict[str, Slots] = {}  # of tasks, whatever becomes of their declarations
        self.edition = 0
        self.dependencies: dict[str, str] = {}  # of tasks: what they name
        self._shut: frozenset[str] = frozenset()
        self._judges_retries = False
        self._tasks: dict[str, _Declared] = {}
        self._queue_rates: Mapping[str, Rate] = {}
        self._unknown_waiters = False

    def waiters_unknown(self) -> None:
        """The journal may hold jobs that wait for slots, and nobody has counted them."""
        self._unknown_waiters = True
        for name in self._tasks.keys() - self.slots.keys():
            self.slots[name] = Slots(name, UNLIMITED)
        for slots in self.slots.values():
            slots.unknown()
        self.edition += 1

    def declare(self, *tasks: Task) -> None:
        """What is declared of these tasks holds from now on, in the place of what was."""
        for task in tasks:
            self._declare(task)

    def _declare(self, task: Task) -> None:
        slots = self._slots_of(task)
        declared = _Declared(task.rate, task.key_rate, None if task.concurrency is None else slots)
        before = self._tasks.get(task.name, _NOTHING), self.dependencies.pop(task.name, None)
        self._tasks[task.name] = declared
        if task.dependency is not None:
            self.dependencies[task.name] = task.dependency
        if (declared, task.dependency) != before:
            self._changed()
        limits = self.key_limits
        if task.key_concurrency != limits.tasks.get(task.name):
            self.key_limits = limits._replace(tasks=_with(limits.tasks, task.name, task.key_concurrency))

    def _slots_of(self, task: Task) -> Slots | None:
        """The slots of a task; where none are declared, those that waiters are let go by."""
        slots = self.slots.get(task.name)
        if slots is None and (task.concurrency is not None or self._unknown_waiters):
            slots = self.slots[task.name] = Slots(task.name, UNLIMITED)
            if self._unknown_waiters:
                slots.unknown()
        if slots is not None:
            slots.concurrency = UNLIMITED if task.concurrency is None else task.concurrency
        return slots

    def shape(self, queue: str, settings: Queue) -> None:
        """What is set of a queue's keys holds from now on."""
        if settings.key_rate != self._queue_rates.get(queue):
            self._queue_rates = _with(self._queue_rates, queue, settings.key_rate)
            self._changed()
        limits = self.key_limits
        if settings.key_concurrency != limits.queues.get(queue):
            self.key_limits = limits._replace(queues=_with(limits.queues, queue, settings.key_concurrency))

    def guard(self, shut: frozenset[str], *, retries: bool) -> None:
        """The jobs of tasks that name one of these dependencies are to be judged from now on; and all `retries`."""
        self._shut, self._judges_retries = shut, retries
        self._changed()

    def _changed(self) -> None:
        self.edition += 1
        limited = (name for name, each in self._tasks.items() if each.rate is not None or each.slots is not None)
        shut = (name for name, dependency in self.dependencies.items() if dependency in self._shut)
        tasks = frozenset((*limited, *shut))
        keys = bool(self._queue_rates) or any(each.key_rate is not None for each in self._tasks.values())
        retries = self._judges_retries
        self.governed = Governed(tasks, keys, retries) if tasks or keys or retries else None

    def needs(self, task: str, queue: str, flow: Flow | None) -> tuple[Slots | None, tuple[Demand, ...]]:
        """The slots and the tokens that a start of such a job takes. A cost over a burst is the burst."""
        declared = self._tasks.get(task, _NOTHING)
        demands = [] if declared.rate is None else [Demand(f"task{SEPARATOR}{task}", declared.rate, 1)]
        if flow is not None and (key := flow.rate_key) is not None:
            by_queue = self._queue_rates.get(queue)
            for kind, name, rate in (("task", task, declared.key_rate), ("queue", queue, by_queue)):
                if rate is not None:
                    meter = SEPARATOR.join((kind, name, key))
                    demands.append(Demand(meter, rate, min(flow.cost, rate.burst)))
        return declared.slots, tuple(demands)


def _with(limits: Mapping[str, T], name: str, limit: T | None) -> Mapping[str, T]:
    """These limits with another one for `name` (None: none)."""
    changed = {key: value for key, value in limits.items() if key != name}
    return MappingProxyType(changed if limit is None else {**changed, name: limit})

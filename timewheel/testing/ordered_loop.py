"""An event loop that knows which of its tasks is older: `asyncio.all_tasks` is a set, and the order of a set of tasks
is that of their addresses. Whoever turns to every task in that order does not do the same again for the same seed."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary


class OrderedLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self, selector: Any) -> None:
        self._born: WeakKeyDictionary[asyncio.Task[Any], None] = WeakKeyDictionary()
        super().__init__(selector)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """As of any loop; it is noted that this task is the youngest."""
        task: asyncio.Task[Any] = super().create_task(coro, **options)
        self._born[task] = None
        return task

    def tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done, the eldest first."""
        return [task for task in list(self._born) if not task.done()]


def tasks_of_here() -> list[asyncio.Task[Any]]:
    """The tasks that are not done of the loop that runs, which is a virtual machine's; the eldest first."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, OrderedLoop), "only a virtual machine's loop knows the order of its tasks"
    return loop.tasks()

"""Which tasks this process knows: those that are registered, and those that it may import."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from timewheel.task import Task
    from timewheel.tasks import TaskRegistry


class Known:
    """`importable`: names that code in a process of this journal scheduled without registering them."""

    def __init__(self, registry: TaskRegistry, importable: Collection[str]) -> None:
        self._registry = registry
        self._importable = frozenset(importable)

    def find(self, name: str) -> tuple[Task | None, str]:
        """A task, or why there is none."""
        task = self._registry.find(name)
        return (task, "") if task is not None else self._registry.importable(name, self._importable)

    def knows(self, name: str) -> bool:
        """Whether there is such a task."""
        return self.find(name)[0] is not None

    def names(self) -> list[str]:
        """All names, in order."""
        importable = [name for name in sorted(self._importable) if self.knows(name)]
        return sorted({*self._registry.names(), *importable})

    def tasks(self) -> list[Task]:
        """All tasks, by name."""
        found = (self.find(name)[0] for name in self.names())
        return [task for task in found if task is not None]

"""What a loop's tasks wait for, in words: one line a task, for the message of a deadlock."""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any

MOST_LINES = 20
_OURS = "timewheel "  # how the scheduler's own tasks are named


def what_waits(loop: asyncio.AbstractEventLoop) -> str:
    """One line for each task that is not the scheduler's own: its name, and the innermost line that it waits in."""
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    lines = [f"  {task.get_name()}: {_place(task)}" for task in tasks if not task.get_name().startswith(_OURS)]
    more = [f"  and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return "\n".join(["what waits:", *lines[:MOST_LINES], *more]) if lines else "no task is left."


def _place(task: asyncio.Task[Any]) -> str:
    step: Any = task.get_coro()
    frame: FrameType | None = None
    while step is not None:
        frame = _first(step, "cr_frame", "gi_frame", "ag_frame") or frame
        step = _first(step, "cr_await", "gi_yieldfrom", "ag_await")
    if frame is None:
        return "nowhere that can be seen"
    code = frame.f_code
    return f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})"


def _first(step: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(step, name, None)) is not None), None)

"""`log.message`: the built-in task that writes a line to the log. The smallest job that can be seen to run."""

from __future__ import annotations

import json
import logging
from typing import Any

from timewheel.work.context import current
from timewheel.work.signals import Permanent

NAME = "log.message"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


async def log_message(message: str, level: str = "INFO", **fields: Any) -> None:
    """Log `message` with `fields` behind it, as `name=value` in JSON, on the logger `timewheel.task`.

    `level` is one of DEBUG, INFO, WARNING, ERROR, CRITICAL. Raises Permanent for another level or a message that is not
    text: trying again would not change it.
    """
    fault = fault_of(message, level)
    if fault is not None:
        raise Permanent(fault)
    text = " ".join([message, *(f"{name}={_shown(value)}" for name, value in fields.items())])
    current().log.log(logging.getLevelNamesMapping()[level], "%s", text)


def fault_of(message: Any, level: Any = "INFO", **fields: Any) -> str | None:  # noqa: ARG001 - the task's own signature
    """What is wrong with these arguments, or None."""
    if not isinstance(message, str):
        return f"message: it must be text, got {type(message).__name__}"
    if level not in LEVELS:
        return f"level={level!r}: it must be one of {', '.join(LEVELS)}"
    return None


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)

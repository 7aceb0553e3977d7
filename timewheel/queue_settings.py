"""What is set of a queue at run time, as it is kept in the journal. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from timewheel.policies import Queue, Rate
from timewheel.safeguards import RetryBudget

_KINDS = {"rate": Rate, "key_rate": Rate, "retry_budget": RetryBudget}


class QueueSettings(NamedTuple):
    """`paused`; `update`: limits that were set at run time, in the place of `over`, which the code had declared (None:
    nothing). They hold as long as the code declares the same."""

    paused: bool = False
    update: Queue | None = None
    over: Queue | None = None

    def text(self) -> str:
        """As JSON."""
        values: dict[str, Any] = {"paused": self.paused}
        if self.update is not None:
            values["update"] = asdict(self.update)
            values["over"] = None if self.over is None else asdict(self.over)
        return json.dumps(values)

    @classmethod
    def read(cls, text: str) -> QueueSettings:
        """What `text()` gave, of this version or an earlier one. Raises InvalidOption for limits that are none."""
        values = json.loads(text)
        return cls(bool(values.get("paused")), _queue(values.get("update")), _queue(values.get("over")))


def _queue(values: dict[str, Any] | None) -> Queue | None:
    if values is None:
        return None
    known = {field.name: values[field.name] for field in fields(Queue) if field.name in values}
    for name, kind in _KINDS.items():
        if known.get(name) is not None:
            known[name] = kind(**known[name])
    return Queue(**known)

"""For tests: a kit for those of your application, and what timewheel itself is proved with.

The kit: the pytest plugin (`timewheel.testing.plugin`) with its fixtures `scheduler` and `clock`; `assert_scheduled`,
`assert_not_scheduled`, `assert_drained`; `inline`; `Clock`, for use without pytest; `Deadlock` and `NotVirtual`, its
errors. None of them needs pytest. `VirtualMachine` is a loop of its own in virtual time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from timewheel.testing.kit.assertions import assert_drained, assert_not_scheduled, assert_scheduled
    from timewheel.testing.kit.clock import Clock
    from timewheel.testing.kit.inlining import inline
    from timewheel.testing.kit.outside import NotVirtual
    from timewheel.testing.virtual import Deadlock, VirtualMachine

__all__ = [
    "Clock",
    "Deadlock",
    "NotVirtual",
    "VirtualMachine",
    "assert_drained",
    "assert_not_scheduled",
    "assert_scheduled",
    "inline",
]

_HOMES = {
    "Clock": "kit.clock",
    "Deadlock": "virtual",
    "NotVirtual": "kit.outside",
    "VirtualMachine": "virtual",
    "assert_drained": "kit.assertions",
    "assert_not_scheduled": "kit.assertions",
    "assert_scheduled": "kit.assertions",
    "inline": "kit.inlining",
}


if not TYPE_CHECKING:

    def __getattr__(name):
        """Import a name when it is first asked for: pytest reads this package at every start, for its plugin."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)

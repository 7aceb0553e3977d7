"""The conformance suite: what every store must do, sentence by sentence of `store.port` and `store.changes`.

Subclass `StoreConformance` in a test module and provide the three hooks; pytest collects the rest:

    class TestMyStore(StoreConformance):
        async def fresh(self, folder):
            store = MyStore(folder / "journal")
            await store.open()
            return store

        async def another(self, store): ...  # a second, opened handle on the same journal
        async def crashed(self, store): ...  # the same, after the process of `store` died

Beyond the port an adapter under test has a `dump` (see `DumpableStore`). Needs pytest and pytest-asyncio.
"""

from __future__ import annotations

import pytest

_TOPICS = (
    "batches",
    "claims",
    "concurrency",
    "holds",
    "keys",
    "ledgers",
    "lists",
    "ownership",
    "plans",
    "reads",
    "requests",
    "rest",
    "schedules",
    "settles",
    "submits",
    "successions",
    "verbs",
    "waits",
)
for _topic in ("bench", *_TOPICS):
    pytest.register_assert_rewrite(f"{__name__}.{_topic}")

from timewheel.testing.conformance.batches import Batches  # noqa: E402
from timewheel.testing.conformance.bench import Bench, DumpableStore, Hooks  # noqa: E402
from timewheel.testing.conformance.claims import Claims  # noqa: E402
from timewheel.testing.conformance.concurrency import Concurrency  # noqa: E402
from timewheel.testing.conformance.holds import Holds  # noqa: E402
from timewheel.testing.conformance.keys import Keys  # noqa: E402
from timewheel.testing.conformance.ledgers import Ledgers  # noqa: E402
from timewheel.testing.conformance.lists import Lists  # noqa: E402
from timewheel.testing.conformance.ownership import Owning  # noqa: E402
from timewheel.testing.conformance.plans import Plans  # noqa: E402
from timewheel.testing.conformance.reads import Reads  # noqa: E402
from timewheel.testing.conformance.requests import CancelRequests  # noqa: E402
from timewheel.testing.conformance.rest import Rest  # noqa: E402
from timewheel.testing.conformance.schedules import Schedules  # noqa: E402
from timewheel.testing.conformance.settles import Settles  # noqa: E402
from timewheel.testing.conformance.submits import Submits  # noqa: E402
from timewheel.testing.conformance.successions import Successions  # noqa: E402
from timewheel.testing.conformance.verbs import Verbs  # noqa: E402
from timewheel.testing.conformance.waits import Waits  # noqa: E402

__all__ = ["Bench", "DumpableStore", "Hooks", "StoreConformance"]


class StoreConformance(
    Batches,
    CancelRequests,
    Claims,
    Concurrency,
    Holds,
    Keys,
    Ledgers,
    Lists,
    Owning,
    Plans,
    Reads,
    Rest,
    Schedules,
    Settles,
    Submits,
    Successions,
    Verbs,
    Waits,
):
    """Every topic of the suite; a subclass provides `fresh`, `another` and `crashed`."""

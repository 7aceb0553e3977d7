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
    "deferrals",
    "dependencies",
    "faults",
    "flows",
    "holds",
    "key_limits",
    "keys",
    "ledgers",
    "letter_lists",
    "letters",
    "lists",
    "operations",
    "ownership",
    "partitions",
    "plans",
    "pruning",
    "reads",
    "requests",
    "rest",
    "schedules",
    "settles",
    "submits",
    "successions",
    "unique_conflicts",
    "uniques",
    "verbs",
    "waits",
)
for _topic in ("bench", *_TOPICS):
    pytest.register_assert_rewrite(f"{__name__}.{_topic}")

from timewheel.testing.conformance.batches import Batches  # noqa: E402
from timewheel.testing.conformance.bench import Bench, DumpableStore, Hooks  # noqa: E402
from timewheel.testing.conformance.claims import Claims  # noqa: E402
from timewheel.testing.conformance.concurrency import Concurrency  # noqa: E402
from timewheel.testing.conformance.deferrals import Deferrals  # noqa: E402
from timewheel.testing.conformance.dependencies import DependenciesOfJobs  # noqa: E402
from timewheel.testing.conformance.faults import Faults  # noqa: E402
from timewheel.testing.conformance.flows import Flows  # noqa: E402
from timewheel.testing.conformance.holds import Holds  # noqa: E402
from timewheel.testing.conformance.key_limits import LimitsOfKeys  # noqa: E402
from timewheel.testing.conformance.keys import Keys  # noqa: E402
from timewheel.testing.conformance.ledgers import Ledgers  # noqa: E402
from timewheel.testing.conformance.letter_lists import LetterLists  # noqa: E402
from timewheel.testing.conformance.letters import Letters  # noqa: E402
from timewheel.testing.conformance.lists import Lists  # noqa: E402
from timewheel.testing.conformance.operations import Operations  # noqa: E402
from timewheel.testing.conformance.ownership import Owning  # noqa: E402
from timewheel.testing.conformance.partitions import Partitions  # noqa: E402
from timewheel.testing.conformance.plans import Plans  # noqa: E402
from timewheel.testing.conformance.pruning import Pruning  # noqa: E402
from timewheel.testing.conformance.reads import Reads  # noqa: E402
from timewheel.testing.conformance.requests import CancelRequests  # noqa: E402
from timewheel.testing.conformance.rest import Rest  # noqa: E402
from timewheel.testing.conformance.schedules import Schedules  # noqa: E402
from timewheel.testing.conformance.settles import Settles  # noqa: E402
from timewheel.testing.conformance.submits import Submits  # noqa: E402
from timewheel.testing.conformance.successions import Successions  # noqa: E402
from timewheel.testing.conformance.unique_conflicts import UniqueConflicts  # noqa: E402
from timewheel.testing.conformance.uniques import Uniques  # noqa: E402
from timewheel.testing.conformance.verbs import Verbs  # noqa: E402
from timewheel.testing.conformance.waits import Waits  # noqa: E402

__all__ = ["Bench", "DumpableStore", "Hooks", "StoreConformance"]


class StoreConformance(
    Batches,
    CancelRequests,
    Claims,
    Concurrency,
    Deferrals,
    DependenciesOfJobs,
    Faults,
    Flows,
    Holds,
    Keys,
    Ledgers,
    LetterLists,
    Letters,
    LimitsOfKeys,
    Lists,
    Operations,
    Owning,
    Partitions,
    Plans,
    Pruning,
    Reads,
    Rest,
    Schedules,
    Settles,
    Submits,
    Successions,
    UniqueConflicts,
    Uniques,
    Verbs,
    Waits,
):
    """Every topic of the suite; a subclass provides `fresh`, `another` and `crashed`."""

"""The conformance suite on the model."""

from collections import Counter

import pytest

from tests.conformance.factories import MemoryHooks
from timewheel.errors import JournalOwned, NotOwner
from timewheel.model import AttemptState
from timewheel.testing.builders import claim, owner, settle_retry, stamp, submit
from timewheel.testing.conformance import StoreConformance
from timewheel_storage.memory import MemoryStore


class TestMemoryStore(MemoryHooks, StoreConformance):
    """Every topic of the suite."""


def test_no_topic_hides_a_test_of_another():
    """They are bases of one class: of two methods with one name only the first would run."""
    topics = [
        topic for topic in StoreConformance.__mro__ if topic.__module__.startswith("timewheel.testing.conformance.")
    ]
    names = Counter(name for topic in topics for name in vars(topic) if name.startswith("test_"))
    assert len(names) > 300
    assert [name for name, times in names.items() if times > 1] == []


async def test_the_same_object_serves_one_scheduler_after_another():
    store = MemoryStore()
    first = await store.own(owner())
    with pytest.raises(JournalOwned):
        await store.own(owner())
    await store.commit([submit(1), claim(1)], stamp(first.epoch))
    store.abandon()
    with pytest.raises(NotOwner):
        await store.commit([submit(2)], stamp(first.epoch))
    second = await store.own(owner())
    assert second.epoch == first.epoch + 1
    assert [attempt.state for attempt in await store.attempts(1)] == [AttemptState.QUEUED]
    await store.close()
    assert (await store.own(owner())).epoch == second.epoch + 1


async def test_closing_a_stand_by_leaves_the_owner_alone():
    store = MemoryStore()
    ownership = await store.own(owner())
    standby = store.another()
    await standby.close()
    standby.abandon()
    (outcome,) = await store.commit([submit(1)], stamp(ownership.epoch))
    assert outcome.created
    with pytest.raises(JournalOwned):
        await store.another().own(owner())


async def test_a_broken_rule_of_batches_is_noticed():
    store = MemoryStore()
    await store.own(owner())
    await store.commit([submit(1), claim(1)], stamp(1))
    before = await store.dump()
    with pytest.raises(AssertionError):
        await store.commit([submit(2), settle_retry(1), settle_retry(1)], stamp(1))
    assert await store.dump() == before

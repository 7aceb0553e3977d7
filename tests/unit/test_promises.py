"""No job starts later than what the journal holds of its rate counts on."""

import pytest

from timewheel.dispatch.limits import Limits
from timewheel.dispatch.promises import PROMISE_US, Promises
from timewheel.errors import JournalUnknown
from timewheel.model import SECOND_US, Now
from timewheel.policies import Queue, Rate
from timewheel.store.changes import DONE


class Journal:
    """Takes what is to be saved, and says when it is durable."""

    def __init__(self):
        self.waiting = []

    def save_limits(self, change, receive):
        self.waiting = [(change, receive)]

    def answer(self, outcome=DONE):
        ((_, receive),) = self.waiting
        self.waiting = []
        receive(outcome)


class World:
    """Promises over a clock that is set by hand. Seconds."""

    def __init__(self):
        self.now_s, self.journal, self.kept = 1_000.0, Journal(), 0
        limits = Limits(10, None, {"rated": Queue(rate=Rate(1))}, {}, 0)
        self.promises = Promises(limits, self.journal, self.now, self.count)

    def now(self):
        return Now(0, round(self.now_s * SECOND_US))

    def count(self):
        self.kept += 1

    def holds(self, queue="rated"):
        return self.promises.hold(queue, self.now())


@pytest.fixture
def world():
    return World()


def test_nothing_is_covered_before_it_is_durable(world):
    world.promises.save(world.now())
    assert world.holds()
    world.journal.answer()
    assert not world.holds()
    assert world.kept == 1


def test_a_start_later_than_that_waits_and_asks_once_for_a_new_promise(world):
    world.promises.save(world.now())
    world.journal.answer()
    world.now_s += PROMISE_US / SECOND_US
    assert not world.holds()
    world.now_s += 1e-6
    assert world.holds()
    asked = world.journal.waiting
    assert world.holds()
    assert world.journal.waiting == asked != []
    world.journal.answer()
    assert not world.holds()


def test_a_queue_without_a_rate_waits_for_nothing(world):
    assert not world.holds("free")
    assert world.journal.waiting == []


def test_a_journal_that_is_slower_than_a_promise_lasts_is_promised_more_time(world):
    assert world.holds()
    world.now_s += 5
    world.journal.answer()
    assert world.holds()
    world.now_s += 5
    world.journal.answer()
    assert not world.holds()


def test_what_was_not_written_covers_nothing_and_is_asked_for_again(world):
    assert world.holds()
    world.journal.answer(JournalUnknown("nobody knows", path="here"))
    assert world.kept == 0
    assert world.holds()
    assert len(world.journal.waiting) == 1

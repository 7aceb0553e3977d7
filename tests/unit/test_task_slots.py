"""The slots of one task: nobody overtakes those who wait, none is forgotten, and no slot is kept for nobody."""

from __future__ import annotations

from timewheel.dispatch.slots import COMING_US, MOST_ASKED, UNLIMITED, Slots

NOW = 10**9


def full(concurrency=1):
    slots = Slots("t", concurrency)
    for _ in range(concurrency):
        assert slots.take(NOW, let_go=False)
    return slots


def test_who_comes_new_waits_behind_those_who_wait_and_those_who_were_let_go():
    slots = full()
    assert not slots.take(NOW, let_go=False)
    assert slots.ask(NOW) == 0, "no slot is free"
    slots.give_back()
    assert slots.ask(NOW) == 1
    assert slots.ask(NOW) == 0, "that one is asked for already"
    assert not slots.take(NOW, let_go=False), "while the journal is asked"
    slots.answered(1, 1, NOW)
    assert not slots.take(NOW, let_go=False), "while it comes"
    assert slots.take(NOW, let_go=True)
    assert slots.held == 1


def test_while_nobody_knows_how_many_wait_nobody_new_starts():
    slots = Slots("t", 3)
    slots.unknown()
    assert not slots.take(NOW, let_go=False)
    assert slots.ask(NOW) == 3
    slots.answered(3, 1, NOW)
    assert slots.take(NOW, let_go=True)
    assert slots.ask(NOW) == 2, "there may be more"
    slots.answered(2, 0, NOW)
    assert slots.take(NOW, let_go=False), "nobody waits"


def test_who_began_to_wait_after_the_journal_was_asked_is_not_forgotten_when_that_finds_nobody():
    slots = full()
    assert not slots.take(NOW, let_go=False)  # and is cancelled
    slots.give_back()
    assert slots.ask(NOW) == 1
    assert not slots.take(NOW, let_go=False)
    slots.answered(1, 0, NOW)
    assert slots.ask(NOW) == 1


def test_a_slot_is_not_kept_for_ever_for_one_that_does_not_come():
    slots = full()
    for _ in range(2):
        assert not slots.take(NOW, let_go=False)
    slots.give_back()
    assert slots.ask(NOW) == 1
    slots.answered(1, 1, NOW)
    assert slots.ask(NOW + COMING_US - 1) == 0
    assert slots.ask(NOW + COMING_US) == 1


def test_one_that_was_let_go_and_waits_for_something_else_first_leaves_its_slot_to_the_next():
    slots = full()
    for _ in range(2):
        assert not slots.take(NOW, let_go=False)
    slots.give_back()
    assert slots.ask(NOW) == 1
    slots.answered(1, 1, NOW)
    slots.not_yet()
    assert slots.ask(NOW) == 1


def test_more_than_were_asked_for_may_be_let_go_and_wait_again():
    slots = full()
    for _ in range(3):
        assert not slots.take(NOW, let_go=False)
    slots.give_back()
    assert slots.ask(NOW) == 1
    slots.answered(1, 3, NOW)  # the first one of each lane
    assert slots.take(NOW, let_go=True)
    assert not slots.take(NOW, let_go=True)
    assert not slots.take(NOW, let_go=True)
    slots.give_back()
    assert slots.ask(NOW) == 1


def test_fewer_slots_hold_from_then_on_and_none_are_asked_for_a_thousand_at_a_time():
    slots = full(3)
    slots.concurrency = 1
    slots.give_back()
    assert not slots.take(NOW, let_go=False)
    assert slots.ask(NOW) == 0
    slots.concurrency = UNLIMITED
    slots.unknown()
    assert slots.ask(NOW) == MOST_ASKED

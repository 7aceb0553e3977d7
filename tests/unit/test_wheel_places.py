"""Where the wheel puts an entry, and what a call costs: what no order of firing shows."""

import pytest

from timewheel.wheel import wheel as wheel_module
from timewheel.wheel.level import ENTRY, PLACE, Level, dues_of, pack, place
from timewheel.wheel.wheel import Wheel

MS = 1_000


def placed(dues, *, now=0, tick_us=1):
    """(levels, late entries) of these dues, with ids from 0, as seen from the tick `now`."""
    levels: list[Level] = []
    return levels, place(levels, now, tick_us, dues, pack(dues, range(len(dues)), 7))


def test_the_table_of_places_is_the_highest_differing_digit():
    for bits, (level, shift) in enumerate(PLACE):
        assert (level, shift) == (max(bits - 1, 0) // 6, max(bits - 1, 0) // 6 * 6)


def test_nothing_is_placed_nowhere():
    assert placed([]) == ([], [])


def test_late_entries_make_no_level():
    assert placed([5], now=5) == ([], [(5, 0, 7)])
    assert placed([5, 4], now=9) == ([], [(5, 0, 7), (4, 1, 7)])


@pytest.mark.parametrize("dues", [[64**3 + 1, 3, 64, 2], [2, 3, 64, 64**3 + 1]], ids=["scattered", "ascending"])
def test_levels_are_made_as_far_as_they_are_needed(dues):
    levels, late = placed(dues)
    assert late == []
    assert len(levels) == 4
    assert [level.shift for level in levels] == [0, 6, 12, 18]
    assert sorted(dues_of(levels[0].slots[2] + levels[0].slots[3])) == [2, 3]
    assert dues_of(levels[1].slots[1]) == [64]
    assert dues_of(levels[3].slots[1]) == [64**3 + 1]


def test_a_block_holds_what_is_told_of_it():
    with pytest.raises(ValueError, match="zip"):
        place([], 0, 1, [1, 2], pack([1], [1], 0))
    with pytest.raises(ValueError, match="zip"):
        place([], 0, 1, [1], pack([1, 2], [1, 2], 0))


def test_a_long_ascending_block_keeps_only_the_past_back():
    """The run path: from 512 entries."""
    dues = list(range(0, 600_000, MS))
    levels, late = placed(dues, now=10, tick_us=MS)
    assert [due_us for due_us, _, _ in late] == dues[:11]
    assert sum(len(dues_of(slot)) for level in levels for slot in level.slots if slot) == 600 - 11


def test_the_next_due_time_is_exact_up_to_64_entries_in_a_slot():
    def wheel(count):
        made = Wheel(0)
        for job_id in range(count):
            made.insert(5_700 + job_id, job_id, 0)
        return made

    assert wheel(64).next_due_us() == 5_700
    assert wheel(65).next_due_us() == 5_000


def opened(*near):
    """A wheel that has reached tick 64 and holds these entries near, none of them due at 64,000."""
    wheel = Wheel(0)
    for due_us in near:
        wheel.insert(due_us, due_us, 0)
    assert wheel.advance(64_000, 10) == []
    return wheel


def ids(entries):
    return [job_id for _, job_id, _ in entries]


def test_a_late_entry_goes_before_a_later_near_one_though_the_limit_is_short():
    wheel = opened(70_100, 70_300)
    wheel.insert(64_000, 1, 0)
    assert ids(wheel.advance(70_300, 2)) == [1, 70_100]
    wheel = opened(64_100, 64_300)
    wheel.insert(64_200, 2, 0)
    assert ids(wheel.advance(64_300, 2)) == [64_100, 2]
    assert ids(wheel.advance(64_300, 2)) == [64_300]


def test_late_entries_that_the_limit_leaves_out_are_not_moved():
    wheel = opened(64_100, 64_200)
    wheel.insert(64_300, 3, 0)
    assert ids(wheel.advance(64_400, 2)) == [64_100, 64_200]
    assert wheel.last_work == 2
    wheel = opened(64_100)
    wheel.insert(64_100, 64_100, 0)
    assert ids(wheel.advance(64_400, 1)) == [64_100]
    assert wheel.last_work == 1


def test_a_call_that_moves_nothing_has_done_no_work():
    wheel = opened(64_500)
    wheel.insert(64_700, 1, 0)
    assert wheel.advance(64_400, 5) == []
    assert wheel.last_work == 0


def test_every_field_of_an_entry_is_signed():
    block = pack([-5, 6], [-7, 8], -1)
    assert dues_of(block) == [-5, 6]
    assert list(ENTRY.iter_unpack(block)) == [(-5, -7, -1), (6, 8, -1)]


def test_an_empty_slot_is_never_taken():
    with pytest.raises(AssertionError, match=r"^a bit was set for an empty slot(\n|$)"):
        Level(0).take(3)


def test_it_is_behind_as_soon_as_a_slot_begins():
    wheel = Wheel(0)
    wheel.insert(5_500, 1, 0)
    assert [wheel.behind(now_us) for now_us in (4_999, 5_000)] == [False, True]
    assert wheel.advance(5_000, 10) == []
    assert [wheel.behind(now_us) for now_us in (5_499, 5_500)] == [False, True]


def test_the_next_due_time_is_the_near_one_though_a_late_one_has_a_small_id():
    wheel = opened(64_100)
    wheel.insert(64_300, 1, 0)
    assert wheel.next_due_us() == 64_100


def test_a_call_opens_what_it_needs_to_return_as_many_as_it_may():
    wheel = opened(64_100, 90_000)
    wheel.insert(80_500, 1, 0)
    assert wheel.advance(95_000, 2) == [(64_100, 64_100, 0), (80_500, 1, 0)]
    wheel = Wheel(0)
    wheel.insert(64_100, 1, 0)
    wheel.insert(90_000, 2, 0)
    assert wheel.advance(64_000, 10) == []
    wheel.insert(80_500, 3, 0)
    assert ids(wheel.advance(95_000, 2)) == [1, 3]
    wheel = opened(64_100, 80_000)
    wheel.insert(80_000, 1, 0)
    assert wheel.advance(95_000, 2) == [(64_100, 64_100, 0), (80_000, 1, 0)]


def test_a_call_opens_no_more_than_it_needs():
    wheel = opened(64_100, 64_200)
    wheel.insert(80_500, 1, 0)
    assert ids(wheel.advance(95_000, 2)) == [64_100, 64_200]
    assert wheel.last_work == 2


def test_a_late_entry_is_merged_where_it_belongs_and_moves_no_other():
    wheel = opened(64_500, 64_900)
    wheel.insert(64_000, 1, 0)
    assert ids(wheel.advance(64_000, 5)) == [1]
    assert wheel.last_work == 2


def test_while_a_slot_is_being_opened_the_wheel_wakes_for_what_is_left_of_it(monkeypatch):
    monkeypatch.setattr(wheel_module, "PORTION", 2)
    wheel = Wheel(0)
    for due_us in (70_000, 71_000, 100_000, 101_000):  # one slot of level 1, opened from its end
        wheel.insert(due_us, due_us, 0)
    assert wheel.advance(64_000, 1) == []
    assert (wheel.last_work, type(wheel.last_work)) == (2, int)
    assert wheel.next_due_us() <= 70_000
    assert wheel.behind(64_000)
    wheel = Wheel(0)
    for due_us in (64_000, 64_001, 64_002, 64_003):  # all of the very tick stepped to: no level holds anything
        wheel.insert(due_us, due_us, 0)
    assert wheel.advance(64_000, 1) == []
    assert wheel.last_work == 2
    assert wheel.next_due_us() == 64_000
    assert ids(wheel.advance(64_003, 10)) == [64_000, 64_001, 64_002, 64_003]
    assert wheel.last_work == 2 + 4 + 4  # spread, merged, fired


def test_work_is_what_was_opened_merged_and_fired():
    wheel = Wheel(0)
    assert wheel.last_work == 0
    wheel.insert(5_000, 1, 0)
    wheel.insert(6_000, 2, 0)
    assert ids(wheel.advance(7_000, 10)) == [1, 2]
    assert wheel.last_work == 4


def test_late_entries_count_before_anything_is_opened():
    wheel = Wheel(0)
    for due_us, job_id in ((0, 1), (0, 2), (5_000, 3)):
        wheel.insert(due_us, job_id, 0)
    assert ids(wheel.advance(6_000, 2)) == [1, 2]
    assert wheel.last_work == 4


def test_a_late_entry_of_the_last_microsecond_before_a_slot_goes_first():
    wheel = Wheel(0)
    assert wheel.advance(63_000, 1) == []
    wheel.insert(63_999, 1, 0)
    wheel.insert(64_000, 2, 0)
    assert ids(wheel.advance(70_000, 1)) == [1]
    assert wheel.last_work == 2


def test_the_wheel_does_not_pass_a_slot_that_it_had_no_room_to_open():
    wheel = Wheel(0)
    for due_us, job_id in ((0, 1), (0, 2), (64_500, 3)):
        wheel.insert(due_us, job_id, 0)
    assert ids(wheel.advance(64_000, 2)) == [1, 2]
    wheel.insert(65_000, 4, 0)
    assert wheel.next_due_us() <= 64_500
    assert ids(wheel.advance(65_000, 10)) == [3, 4]

"""Does the oracle work? Every planted bug is found, within its seeds and by an invariant that it concerns.

A search for each third of them, which takes two minutes; `python -m tests.planted` searches for all.
"""

from contextlib import nullcontext

import pytest

from tests.marks import DEEP
from tests.planted.bugs import BUGS, PLANTED
from tests.planted.planting import edited, reworded, small
from tests.planted.search import search
from timewheel.dispatch import bucket
from timewheel.testing.simulation import first_failure
from timewheel_storage.sqlite import batch

COVERED = {
    1,
    3,
    4,
    5,
    6,
    7,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
    21,
    22,
    23,
    24,
    25,
    28,
    29,
    30,
}  # of I1, I3 and so on


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, id=bug.name, marks=DEEP if place % 3 else ()) for place, bug in enumerate(BUGS)]
)
def test_a_planted_bug_is_found(bug):
    find = search(bug, bug.order())
    assert find.invariant in bug.invariants, find.message


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_has_its_place(bug):
    with bug.plant():
        pass


@pytest.mark.parametrize(("store", "sizes"), [("memory", nullcontext), ("memory", small), ("sqlite", nullcontext)])
def test_without_a_bug_nothing_is_found(store, sizes):
    found = first_failure(range(8), store, patch=sizes)
    assert found is None, found


def test_every_invariant_of_the_simulation_has_its_bugs():
    assert len(PLANTED) == len(BUGS), "two bugs of one name"
    assert {int(number[1:]) for bug in BUGS for number in bug.invariants} >= COVERED


def test_a_bug_whose_place_is_gone_says_so():
    with pytest.raises(LookupError, match="plant it elsewhere"), edited(bucket.Bucket, "spend", ("not there", "")):
        pass
    with pytest.raises(LookupError, match="plant it elsewhere"), reworded(batch, "STAMP", ("not there", "")):
        pass


def test_a_bug_is_dug_out_again():
    before = bucket.Bucket.spend
    with edited(bucket.Bucket, "spend", ("after > now", "False and after > now")):
        assert all(bucket.Bucket.of(1, 1, 1).spend(0) for _ in range(3))
        assert bucket.Bucket.spend is not before
    assert bucket.Bucket.spend is before

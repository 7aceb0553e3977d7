"""A share of the campaign of the k-th call (kth.py), and that it would notice what is wrong."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.crash import iolives, iolives_told, kth, shim

pytestmark = pytest.mark.slow
STEP = 61
OFFSET = 31 if os.environ.get("CI") else 1 + os.getpid() % STEP  # the same ones in CI, so that it never fails by chance


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return shim.compiled(tmp_path_factory.mktemp("shim"))


@pytest.mark.parametrize("life", kth.LIVES)
def test_no_failing_call_takes_or_doubles_anything(life):
    campaign = kth.Campaign([life], list(shim.FAULTS), STEP, OFFSET)
    campaign.run(workers=2)
    assert not campaign.wrong, "\n".join(
        kth.Case(one["life"], one["fault"], one["kth"]).command for one in campaign.wrong
    )
    assert campaign.faults >= len(shim.FAULTS)


def test_the_shim_sees_every_kind_of_call(library):
    with kth.worker(library) as process:
        whole = kth.result_of(process, kth.Case("full", "kill", 1 << 30))
        first = kth.result_of(process, kth.Case("full", "kill", 1))
        torn = kth.result_of(process, kth.Case("full", "torn", 40))
    assert (whole["wrong"], whole["hit"]) == ("", "")
    assert whole["calls"] > 200
    assert first["code"] == torn["code"] == -9
    assert first["hit"].startswith("create jobs.db.new")
    assert torn["hit"].startswith("write jobs.db")


@pytest.mark.parametrize(
    ("lines", "invariant"),
    [
        ([["ask", "submit", "never-made"], ["ack", "submit", "never-made", ""]], "I1"),
        ([["ack", "cancel", "first", "CANCELLED"]], "I9"),
        ([["ack", "wait", "far", "COMPLETED"]], "I10"),
        ([["start", "first", 1]], "I11"),
        ([["start", "first", 2]], "I11"),
        (None, "I3"),
    ],
)
def test_the_look_would_notice(lived, lines, invariant):
    """A life that is all right, but for what is added to what it says; None: less what it asked."""
    dump, told = lived
    added = told.lines + lines if lines else [line for line in told.lines if line[2:] != ["first"]]
    with pytest.raises(iolives_told.invariants.Violated, match=f"^{invariant}:"):
        look(iolives_told.Told(added), dump)


def look(told, dump):
    iolives_told.check_promises(told, dump)
    iolives_told.check_starts(told, dump)


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    home = tmp_path_factory.mktemp("lived")
    (home / "journal").mkdir()
    assert asyncio.run(iolives.live("full", home / "journal" / "jobs.db", home / "told")) == 0
    dump, told = iolives_told.state_of(home / "journal" / "jobs.db"), iolives_told.told_in(home / "told")
    look(told, dump)
    return dump, told

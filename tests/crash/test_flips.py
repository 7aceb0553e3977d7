"""A bounded share of the flipped bits (`flips` flips any number), and its control."""

from __future__ import annotations

from tests.crash.flips import Flips, make


async def test_flipped_bits_are_noticed_or_harm_nothing(tmp_path):
    flips = Flips(tmp_path, seed=4)
    await flips.run(80)
    assert not flips.wrong, "\n".join(flips.wrong)
    assert flips.counts["log: JournalTruncated"] > 30


async def test_without_the_mark_the_same_flips_lose_jobs_in_silence(tmp_path, monkeypatch):
    """The control: SQLite itself says nothing of the frames that it drops."""

    async def without_mark(folder):
        dump = await make(folder)
        (folder / "jobs.db.mark").write_bytes(b"")
        return dump

    monkeypatch.setattr("tests.crash.flips.make", without_mark)
    flips = Flips(tmp_path, seed=4)
    await flips.run(40)
    assert any("gone in silence" in each for each in flips.wrong)

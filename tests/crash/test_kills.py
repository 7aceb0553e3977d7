"""A bounded share of the kills (`kills` runs any number), and that their judge can tell right from wrong."""

from __future__ import annotations

import dataclasses

import pytest

from tests.crash.book import Book, starts_after
from tests.crash.kills import Campaign
from timewheel.model import AttemptState, job_text
from timewheel.testing.builders import claim, owner, settle_ok, stamp, submit
from timewheel_storage.memory import MemoryStore


@pytest.mark.slow
def test_kills_of_an_embedding_program(tmp_path):
    campaign = Campaign(tmp_path, seed=5)
    campaign.embedded(10)
    assert not campaign.wrong, "\n".join(campaign.wrong)
    assert campaign.counts["acknowledgements"] > 20


@pytest.mark.slow
def test_kills_of_serve(tmp_path):
    campaign = Campaign(tmp_path, seed=6)
    campaign.serve(3)
    assert not campaign.wrong, "\n".join(campaign.wrong)
    assert campaign.counts["serve kills"] == 3


# ---- the judge -------------------------------------------------------------------------------------------------------


async def _journal():
    """Three jobs: one that ran, one that waits, one that runs."""
    store = MemoryStore()
    await store.open()
    await store.own(owner())
    await store.commit([submit(job, task="quick", arguments=f"[{job}]") for job in (1, 2, 3)], stamp(1))
    await store.commit([claim(1, 3)], stamp(1))
    await store.commit([settle_ok(1)], stamp(1))
    return await store.dump()


def _told(book):
    """What was said of them."""
    for number in (1, 2, 3):
        book.hear({"t": number, "will": "submit", "op": f"{number}", "numbers": [number], "task": "quick"})
        book.hear({"t": number + 10, "did": "submit", "op": f"{number}", "jobs": [[number, job_text(number)]]})
    return book


def _run(number, what="start", attempt=1, t=30):
    return {"t": t, "what": what, "number": number, "job": job_text(number), "attempt": attempt}


RUNS = [_run(1), _run(1, "done", t=31), _run(3, t=32)]


async def test_the_judge_finds_nothing_where_nothing_is_wrong():
    book = _told(Book())
    dump = await _journal()
    book.look(dump, RUNS)
    book.look(dump, RUNS)
    assert not book.wrong
    assert starts_after(RUNS, 32) == []


def _ask(book, what, number, answer, **facts):
    book.hear({"t": 20, "will": what, "op": "v", "number": number, "job": job_text(number), **facts})
    book.hear({"t": 21, "did": what, "op": "v", "answer": answer})


def _without(dump, number):
    jobs = {job_id: job for job_id, job in dump["jobs"].items() if job_id != number}
    return {**dump, "jobs": jobs}


def _changed(dump, number, **fields):
    return {**dump, "jobs": {**dump["jobs"], number: dataclasses.replace(dump["jobs"][number], **fields)}}


def _attempt(dump, number, state):
    key = (number, 1)
    return {**dump, "attempts": {**dump["attempts"], key: dataclasses.replace(dump["attempts"][key], state=state)}}


WRONG = {
    "I1: the acknowledged job 2 is gone": lambda book, dump: book.look(_without(dump, 2), RUNS),
    "I1: not final after all": lambda book, dump: book.look(dump, RUNS, drained=True),
    "I3: nobody asked for": lambda book, dump: (book.asked.pop(2), book.look(dump, RUNS)),
    "is not what was asked": lambda book, dump: book.look(_changed(dump, 2, task="slow"), RUNS),
    "has two jobs": lambda book, dump: book.look(_changed(dump, 2, arguments="[1]"), RUNS),
    "was answered with": lambda book, dump: (
        book.hear({"t": 1, "will": "submit", "op": "x", "numbers": [1], "task": "quick"}),
        book.hear({"t": 2, "did": "submit", "op": "x", "jobs": [[1, job_text(9)]]}),
    ),
    "I9: cancel answered cancelled": lambda book, dump: (_ask(book, "cancel", 2, "cancelled"), book.look(dump, RUNS)),
    "I9: cancel answered too_late": lambda book, dump: (_ask(book, "cancel", 2, "too_late"), book.look(dump, RUNS)),
    "I9: cancel answered requested": lambda book, dump: (_ask(book, "cancel", 2, "requested"), book.look(dump, RUNS)),
    "I9: it started after its cancel": lambda book, dump: (_ask(book, "cancel", 3, "requested"), book.look(dump, RUNS)),
    "I9: it was moved away, and is not there": lambda book, dump: (
        _ask(book, "move", 1, "moved", far=True),
        book.look(dump, []),
    ),
    "I9: it started after it had been moved away": lambda book, dump: (
        _ask(book, "move", 3, "moved", far=True),
        book.look(dump, RUNS),
    ),
    "I10: final, and changed": lambda book, dump: (
        book.look(dump, RUNS),
        book.look(_changed(dump, 1, result="other"), RUNS),
    ),
    "I12: it started twice in one attempt": lambda book, dump: book.look(dump, [*RUNS, _run(3, t=40)]),
    "I2: it started, and its claim is not durable": lambda book, dump: book.look(dump, [_run(2)]),
    "I1: it ran again after": lambda book, dump: book.look(dump, [_run(1, attempt=2)]),
    "I26: exit 0 with an outcome that is not durable": lambda book, dump: book.look(dump, RUNS, clean=True),
    "I26: it had ended well": lambda book, dump: book.look(
        _attempt(dump, 1, AttemptState.RELEASED), RUNS, clean=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
async def test_the_judge_finds_what_is_wrong(words):
    book = _told(Book())
    WRONG[words](book, await _journal())
    assert any(words in each for each in book.wrong), book.wrong


async def test_the_judge_finds_a_start_in_a_paused_queue_and_in_a_drain():
    book = Book()
    book.hear({"t": 1, "will": "submit", "op": "1", "numbers": [1], "task": "aside"})
    book.hear({"t": 2, "will": "pause", "op": "p"})
    book.hear({"t": 3, "did": "pause", "op": "p", "answer": "None"})
    store = MemoryStore()
    await store.open()
    await store.own(owner())
    await store.commit([submit(1, task="aside", arguments="[1]", queue="side")], stamp(1))
    await store.commit([claim(1)], stamp(1))
    book.look(await store.dump(), [_run(1, t=4)])
    assert any(each.startswith("I18") for each in book.wrong)
    assert starts_after([_run(1, t=4)], 3)

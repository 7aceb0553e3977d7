"""scheduler.blocking: dead letters, operations and the audit without an event loop."""

from __future__ import annotations

import pytest

from timewheel import OperationNotFound, Permanent, Rate, Scheduler

LONG_S = 60
WHO = {"actor": "ada", "reason": "the bank is back"}
REPLAY = {**WHO, "cause_fixed": True}


@pytest.fixture
def scheduler():
    scheduler = Scheduler("memory://")
    scheduler.down = True

    @scheduler.task(name="pay")
    def pay(number):
        if scheduler.down:
            raise Permanent("the bank refused")
        return number

    return scheduler


def test_dead_letters_come_back(scheduler):
    with scheduler.blocking as blocking:
        jobs = [blocking.now("pay", number).wait(LONG_S) for number in range(4)]
        letters = blocking.dead_letters(task="pay", page_size=3)
        assert [job.id for job in letters] == [job.id for job in reversed(jobs)]
        assert len(letters.page()) == 3
        assert letters.count() == 4
        assert [group.letters for group in letters.groups()] == [4]
        scheduler.down = False
        assert jobs[0].replay(**REPLAY, args=[9])
        assert jobs[0].result(LONG_S) == 9
        assert jobs[1].discard(**WHO)
        assert not jobs[1].discard(**WHO)
        dry = letters.replay(**REPLAY, dry_run=True)
        assert (dry.matched, dry.refresh().id) == (2, "")
        operation = letters.replay(**REPLAY, rate=Rate(1000), canary=2).wait(LONG_S)
        assert (operation.state, operation.done) == ("DONE", 2)
        assert blocking.operation(operation.id).stop(**WHO) == operation.refresh()
        assert letters.discard(**WHO).wait(LONG_S).done == 0
        assert [one.kind for one in blocking.operations()] == ["discard", "replay"]
        assert {entry.actor for entry in blocking.audit()} == {"ada"}
        assert len(list(blocking.audit())) == 6
        with pytest.raises(OperationNotFound):
            blocking.operation("nothing")

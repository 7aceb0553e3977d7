"""scheduler.blocking: the verbs for sync handlers, other threads, and applications without an event loop."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

from timewheel import (
    Breaker,
    CancelAnswer,
    Dependency,
    InvalidOption,
    JobCancelled,
    JobDead,
    JournalOwned,
    NotStarted,
    Permanent,
    Queue,
    RetryBudget,
    Scheduler,
    SchedulerFailed,
    WaitTimeout,
    WrongThread,
    current,
)
from timewheel.errors import JournalUnavailable
from timewheel.model import AttemptState, JobState

LONG_S = 60


def add(a, b=1):
    return a + b


async def hang():
    await asyncio.Event().wait()


def set_up(url="memory://"):
    scheduler = Scheduler(url)
    scheduler.task(name="add")(add)
    scheduler.task(name="hang")(hang)
    return scheduler


@pytest.fixture
def scheduler():
    return set_up()


# ---- without a loop --------------------------------------------------------------------------------------------------


def test_an_application_without_a_loop(scheduler):
    with scheduler.blocking as blocking:
        assert scheduler.state == "RUNNING"
        job = blocking.now("add", 1, b=2)
        assert (job.result(LONG_S), job.args, job.kwargs) == (3, (1,), {"b": 2})
        assert job.refresh().state is JobState.COMPLETED
        assert [attempt.state for attempt in job.attempts()] == [AttemptState.SUCCEEDED]
        assert blocking.get_job(job.id).result() == 3
        assert blocking.options(tags=["x"]).at(1_700_000_000, "add", 5).wait(LONG_S).tags == ("x",)
    assert scheduler.state == "STOPPED"
    with scheduler.blocking as blocking:  # and again
        assert blocking.now("add", 1).result(LONG_S) == 2


def test_every_verb_has_its_synchronous_twin(scheduler):
    with scheduler.blocking as blocking:
        far = blocking.after(timedelta(hours=1), "add", 1)
        assert far.reschedule(timedelta(hours=2))
        with pytest.raises(WaitTimeout) as waited:
            far.wait(timeout_s=0)
        assert waited.value.job.id == far.id
        assert far.cancel("no need") is CancelAnswer.CANCELLED
        with pytest.raises(JobCancelled, match="no need"):
            far.result()
        drafts = [blocking.new(timedelta(hours=1), "add", number) for number in range(4)]
        drafts.append(blocking.options(tags=["x"]).new(timedelta(hours=1), "add", 4))
        many = blocking.at_many(drafts)
        listed = blocking.jobs(state="SCHEDULED", page_size=2)
        assert {job.id for job in listed} == {job.id for job in many}
        assert (listed.count(), len(listed.page())) == (5, 2)
        assert blocking.jobs(tag="x").count() == 1
        blocking.queue("default").pause()
        paused = blocking.now("add", 1)
        with pytest.raises(WaitTimeout):
            paused.wait(0.05)
        blocking.queue("default").update(concurrency=3)
        blocking.queue("default").resume()
        assert paused.result(LONG_S) == 2


def test_queues_and_dependencies_from_any_thread():
    scheduler = Scheduler("memory://", dependencies={"stripe": Dependency(breaker=Breaker(open_s=0.5))})

    @scheduler.task(name="charge", dependency="stripe")
    def charge():
        return "charged"

    with scheduler.blocking as blocking:
        queue, budget = blocking.queue("q"), RetryBudget(share=0.5)
        queue.update(retry_budget=budget, actor="ada", reason="it storms")
        queue.pause(actor="ada", reason="stop")
        [state] = [one for one in blocking.queues() if one.name == queue.name]
        assert (state.paused, state.limits, queue.retries_waiting()) == (True, Queue(retry_budget=budget), 0)
        queue.resume(actor="ada")

        [stripe] = blocking.dependencies()
        stripe.force_open("maintenance", actor="ada")
        assert blocking.dependency("stripe").state().breaker == "FORCED_OPEN"
        held = blocking.now("charge")
        with pytest.raises(WaitTimeout):
            held.wait(0.05)
        stripe.force_closed()
        assert held.result(LONG_S) == "charged"
        stripe.auto("it is back", actor="ada")
        assert (stripe.name, stripe.state().breaker) == ("stripe", "CLOSED")
        assert [event.reason for event in stripe.history(2)] == ["it is back", "by hand"]
        told = [(one.action, one.queue or one.dependency, one.actor) for one in blocking.audit()]
        assert told == [
            ("auto", "stripe", "ada"),
            ("force_closed", "stripe", None),
            ("force_open", "stripe", "ada"),
            ("resume", "q", "ada"),
            ("pause", "q", "ada"),
            ("update", "q", "ada"),
        ]
        with pytest.raises(InvalidOption, match="actor"):
            stripe.force_open(actor="")
    with pytest.raises(NotStarted):
        stripe.state()


def test_errors_of_handlers_and_calls_come_through(scheduler):
    @scheduler.task(name="dies")
    def dies():
        raise Permanent("broken")

    with scheduler.blocking as blocking:
        with pytest.raises(JobDead, match="broken"):
            blocking.now("dies").result(LONG_S)
        with pytest.raises(TypeError, match="lambda"):
            blocking.now(lambda: None)
        with pytest.raises(LookupError):
            blocking.get_job("job-0000100000007")
        with pytest.raises(NotStarted, match="already"):
            blocking.start()


def test_a_start_that_is_refused_leaves_no_thread_and_may_be_tried_again(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    first, second = set_up(url), set_up(url)
    with first.blocking:
        with pytest.raises(JournalOwned), second.blocking:
            pass
        assert [each.name for each in threading.enumerate()].count("timewheel-loop") == 1
    with second.blocking as blocking:
        assert blocking.now("add", 1).result(LONG_S) == 2


def test_before_the_start_and_after_the_stop_the_verbs_say_so(scheduler):
    with pytest.raises(NotStarted, match=r"with scheduler\.blocking:"):
        scheduler.blocking.now("add", 1)
    with scheduler.blocking:
        pass
    for verb in (lambda: scheduler.blocking.now("add", 1), lambda: scheduler.blocking.jobs().count()):
        with pytest.raises(NotStarted):
            verb()


def test_a_fault_is_raised_at_the_end_of_the_with_block(tmp_path):
    told = threading.Event()
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db", on_failure=lambda cause: told.set())
    scheduler.task(name="add")(add)

    def application():
        with scheduler.blocking as blocking:
            (tmp_path / "jobs.db").unlink()
            assert told.wait(LONG_S)
            with pytest.raises(SchedulerFailed):
                blocking.now("add", 1)

    with pytest.raises(SchedulerFailed) as failed:
        application()
    assert isinstance(failed.value.cause, JournalUnavailable)


# ---- from handlers and other threads ---------------------------------------------------------------------------------


def test_a_sync_handler_schedules_waits_and_cancels(scheduler):
    @scheduler.task(name="parent")
    def parent():
        mine = current().scheduler.blocking
        child = mine.now("add", 20, b=22)
        sleeper = mine.after(3600, "add", 1)
        return [child.result(LONG_S), sleeper.cancel().value, str(mine.get_job(current().job_id).state)]

    with scheduler.blocking as blocking:
        assert blocking.now("parent").result(LONG_S) == [42, "cancelled", "ACTIVE"]


@pytest.mark.parametrize("through", ["blocking", "loop"])
def test_b76_a_stop_from_inside_a_handler_returns_at_once_and_the_rest_finishes(scheduler, through):
    stopped = threading.Event()
    others = threading.Event()

    if through == "blocking":

        @scheduler.task(name="stopper")
        def stopper():
            scheduler.blocking.stop(grace_s=LONG_S)
            stopped.set()
            others.set()
    else:

        @scheduler.task(name="stopper")
        async def stopper_on_loop():
            await scheduler.stop(grace_s=LONG_S)
            stopped.set()
            others.set()

    @scheduler.task(name="long")
    def long():
        assert others.wait(LONG_S)
        return "finished"

    with scheduler.blocking as blocking:
        beside = blocking.now("long")
        blocking.now("stopper")
        assert stopped.wait(LONG_S)
    assert scheduler.state == "STOPPED"
    store = scheduler._store
    assert asyncio.run(store.job(beside.number)).result == '"finished"'


async def test_on_the_schedulers_own_loop_it_would_wait_for_itself(scheduler):
    async with scheduler:
        for verb in (
            lambda: scheduler.blocking.now("add", 1),
            scheduler.blocking.jobs().count,
            scheduler.blocking.stop,
        ):
            with pytest.raises(WrongThread, match="on the scheduler's own event loop"):
                verb()


async def test_other_threads_and_loops_use_it_beside_the_scheduler(scheduler):
    def elsewhere():
        return [scheduler.blocking.now("add", number).result(LONG_S) for number in range(20)]

    async def another_loop():
        return scheduler.blocking.now("add", 1).result(LONG_S)

    async with scheduler:
        lists = await asyncio.gather(*(asyncio.to_thread(elsewhere) for _ in range(4)))
        assert lists == [list(range(1, 21))] * 4
        assert await asyncio.to_thread(asyncio.run, another_loop()) == 2


async def test_a_thread_that_waits_for_a_job_is_woken_by_the_stop(scheduler):
    waiting = threading.Event()
    answers = []

    def waits():
        job = scheduler.blocking.after(3600, "add", 1)
        waiting.set()
        try:
            answers.append(job.wait())
        except NotStarted as stopped:
            answers.append(stopped)

    async with scheduler:
        thread = asyncio.ensure_future(asyncio.to_thread(waits))
        await asyncio.to_thread(waiting.wait, LONG_S)
        while not scheduler._engine.waiters:
            await asyncio.sleep(0)
    await thread
    assert isinstance(answers[0], NotStarted)

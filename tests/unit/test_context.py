"""`current()`: in the handler, its tasks and its thread, and nowhere else."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest

from timewheel.errors import NotInJob, NotSerializable
from timewheel.model import MAX_TIME_US, job_text
from timewheel.work.context import (
    CURRENT,
    MAX_PROGRESS_BYTES,
    JobContext,
    current,
    enter,
    last_heartbeat_us,
    leave,
    listen,
    request_cancel,
)

NUMBER = 3 << 40 | 7
WHEN = datetime(2026, 3, 4, 5, 6, 7, 123457, tzinfo=UTC)
WHEN_US = (WHEN - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def made(attempt: int = 2) -> JobContext:
    return JobContext(NUMBER, attempt, WHEN_US, "scheduler")


def test_outside_a_job_there_is_none() -> None:
    with pytest.raises(NotInJob, match="copy_context"):
        current()


def test_enter_and_leave_nest() -> None:
    outer, inner = made(1), made(2)
    first = enter(outer)
    second = enter(inner)
    assert current() is inner
    leave(second)
    assert current() is outer
    leave(first)
    with pytest.raises(NotInJob):
        current()


def test_what_it_tells() -> None:
    context = made()
    assert context.job_id == job_text(NUMBER) == context.job_id
    assert context.attempt == 2
    assert context.scheduled_at == WHEN
    assert context.scheduled_at.utcoffset() == timedelta(0)
    assert context.scheduler == "scheduler"
    assert repr(context) == f"<JobContext {job_text(NUMBER)} attempt 2>"
    assert JobContext(1, 1, MAX_TIME_US).scheduled_at.year == 9999


def test_the_idempotency_key_is_the_same_for_every_attempt() -> None:
    assert made(1).idempotency_key == made(2).idempotency_key == job_text(NUMBER)
    assert made().idempotency_key != JobContext(NUMBER + 1, 1, 0).idempotency_key


def test_cancel_requested_is_live() -> None:
    context = made()
    assert context.cancel_requested is False
    request_cancel(context)
    assert context.cancel_requested is True


def test_the_log_carries_the_job(caplog: pytest.LogCaptureFixture) -> None:
    context = made()
    with caplog.at_level(logging.INFO, "timewheel.task"):
        context.log.info("sent %d", 3, extra={"mail": "x", "attempt": "mine"})
        context.log.info("plain")
    first, second = caplog.records
    assert (first.name, first.getMessage()) == ("timewheel.task", "sent 3")
    assert [vars(first)[name] for name in ("job_id", "attempt", "mail")] == [job_text(NUMBER), 2, "x"]
    assert (second.getMessage(), vars(second)["job_id"]) == ("plain", job_text(NUMBER))
    assert context.log is context.log


def test_nothing_is_computed_until_asked_for() -> None:
    context = made()
    assert (context._text, context._log) == (None, None)
    assert not hasattr(context, "__dict__")


async def test_it_follows_the_handler_into_its_tasks_and_stays_out_of_others() -> None:
    seen: list[JobContext] = []

    async def child() -> None:
        seen.append(current())

    async def handler(context: JobContext) -> None:
        enter(context)
        await asyncio.gather(child(), asyncio.to_thread(lambda: seen.append(current())))

    one, two = made(1), made(2)
    await asyncio.create_task(handler(one))
    await asyncio.create_task(handler(two))
    assert seen == [one, one, two, two]
    assert CURRENT.get(None) is None


def test_it_follows_a_copied_context_into_a_thread() -> None:
    context, seen = made(), []

    def work() -> None:
        enter(context)
        copied = contextvars.copy_context()
        thread = threading.Thread(target=lambda: seen.append(copied.run(current)))
        thread.start()
        thread.join()

    contextvars.copy_context().run(work)
    assert seen == [context]
    assert CURRENT.get(None) is None


def test_a_deadline_is_an_aware_datetime() -> None:
    assert made().deadline is None
    assert JobContext(NUMBER, 1, 0, deadline_us=WHEN_US).deadline == WHEN


def test_heartbeats_are_heard_once_somebody_listens() -> None:
    context, ticks = made(), iter([5, 7, 9])
    context.heartbeat()
    assert last_heartbeat_us(context) == 0
    listen(context, lambda: next(ticks))
    assert last_heartbeat_us(context) == 5
    context.heartbeat()
    assert last_heartbeat_us(context) == 7
    context.progress(1)
    assert last_heartbeat_us(context) == 9


def test_progress_keeps_the_last_value_as_text() -> None:
    context = made()
    assert context.last_progress is None
    context.progress({"done": 3, "of": 10, "what": ["é", None, 1.5, True]})
    assert context.last_progress == '{"done":3,"of":10,"what":["é",null,1.5,true]}'
    context.progress("half")
    assert context.last_progress == '"half"'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "progress(<object object"),
        ({1, 2}, "give a JSON value"),
        ({1: 2}, "give a JSON value"),
        ("\ud800", "give a JSON value"),
        (1 << 70, "give a JSON value"),
        ("x" * (MAX_PROGRESS_BYTES - 1), "4,097 bytes of JSON text; at most 4,096"),
    ],
    ids=["object", "set", "int key", "surrogate", "huge int", "long"],
)
def test_what_is_no_small_json_value_is_refused_and_the_last_stays(value: object, words: str) -> None:
    context = made()
    context.progress("x" * (MAX_PROGRESS_BYTES - 2))
    with pytest.raises(NotSerializable) as refused:
        context.progress(value)
    assert words in str(refused.value)
    assert context.last_progress is not None
    assert len(context.last_progress) == MAX_PROGRESS_BYTES

"""B68, B69: targets and arguments come back exactly, or are refused when they are scheduled; on every journal alike."""

from __future__ import annotations

import asyncio
import functools
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from helpers import STORES
from lives import Lives

from timewheel import InvalidTask, NotSerializable
from timewheel.model import JobState

BERLIN = ZoneInfo("Europe/Berlin")
EXACT = {
    "datetime": datetime(2026, 1, 5, 12, 30, 15, 123456, tzinfo=UTC),
    "datetime in a zone": datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    "datetime at an offset": datetime(2026, 1, 5, tzinfo=timezone(timedelta(hours=5, minutes=45))),
    "naive datetime": datetime(2026, 1, 5, 12),
    "date": date(2026, 1, 5),
    "time": time(23, 59, 59, 1),
    "timedelta": timedelta(days=-1, microseconds=7),
    "bytes": b"\x00\xff",
    "set": {1, "two", (3,)},
    "frozenset": frozenset({1}),
    "tuple": (1, (2, [3])),
    "decimal": Decimal("1.50"),
    "uuid": UUID(int=7),
    "whole number": 2**70,
    "negative": -(2**70),
    "float": 0.1 + 0.2,
    "minus zero": -0.0,
    "text": "naïve \u0000 𝄞",
    "looks like ours": {"$tw:tuple": [1]},
    "nested": {"a": [{"b": (None, True, [b"x", {Decimal("0.1")}])}]},
    "empty": [[], {}, "", b"", ()],
}
REFUSED = {
    "key that is no text": ({1: "a"}, "key"),
    "not a number": (math.nan, "nan"),
    "infinity": (math.inf, "inf"),
    "lone surrogate": ("\ud800", "surrogate"),
    "10 MB": ("x" * 10_000_000, "keep the data elsewhere"),
    "object": (object(), "object"),
    "function": (print, "builtin"),
    "open file": (open, "builtin"),
    "subclass": (type("MyInt", (int,), {})(3), "MyInt"),
    "too deep": (functools.reduce(lambda inner, _: [inner], range(200), 1), "deep"),
}


@pytest.fixture(params=sorted(STORES))
def lives(request):
    return Lives(store=STORES[request.param]())


def same(left, right):
    """Equal, of the same type, also inside; a fold and the sign of a zero count."""
    assert type(left) is type(right)
    assert repr(left) == repr(right) or isinstance(left, (set, frozenset))
    assert left == right


def test_b69_arguments_come_back_exactly(lives):
    got = {}

    async def keep(name, value, *, also):
        got[name] = (value, also)

    async def scene(scheduler):
        for name, value in EXACT.items():
            job = await scheduler.now("keep", name, value, also=value)
            same(job.args[1], value)
            same((await job.refresh()).kwargs["also"], value)
            await job.result(60)

    lives.live(scene, {"keep": keep})
    assert got.keys() == EXACT.keys()
    for name, value in EXACT.items():
        same(got[name][0], value)
        same(got[name][1], value)


def test_b69_results_come_back_exactly(lives):
    async def echo(name):
        return EXACT[name]

    async def scene(scheduler):
        for name, value in EXACT.items():
            same(await (await scheduler.now("echo", name)).result(60), value)

    lives.live(scene, {"echo": echo})


@pytest.mark.parametrize("name", REFUSED)
def test_b69_what_would_not_come_back_is_refused_when_scheduled(lives, name):
    value, word = REFUSED[name]

    async def keep(value):
        pass

    async def scene(scheduler):
        calls = {
            r"args\[0\]": lambda: scheduler.now("keep", value),
            r"kwargs\.value": lambda: scheduler.at(lives.machine.now(), "keep", value=value),
        }
        for place, call in calls.items():
            with pytest.raises(NotSerializable, match=place) as refused:
                await call()
            assert word in str(refused.value)
            assert len(str(refused.value)) < 500
        with pytest.raises(NotSerializable):
            scheduler.new(lives.machine.now(), "keep", value)
        assert await scheduler.jobs().count() == 0

    lives.live(scene, {"keep": keep})


def test_b69_a_list_that_is_changed_afterwards_does_not_change_the_job(lives):
    got = []

    async def keep(numbers):
        got.append(list(numbers))
        numbers.append("by the handler")
        if len(got) == 1:
            raise ValueError

    async def scene(scheduler):
        numbers = [1, [2]]
        job = await scheduler.after(1, "keep", numbers)
        draft = scheduler.new(timedelta(seconds=2), "keep", numbers)
        numbers[1].append(3)
        numbers.append(4)
        job.args[0].append("by a reader")
        await scheduler.at_many([draft])
        await asyncio.sleep(60)  # virtual

    lives.live(scene, {"keep": keep})
    assert got == [[1, [2]]] * 3


# ---- B68: targets ----------------------------------------------------------------------------------------------------


class Mailer:
    def send(self, number=0):
        return number

    @classmethod
    async def build(cls):
        return cls.__name__

    @staticmethod
    def static():
        return "static"

    async def __call__(self):
        return "called"


def plain(number=1):
    return number


def decorated(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        return fn(*args)

    return wrapper


def nested():
    secret = object()

    def inner():
        return secret

    return inner


unnamed = lambda: None  # noqa: E731  a lambda under a name is a lambda all the same
mailer = Mailer()

TARGETS_REFUSED = {
    "lambda": (lambda: None, "lambda.*write a def at module level"),
    "lambda under a name": (unnamed, "lambda.*write a def at module level"),
    "nested function": (nested(), r"nested.<locals>.inner.*move it to module level"),
    "bound method": (mailer.send, "Mailer.send.*finds the object by its id"),
    "object with a call": (mailer, "Mailer object.*register it with @scheduler.task"),
    "partial of a lambda": (functools.partial(lambda x: x, 1), "lambda"),
    "partial of a bound method": (functools.partial(mailer.send, 1), "Mailer.send"),
    "class": (Mailer, "it is a class"),
    "shadowed": (decorated(plain), "plain.*gives another object"),
    "called already": (Mailer.build(), "called already.*not at\\(when, fn\\(arg\\)\\)"),
    "result": (7, "no callable but a int"),
    "generator": ((lambda: (yield)), "generator.*never run"),
    "name": ("plain", "no task is registered as 'plain'"),
    "built-in class": (dict, "it is a class"),
}


@pytest.mark.parametrize("name", TARGETS_REFUSED)
@pytest.mark.filterwarnings("ignore:coroutine 'Mailer.build' was never awaited:RuntimeWarning")
def test_b68_what_no_fresh_process_could_find_is_refused_with_the_fix(name):
    target, words = TARGETS_REFUSED[name]

    async def scene(scheduler):
        with pytest.raises(InvalidTask, match=f"(?s){words}"):
            await scheduler.after(1, target)
        with pytest.raises(InvalidTask):
            scheduler.new(timedelta(1), target)
        assert await scheduler.jobs().count() == 0

    Lives().live(scene)


@pytest.mark.parametrize(
    ("target", "result"),
    [
        (plain, 1),
        (functools.partial(plain, 5), 5),
        (functools.partial(functools.partial(plain), number=6), 6),
        (Mailer.build, "Mailer"),
        (Mailer.static, "static"),
    ],
    ids=["function", "partial", "partial of a partial", "class method", "static method"],
)
def test_b68_what_is_accepted_unregistered_is_found_by_name_after_a_crash(lives, target, result):
    job_id = lives.die(_schedule(target))

    async def later(scheduler):  # this scheduler was never given the function
        assert await (await scheduler.get_job(job_id)).result(60) == result

    lives.live(later)


def _schedule(target, delay_s=1):
    async def scene(scheduler):
        return (await scheduler.after(delay_s, target)).id

    return scene


@pytest.mark.parametrize("name", ["nested function", "bound method", "object with a call", "lambda"])
def test_b68_whatever_is_registered_is_accepted_wherever_it_is_defined(name):
    lives = Lives()
    target, _ = TARGETS_REFUSED[name]
    job_id = lives.die(_schedule(target), {"mine": target})

    async def later(scheduler):
        job = await (await scheduler.get_job(job_id)).wait(60)
        assert (job.task, job.state) == ("mine", JobState.COMPLETED)

    lives.live(later, {"mine": target})


def test_a_wrapper_above_a_task_is_refused_and_a_partial_of_one_is_unfolded():
    lives = Lives()
    scheduler = lives.scheduler()

    @scheduler.task(name="inner")
    def inner(a, b):
        return [a, b]

    async def main():
        async with scheduler:
            with pytest.raises(InvalidTask, match=r"put @scheduler\.task outermost"):
                await scheduler.now(decorated(inner), 1, 2)
            job = await scheduler.now(functools.partial(inner, 1), b=2)
            assert (job.args, job.kwargs, await job.result(60)) == ((1,), {"b": 2}, [1, 2])

    lives.machine.run(main())


def test_wrappers_and_callables_that_give_awaitables_run_on_the_loop():
    lives = Lives()
    loops = []

    async def real(number=3):
        loops.append(asyncio.current_task().get_name())
        return number

    def unmarked():
        return real(4)  # found out when it comes back

    tasks = {"wrapped": decorated(real), "called": mailer, "partial": functools.partial(real, 5), "unmarked": unmarked}

    async def scene(scheduler):
        results = [await (await scheduler.now(name)).result(60) for name in tasks]
        assert results == [3, "called", 5, 4]

    lives.live(scene, tasks)
    assert loops[:2] == ["wrapped", "partial"]


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2, 3, 4), {}, "too many positional arguments"),
        ((1,), {"queue": "mail"}, r"queue is an option: write scheduler\.options\(queue=\.\.\.\)"),
        ((1,), {"c": 3}, "unexpected keyword argument 'c'"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
    ],
)
def test_calls_that_would_fail_before_the_first_line_are_refused(args, kwargs, words):
    async def handler(a, b=2):
        pass

    async def scene(scheduler):
        with pytest.raises(InvalidTask, match=words) as refused:
            await scheduler.now("handler", *args, **kwargs)
        assert "handler(a, b=2)" in str(refused.value)

    Lives().live(scene, {"handler": handler})

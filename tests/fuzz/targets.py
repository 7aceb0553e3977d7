"""What the parsers must hold, as functions of bytes: a fuzzer of any kind draws the bytes.

Each returns when its law held, and raises otherwise. Raising one of the documented errors is part of the law, any other
exception is not. `SEEDS` are inputs that reach deep.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson

from tests.fuzz import recurrences, schedule_files
from tests.fuzz.rows import COLUMNS, rows
from timewheel.cli.parsing import count, port, positive, seconds
from timewheel.codec import MAX_CALL_BYTES, dumps_call, dumps_result, loads_call, loads_result
from timewheel.errors import InvalidOption, InvalidTime, NotSerializable
from timewheel.lists import number_token, read_number_token
from timewheel.model import MAX_TIME_US
from timewheel.options import one_shot_options, task_options
from timewheel.policies import Rate, Retry
from timewheel.serve.strict import NotJson
from timewheel.serve.strict import loads as strict_loads
from timewheel.times import delay_us, parse_rfc3339, rfc3339, utc_datetime, when_us


class Choices:
    """Bytes as a source of choices; when they are used up every choice is the first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def raw(self, count: int) -> bytes:
        """The next bytes, fewer at the end."""
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def below(self, limit: int) -> int:
        """A number from 0 on, below a limit of at most 256."""
        taken = self.raw(1)
        return taken[0] % limit if taken else 0

    def integer(self) -> int:
        """An int of up to 80 bits, of either sign, small ones often."""
        return int.from_bytes(self.raw(self.below(11)), "big", signed=True)

    def text(self, most: int = 24) -> str:
        """Some text, lone surrogates and NUL among it."""
        return self.raw(self.below(most)).decode("utf-8", ("replace", "surrogateescape", "ignore")[self.below(3)])

    def real(self) -> float:
        """A float, also one that is none."""
        digits = self.raw(8).ljust(8, b"\0")
        return float(memoryview(digits).cast("d")[0])


# ---- times ---------------------------------------------------------------------------------------------------------


def times(data: bytes) -> None:
    """Text of times, instants and delays of every type: an exact number of microseconds in range, or InvalidTime."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(InvalidTime):
        instant = parse_rfc3339(text)
        assert 0 <= instant <= MAX_TIME_US
        assert parse_rfc3339(rfc3339(instant)) == instant
        assert when_us(utc_datetime(instant)) == instant
    choices = Choices(data)
    number: Any = (choices.integer, choices.real)[choices.below(2)]()
    for read, value in (
        (when_us, number),
        (delay_us, number),
        (when_us, _datetime(choices)),
        (delay_us, _timedelta(choices)),
        (delay_us, text),
        (when_us, text),
    ):
        with suppress(InvalidTime):
            us = read(value)
            assert type(us) is int
            assert 0 <= us <= MAX_TIME_US
            if isinstance(value, (int, float)):
                assert math.isclose(us, value * 1e6, abs_tol=1)


def _datetime(choices: Choices) -> datetime | None:
    with suppress(ValueError, OverflowError):
        moment = datetime(1 + choices.integer() % 9999, 1, 1) + timedelta(seconds=choices.integer() % 10**8)
        return moment.replace(tzinfo=_zone(choices), fold=choices.below(2))
    return None


def _zone(choices: Choices) -> Any:
    minutes = choices.integer() % 2879 - 1439
    zones = [UTC, None, timezone(timedelta(minutes=minutes)), ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia")]
    return zones[choices.below(len(zones))]


def _timedelta(choices: Choices) -> timedelta:
    with suppress(OverflowError):
        return timedelta(choices.integer(), choices.integer(), choices.integer())
    return timedelta.max


# ---- options -------------------------------------------------------------------------------------------------------


def options(data: bytes) -> None:
    """Options, policies, words of the command line and page tokens: taken in range, or refused by the one error."""
    choices = Choices(data)
    names = ["queue", "priority", "retry", "timeout_s", "tags", "idempotency_key", "misfire_grace_s", "retr", ""]
    given = {names[choices.below(len(names))]: value(choices, 2) for _ in range(choices.below(4))}
    for judge in (one_shot_options, task_options):
        with suppress(InvalidOption):
            judge(given)
    number: Any = (choices.integer, choices.real, lambda: 10 ** choices.below(256) * 10 ** choices.below(256))
    draw = number[choices.below(3)]
    with suppress(InvalidOption):
        retry = Retry(*(draw() for _ in range(choices.below(7))))
        policy = retry.policy()
        assert 0 <= policy.base_us <= policy.cap_us <= MAX_TIME_US
    with suppress(InvalidOption):
        Rate(*(draw() for _ in range(1 + choices.below(3))))
    text = choices.text()
    for read, most in ((port, 65_535), (positive, 1_000_000), (count, 10**9), (seconds, 86_400)):
        with suppress(argparse.ArgumentTypeError):
            assert 0 <= read(text) <= most
    with suppress(InvalidOption):
        before = read_number_token(text)
        assert read_number_token(number_token(before)) == before


# ---- codec ---------------------------------------------------------------------------------------------------------


def stored(data: bytes) -> None:
    """Stored arguments and results, maybe damaged: a value that is stored the same way again, or NotSerializable."""
    text = data.decode("utf-8", "surrogateescape")
    with suppress(NotSerializable):
        args, kwargs = loads_call(text)
        assert type(args) is list
        assert type(kwargs) is dict
        with suppress(NotSerializable):  # what a newer or a broken version wrote need not be writable here
            again = dumps_call(tuple(args), kwargs)
            same(loads_call(again), (args, kwargs))
    with suppress(NotSerializable):
        result = loads_result(text)
        kept, omitted = dumps_result(result)
        assert (kept is None) != (omitted is None)
        if kept is not None:
            same(loads_result(kept), result)


def values(data: bytes) -> None:
    """Arguments and results of every type: they come back exactly, or are refused; a result never raises."""
    choices = Choices(data)
    args = tuple(value(choices, 4) for _ in range(choices.below(4)))
    kwargs = {choices.text(): value(choices, 4) for _ in range(choices.below(3))}
    with suppress(NotSerializable):
        kept = dumps_call(args, kwargs)
        assert len(kept.encode()) <= MAX_CALL_BYTES
        orjson.loads(kept)
        same(loads_call(kept), ([*args], kwargs))
    for one in args:
        kept_result, omitted = dumps_result(one)
        assert (kept_result is None) != (omitted is None)
        if kept_result is not None:
            same(loads_result(kept_result), one)


def value(choices: Choices, depth: int) -> Any:
    """A value of some type, supported or not."""
    makers: list[Callable[[], Any]] = [
        lambda: None,
        choices.integer,
        choices.real,
        choices.text,
        lambda: bool(choices.below(2)),
        lambda: choices.raw(choices.below(20)),
        lambda: _datetime(choices),
        lambda: _timedelta(choices),
        lambda: date.fromordinal(1 + choices.integer() % date.max.toordinal()),
        lambda: time(choices.below(24), choices.below(60), fold=choices.below(2), tzinfo=_zone(choices)),
        lambda: UUID(bytes=choices.raw(16).ljust(16, b"\0")),
        lambda: _decimal(choices),
        lambda: {"$tw:" + choices.text(8): value(choices, depth - 1)},
        lambda: [10**400, 1j, object(), bytearray(b"x"), range(3)][choices.below(5)],
    ]
    if depth > 0:
        makers += [
            lambda: [value(choices, depth - 1) for _ in range(choices.below(4))],
            lambda: tuple(value(choices, depth - 1) for _ in range(choices.below(4))),
            lambda: {choices.text(8): value(choices, depth - 1) for _ in range(choices.below(4))},
            lambda: {choices.integer(): value(choices, depth - 1)},
            lambda: _set(choices, depth),
        ]
    return makers[choices.below(len(makers))]()


def _decimal(choices: Choices) -> Decimal:
    with suppress(InvalidOperation, ValueError):
        return Decimal(choices.raw(choices.below(12)).decode("ascii", "ignore"))
    return Decimal(choices.integer()).scaleb(choices.below(200))


def _set(choices: Choices, depth: int) -> Any:
    members = [value(choices, 0) for _ in range(choices.below(4))]
    with suppress(TypeError):  # one that has no hash
        return (set, frozenset)[choices.below(2)](members)
    return members


def same(left: Any, right: Any) -> None:
    """Equal, of the same type, and looking alike: -0.0, 1.10, folds and zones."""
    assert type(left) is type(right), f"{left!r} is not of the type of {right!r}"
    if isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    elif isinstance(left, dict):
        assert [*left] == [*right]
        for key in left:
            same(left[key], right[key])
    elif isinstance(left, (set, frozenset)):
        assert left == right
        assert sorted(map(repr, left)) == sorted(map(repr, right))
    else:
        assert left == right, f"{left!r} came back as {right!r}"
        assert repr(left) == repr(right)


# ---- bodies --------------------------------------------------------------------------------------------------------


def bodies(data: bytes) -> None:
    """Bytes of a request: NotJson, or what Python's own reader reads, in a form that can be answered with."""
    with suppress(NotJson):
        stack = [strict_loads(data)]
        assert stack[0] == json.loads(data)
        json.dumps(stack[0], allow_nan=False).encode()
        _encodable(stack)


def _encodable(stack: list[Any]) -> None:
    while stack:
        one = stack.pop()
        if isinstance(one, str):
            one.encode()
        stack += one if isinstance(one, list) else [*one, *one.values()] if isinstance(one, dict) else []


TARGETS: dict[str, Callable[[bytes], None]] = {
    "times": times,
    "options": options,
    "stored": stored,
    "values": values,
    "bodies": bodies,
    "rows": rows,
    "recurrences": recurrences.recurrences,
    "schedule_files": schedule_files.schedule_files,
}
_STORED = [
    b"[]",
    b'[1,-2.5,true,null,"x"]',
    b'{"args":[1],"kwargs":{"a":{"$tw:tuple":[1,{"$tw:set":[2]}]}}}',
    b'[{"$tw:datetime":["2026-01-05T00:00:00",0,"Europe/Berlin"]},{"$tw:time":["01:02:03",1,[3600000000,null]]}]',
    b'[{"$tw:decimal":"1.50"},{"$tw:uuid":"00000000-0000-0000-0000-000000000001"},{"$tw:date":"2026-01-05"}]',
    b'[{"$tw:timedelta":[1,2,3]},{"$tw:int":"0x10000000000000000"},{"$tw:bytes":"AAEC"},{"$tw:dict":{"$tw:x":1}}]',
    b'[{"$tw:frozenset":[[1]]},{"$tw:decimal":"sNaN"},{"$tw:datetime":["2026-01-05T00:00:00",0,[1,"x"]]}]',
]
SEEDS: dict[str, list[bytes]] = {
    "recurrences": recurrences.SEEDS,
    "schedule_files": schedule_files.SEEDS,
    "times": [
        b"2026-01-05T00:00:00Z",
        b"2026-01-05t01:00:00.123456789+01:00",
        b"9999-12-31T23:59:59.9999999Z",
        b"1969-12-31T23:59:60Z",
        b"2026-01-05 00:00:00",
        b"\xff\xf0\0\0\0\0\0\0" * 3,
    ],
    "options": [bytes(range(64)), bytes(reversed(range(256))), b"\x01\x02MTIz" * 6, b"86400.5", b"1_0"],
    "stored": _STORED,
    "values": [bytes(range(256)), bytes(range(0, 256, 3)) * 3, b"\x03\x06\x11\x02\x0c" * 40],
    "bodies": [
        b'{"task":"echo","args":[1,2.5,"\\ud83d\\ude00"],"kwargs":{}}',
        b'["\\ud800"]',
        b"[1e999]",
        b"[NaN,-Infinity]",
        b"[" * 200 + b"]" * 200,
        b"\xef\xbb\xbf[]",
    ],
    "rows": [bytes([column, how]) + b'["x"]' for column in range(len(COLUMNS)) for how in (4, 5, 6, 8)],
}

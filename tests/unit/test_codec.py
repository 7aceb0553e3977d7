"""Arguments come back exactly or are refused by name; results and errors become text whatever they are."""

from __future__ import annotations

import collections
import dataclasses
import enum
import math
import subprocess
import sys
import time as clock
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from importlib.resources import files
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from timewheel import codec
from timewheel.codec import (
    MAX_CALL_BYTES,
    MAX_RESULT_BYTES,
    dumps_call,
    dumps_result,
    error_text,
    loads_call,
    loads_result,
)
from timewheel.errors import NotSerializable

BERLIN = ZoneInfo("Europe/Berlin")


def nested(depth, wrap=lambda inner: [inner], core=0):
    for _ in range(depth):
        core = wrap(core)
    return core


def same(left, right):
    """Equal and of the same types, all the way down; -0.0 is not 0.0, and a fold is not the other one."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(map(same, left.values(), right.values()))
    if isinstance(left, (set, frozenset)):
        return left == right and sorted(map(repr, left)) == sorted(map(repr, right))
    if isinstance(left, float):
        return math.copysign(1, left) == math.copysign(1, right) and left == right
    if isinstance(left, (datetime, time)):
        zones = repr(left.tzinfo) == repr(right.tzinfo)
        return left == right and left.fold == right.fold and zones and left.utcoffset() == right.utcoffset()
    return left == right and str(left) == str(right)


VALUES = [
    None, True, False, 0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 2**70, -(2**70),
    0.0, -0.0, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1.0, 1e16,
    "", "text", "nul \0 and \x7f", 'quo"te \\', "\u2028 é 😀", '{"$tw:tuple": [1]}', "$tw:tuple",
    b"", b"\0\xff", (), (1, (2, [3])), [], [1, [2.5, None]], {}, {"a": {"b": [1]}}, {"": 1}, {"a b": (1,)},
    set(), {1, "a", (2, 3)}, frozenset(), frozenset({1.5, None, True}), {frozenset({frozenset()})},
    {"$tw:tuple": [1]}, {"$tw:dict": {"$tw:dict": 1}}, {"$tw:unknown": 1}, {"$tw:tuple": 1, "b": 2},
    {"a": {"$tw:": (1,)}},
    Decimal("1.10"), Decimal("-0"), Decimal("1E+400"), Decimal("Infinity"), Decimal("-Infinity"), Decimal(10) ** 40 / 3,
    UUID("12345678-1234-5678-1234-567812345678"),
    date.min, date(2026, 1, 5), date.max, timedelta.min, timedelta.max, timedelta(days=-1, microseconds=1),
    time(1, 2, 3, 4), time(1, 2, fold=1), time(1, 2, tzinfo=UTC), time(1, 2, tzinfo=BERLIN),
    datetime.min, datetime.max, datetime(2026, 1, 5, 12), datetime(2026, 1, 5, 12, fold=1),
    datetime(2026, 1, 5, 12, 0, 0, 1, UTC), datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC),
    datetime(2026, 1, 5, tzinfo=timezone(timedelta(hours=-5, minutes=-30, microseconds=1))),
    datetime(2026, 1, 5, tzinfo=timezone(timedelta(hours=1), "CET")),
    datetime(2026, 1, 5, tzinfo=timezone(timedelta(0), "Z")),
    datetime(2026, 1, 5, tzinfo=ZoneInfo("UTC")), datetime(2026, 7, 5, tzinfo=BERLIN),
    datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN), datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
    datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN), datetime(2026, 3, 29, 2, 30, tzinfo=BERLIN, fold=1),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_supported_value_comes_back_exactly(value):
    for args, kwargs in [
        ((value,), {}),
        ((), {"value": value}),
        ((1, value), {"x": [value], "y": (value,)}),
        (([value, {"k": value}],), {}),
        (({"k": [(value,)]},), {"$tw:tuple": value}),
    ]:
        text = dumps_call(args, kwargs)
        back_args, back_kwargs = loads_call(text)
        assert same(list(args), list(back_args)), text
        assert same(kwargs, back_kwargs), text
    assert same(value, loads_result(dumps_result(value)[0]))


def test_a_call_without_arguments():
    assert loads_call(dumps_call((), {})) == ([], {})


def test_common_calls_are_plain_json():
    assert dumps_call((42, "a"), {}) == '[42,"a"]'
    assert dumps_call((42,), {"b": None}) == '{"args":[42],"kwargs":{"b":null}}'
    assert dumps_call(([1], {"k": 2.5}), {}) == '[[1],{"k":2.5}]'


def test_what_is_stored_does_not_change_with_the_argument_and_each_load_is_fresh():
    value = [1, 2]
    text = dumps_call((value,), {})
    value.append(3)
    first, _ = loads_call(text)
    first[0].append(9)
    loads_call(text)[1]["x"] = 1
    assert loads_call(text) == ([[1, 2]], {})


def test_equal_sets_give_equal_text_in_every_process():
    program = "from timewheel.codec import dumps_call; print(dumps_call(({*'abcdefgh', 1, (2, 'x')},), {}))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Order:
    id: int


class Text(str):
    __slots__ = ()


class Moment(datetime):
    pass


class Odd(tzinfo):
    def utcoffset(self, _):
        return timedelta(hours=1)


class Silent:
    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


def subclass(base, *args):
    return type(f"My{base.__name__}", (base,), {})(*args)


@pytest.mark.parametrize(
    ("value", "kind", "fix"),
    [
        (math.nan, "float", "pass None or a str"),
        (math.inf, "float", "inf has no JSON form"),
        (-math.inf, "float", "-inf has no JSON form"),
        ("a\ud800", "str", "lone surrogate"),
        ({"\udfff": 1}, "str", "lone surrogate"),
        ({1: "a"}, "int", "make the key a str, or pass a list of pairs"),
        ({None: 1}, "NoneType", "make the key a str"),
        ({Text("k"): 1}, "test_codec.Text", "make the key a str"),
        (Color.RED, "test_codec.Color", "pass its .value or .name"),
        (Level.LOW, "test_codec.Level", "pass its .value or .name"),
        (Word.A, "test_codec.Word", "pass its .value or .name"),
        (Point(1, 2), "test_codec.Point", "pass tuple(...) of it"),
        (Order(1), "test_codec.Order", "pass an id by which the handler finds it, or plain data"),
        (Text("a"), "test_codec.Text", "pass str(...) of it"),
        (Moment(2026, 1, 5), "test_codec.Moment", "pass a plain datetime"),
        (subclass(int, 1), "test_codec.Myint", "pass int(...) of it"),
        (subclass(float, 1), "test_codec.Myfloat", "pass float(...) of it"),
        (subclass(list), "test_codec.Mylist", "pass list(...) of it"),
        (subclass(dict), "test_codec.Mydict", "pass dict(...) of it"),
        (subclass(set), "test_codec.Myset", "pass set(...) of it"),
        (subclass(bytes), "test_codec.Mybytes", "pass bytes(...) of it"),
        (collections.OrderedDict(), "collections.OrderedDict", "pass dict(...) of it"),
        (Decimal("NaN"), "decimal.Decimal", "not even itself"),
        (Decimal("sNaN"), "decimal.Decimal", "not even itself"),
        (datetime(2026, 1, 5, tzinfo=Odd()), "datetime.datetime", "use timezone.utc, ZoneInfo(key)"),
        (time(1, tzinfo=Odd()), "datetime.time", "use timezone.utc, ZoneInfo(key)"),
        (BERLIN, "zoneinfo.ZoneInfo", "pass its key"),
        (UTC, "datetime.timezone", "pass its key"),
        (bytearray(b"a"), "bytearray", "plain data"),
        (memoryview(b"a"), "memoryview", "plain data"),
        (1j, "complex", "plain data"),
        (range(3), "range", "plain data"),
        (Silent(), "test_codec.Silent", "plain data"),
        (object, "type", "plain data"),
        (len, "builtin_function_or_method", "plain data"),
        (..., "ellipsis", "plain data"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else type(value).__name__,
)
def test_what_would_not_come_back_is_refused_by_name(value, kind, fix):
    calls = [((0, value), {}, "args[1]"), ((), {"to": value}, "kwargs.to")]
    calls.append((({"a": 1, "x": [0, 0, 0, value]},), {}, "args[0].x[3]"))
    calls.append((({"no name": (value,)},), {}, "args[0]['no name'][0]"))
    for args, kwargs, path in calls:
        with pytest.raises(NotSerializable) as caught:
            dumps_call(args, kwargs)
        text = str(caught.value)
        assert isinstance(caught.value, TypeError)
        assert text.startswith(path)
        assert f" is of type {kind} " in text
        assert fix in text
        assert text.isascii() or "…" in text
    kept, reason = dumps_result([value])
    assert kept is None
    assert kind in reason


def test_a_zone_that_was_made_in_another_way_passes_only_where_it_is_exact():
    other = ZoneInfo.no_cache("Europe/Berlin")
    [back], _ = loads_call(dumps_call((datetime(2026, 7, 5, tzinfo=other),), {}))
    assert back == datetime(2026, 7, 5, tzinfo=other)
    with pytest.raises(NotSerializable, match="could not be made again"):  # in a fold such datetimes equal nothing
        dumps_call((datetime(2026, 10, 25, 2, 30, tzinfo=other),), {})
    with files("tzdata.zoneinfo").joinpath("Europe/Berlin").open("rb") as data:
        keyless = ZoneInfo.from_file(data)
    with pytest.raises(NotSerializable, match="could not be made again"):
        dumps_call((datetime(2026, 7, 5, tzinfo=keyless),), {})


def test_a_refused_element_of_a_set_and_a_key():
    with pytest.raises(NotSerializable, match=r"^args\[0\]\{element\}\[1\] is of type complex"):
        dumps_call(({(1, 2j)},), {})
    with pytest.raises(NotSerializable, match=r"^args\[0\]\[1\] is of type int .* as a dict key"):
        dumps_call(({1: "a"},), {})


@pytest.mark.parametrize(
    "wrap",
    [lambda inner: [inner], lambda inner: (inner,), lambda inner: {"$tw:x": inner}, lambda inner: frozenset({inner})],
    ids=["list", "tuple", "escaped dict", "frozenset"],
)
def test_a_hundred_levels_pass_and_one_more_is_refused(wrap):
    deep = nested(100, wrap)
    for args, kwargs in [((deep,), {}), ((), {"x": deep})]:
        back, back_kwargs = loads_call(dumps_call(args, kwargs))
        assert (*back, *back_kwargs.values()) == (deep,)
    with pytest.raises(NotSerializable, match="nested deeper than 100 levels or contains itself; flatten it"):
        dumps_call((wrap(deep),), {})


def test_a_value_that_contains_itself_is_refused_briefly():
    loop: list = []
    loop.append({"again": loop})
    with pytest.raises(NotSerializable) as caught:
        dumps_call((loop,), {})
    assert "contains itself" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_size_limit_is_exact_and_counts_bytes():
    fits = "x" * (MAX_CALL_BYTES - 4)
    assert len(dumps_call((fits,), {})) == MAX_CALL_BYTES
    tight = {"": ["", {"": 0}], "é": 1}
    size = len(dumps_result(tight)[0].encode())
    assert dumps_result(tight, size)[1] is None
    assert "is kept" in dumps_result(tight, size - 1)[1]
    for args, name in [((fits + "x",), "args[0]"), ((1, "é" * (MAX_CALL_BYTES // 2)), "args[1]")]:
        with pytest.raises(NotSerializable) as caught:
            dumps_call(args, {})
        assert str(caught.value).startswith(name)
        assert "keep the data elsewhere and pass the key or path" in str(caught.value)
    with pytest.raises(NotSerializable, match=r"^kwargs\.big is of type list and takes .* a call may take 1,048,576"):
        dumps_call((1,), {"big": [7] * 600_000, "small": "x"})


def test_a_bomb_of_shared_references_is_refused_before_it_goes_off():
    bomb = nested(60, lambda inner: [inner, inner])
    flat = nested(60, lambda inner: {"a": inner, "b": inner})
    before = clock.process_time()
    for value in (bomb, flat, [["x" * 1_000_000] * 100] * 100):
        with pytest.raises(NotSerializable, match="too large"):
            dumps_call((value,), {})
        assert dumps_result(value)[0] is None
    assert clock.process_time() - before < 30


def test_the_quick_look_leaves_large_parts_to_the_careful_way(monkeypatch):
    monkeypatch.setattr(codec, "_dumps_carefully", lambda *_: "careful")
    for value in (["x" * 70_000], [{"x" * 70_000: 1}], [0] * 70_000, nested(70)):
        assert dumps_call((value,), {}) == "careful"
    for value in ("x" * 200_000, ["x" * 60_000], [0] * 60_000, nested(60)):
        assert dumps_call((value,), {}) != "careful"


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "7", "null", '{"args":[1]}', '{"kwargs":{}}', '[{"$tw:later":1}]', '[{"$tw:uuid":"x"}]',
        '[{"$tw:datetime":["2026-01-05T00:00:00",0,"No/Zone"]}]', '[{"$tw:datetime":7}]', '[{"$tw:decimal":"x"}]',
        '[{"$tw:bytes":"!"}]', "[" * 2000, '[{"$tw:set":[[1]]}]', '[{"$tw:int":"zz"}]', '[{"$tw:dict":[1]}]',
        '{"args":7,"kwargs":{}}', '{"args":[],"kwargs":[{"$tw:a":1}]}',
    ],
)  # fmt: skip
def test_text_that_does_not_load_is_one_kind_of_error(text):
    with pytest.raises(NotSerializable, match="stored arguments do not load: ") as caught:
        loads_call(text)
    assert caught.value.__cause__ is not None
    assert len(str(caught.value)) < 300


def test_a_result_that_does_not_load_is_the_same_kind_of_error():
    for text in ("", '{"$tw:later":1}'):
        with pytest.raises(NotSerializable, match="the stored result does not load"):
            loads_result(text)


# Results


def test_results_that_cannot_be_kept_say_type_and_reason(tmp_path):
    loop: list = []
    loop.append(loop)
    with open(tmp_path / "f", "w") as opened:
        for value, kind in [
            (opened, "_io.TextIOWrapper"),
            ((n for n in "a"), "generator"),
            (Silent(), "test_codec.Silent"),
        ]:
            text, reason = dumps_result(value)
            assert text is None
            assert reason.startswith(f"{kind}: it has no JSON form")
    assert dumps_result(loop)[0] is None
    assert "contains itself" in dumps_result(loop)[1]
    text, reason = dumps_result({"a": [object()]})
    assert text is None
    assert reason == "dict: result.a[0] (object): it has no JSON form that comes back equal"
    assert dumps_result("\ud800") == (None, "str: it has a lone surrogate, which UTF-8 lacks")


def test_the_size_of_a_result_is_limited_exactly():
    assert dumps_result("x" * (MAX_RESULT_BYTES - 2))[1] is None
    for value in ("x" * (MAX_RESULT_BYTES - 1), "x" * 50_000_000, [0] * 50_000_000, "é" * 40_000, [1] * 40_000):
        text, reason = dumps_result(value)
        assert text is None
        assert len(reason) < 200
    assert "bytes of JSON text; at most 64 KiB is kept" in dumps_result([1] * 40_000)[1]
    assert dumps_result("x" * 70_000)[1].endswith(
        "it takes 70,002 bytes or more and makes the JSON text too large (at most 64 KiB is kept)"
    )
    assert dumps_result("xxxx", limit_bytes=5) == (
        None,
        "str: it takes 6 bytes or more and makes the JSON text too large (at most 5 bytes is kept)",
    )
    assert dumps_result("é" * 3, limit_bytes=6)[0] is None


def test_a_result_whose_type_has_no_name_does_not_raise():
    class Liar(type):
        def __getattribute__(cls, name):
            raise SystemExit("no name either")

    class Nameless(metaclass=Liar):
        pass

    assert dumps_result(Nameless()) == (None, "unnamed type: it has no JSON form that comes back equal")


def test_a_result_that_breaks_inside_is_left_out():
    assert dumps_result(object.__new__(UUID))[0] is None


# Errors


def raised(make):
    try:
        raise make()
    except BaseException as error:
        return error


class TwoArguments(Exception):
    def __init__(self, left, right):
        super().__init__(left, right)


class Mute(Exception):
    def __str__(self):
        raise ValueError("no text")


class Deadly(Exception):
    def __str__(self):
        raise SystemExit(1)


class NotText(Exception):
    def __str__(self):
        return 5


class Wilful(str):
    __slots__ = ()

    def __getitem__(self, _):
        raise RuntimeError("mine")

    def __format__(self, _):
        raise RuntimeError("mine")


class WilfulText(Exception):
    def __str__(self):
        return Wilful("gentle")


class NoTraceback(Exception):
    @property
    def __traceback__(self):
        raise SystemExit("no")


class BadGroup(ExceptionGroup):
    @property
    def exceptions(self):
        raise RuntimeError("no members")


@pytest.mark.parametrize(
    ("make", "kind", "start"),
    [
        (lambda: ValueError("bad"), "ValueError", "ValueError: bad"),
        (lambda: ValueError(), "ValueError", "ValueError"),
        (lambda: TwoArguments(1, 2), "test_codec.TwoArguments", "test_codec.TwoArguments: (1, 2)"),
        (lambda: Mute(), "test_codec.Mute", "test_codec.Mute: <no message: its __str__ raised ValueError>"),
        (lambda: Deadly(), "test_codec.Deadly", "test_codec.Deadly: <no message: its __str__ raised SystemExit>"),
        (lambda: NotText(), "test_codec.NotText", "test_codec.NotText: <no message: its __str__ raised TypeError>"),
        (lambda: WilfulText(), "test_codec.WilfulText", "test_codec.WilfulText: gentle"),
        (lambda: KeyError("x"), "KeyError", "KeyError: 'x'"),
        (lambda: SystemExit(3), "SystemExit", "SystemExit: 3"),
        (lambda: NoTraceback("m"), "test_codec.NoTraceback", "test_codec.NoTraceback: m"),
        (lambda: BadGroup("m", [ValueError()]), "test_codec.BadGroup", "test_codec.BadGroup: m"),
        (lambda: ValueError("x" * 50_000_000), "ValueError", "ValueError: xxxxx"),
        (lambda: ValueError("a\ud800\0"), "ValueError", "ValueError: a\\ud800\\x00"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_exception_becomes_text_that_can_be_stored(make, kind, start):
    for limit in (4096, 100):
        got_kind, text = error_text(raised(make), limit)
        assert got_kind == kind
        assert text.startswith(start[: limit // 2 - 1])
        assert len(text) <= limit
        assert "\0" not in text
        text.encode()


def test_the_text_shows_the_last_frames():
    def deep(n):
        if n == 0:
            raise ValueError("down here")
        deep(n - 1)

    _, text = error_text(raised_by(lambda: deep(20)))
    lines = text.splitlines()
    assert lines[0] == "ValueError: down here"
    assert len(lines) == 6
    assert all(line.endswith("in test_the_text_shows_the_last_frames.<locals>.deep") for line in lines[1:])
    assert "test_codec.py" in lines[1]
    _, text = error_text(raised(lambda: ValueError("x" * 10_000)))
    assert "in raised" in text  # a long message leaves room for where it came from


def raised_by(call):
    try:
        call()
    except BaseException as error:
        return error


def test_causes_and_group_members_are_shown():
    def fail():
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error

    assert "caused by KeyError: 'inner'" in error_text(raised_by(fail))[1]
    group = raised(lambda: ExceptionGroup("many", [ValueError(str(n)) for n in range(7)]))
    text = error_text(group)[1]
    assert "ExceptionGroup: many (7 sub-exceptions)" in text
    assert "  + ValueError: 4" in text
    assert "  + 2 more" in text
    assert "ValueError: 5" not in text


def test_a_circle_of_causes_ends():
    first, second = ValueError("1"), ValueError("2")
    first.__cause__, second.__cause__ = second, first
    assert error_text(first)[1].count("caused by") == 3
    hidden = ValueError("shown")
    hidden.__context__, hidden.__suppress_context__ = KeyError("hidden"), True
    assert "hidden" not in error_text(hidden)[1]

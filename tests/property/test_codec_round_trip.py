"""Any nesting of supported values comes back exactly; one unsupported value anywhere refuses the call."""

from __future__ import annotations

import math
import zoneinfo
from datetime import UTC, datetime, time, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel.codec import dumps_call, dumps_result, loads_call, loads_result
from timewheel.errors import NotSerializable

KEYS = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu"]
offsets = st.integers(-86_399_999_999, 86_399_999_999).map(lambda us: timezone(timedelta(microseconds=us)))
zones = st.none() | st.just(UTC) | st.sampled_from(KEYS).map(zoneinfo.ZoneInfo) | offsets
folds = st.sampled_from([0, 1])
moments = st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, folds)
times = st.builds(lambda at, zone, fold: at.replace(tzinfo=zone, fold=fold), st.times(), zones, folds)

hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["$tw:tuple", "$tw:dict", '{"$tw:'])
    | st.binary()
    | moments
    | times
    | st.dates()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=8,
)
keys = st.text() | st.sampled_from(["$tw:tuple", "$tw:dict", "$tw:set", "$tw:datetime", "$tw:"])
values = st.recursive(
    hashable | st.sets(hashable, max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=20,
)
unsupported = st.sampled_from(
    [math.nan, math.inf, -math.inf, "\ud800", {1: 2}, 1j, object(), bytearray(), range(2), {"a": type}, math.pi.__add__]
)


def exact(left, right):
    """Equal, of the same type, and alike in all that equality overlooks."""
    assert type(left) is type(right)
    if isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            exact(one, other)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            exact(left[key], right[key])
    elif isinstance(left, (set, frozenset)):
        assert left == right
        twin = {element: element for element in right}
        for element in left:
            exact(element, twin[element])
    else:
        assert left == right
        assert repr(left) == repr(right)  # -0.0, 1.10, names of zones
        if isinstance(left, (datetime, time)):
            assert left.fold == right.fold
            assert left.utcoffset() == right.utcoffset()


@given(st.lists(values, max_size=4).map(tuple), st.dictionaries(keys, values, max_size=3))
def test_arguments_come_back_exactly(args, kwargs):
    back, back_kwargs = loads_call(dumps_call(args, kwargs))
    exact(list(args), list(back))
    exact(kwargs, back_kwargs)


@given(values)
def test_results_come_back_exactly(value):
    text, omitted = dumps_result(value)
    assert omitted is None
    exact(value, loads_result(text))


def hide(value, bad):
    """`value` with `bad` somewhere in it."""
    if isinstance(value, list) and value:
        return [*value[:-1], hide(value[-1], bad)]
    if isinstance(value, tuple) and value:
        return (hide(value[0], bad), *value[1:])
    if isinstance(value, dict) and value:
        last = list(value)[-1]
        return {**value, last: hide(value[last], bad)}
    return [value, bad]


@given(values, unsupported)
def test_one_unsupported_value_anywhere_refuses_the_call(value, bad):
    spoiled = hide(value, bad)
    with pytest.raises(NotSerializable, match=r"^args\[0\].* is of type "):
        dumps_call((spoiled,), {})
    text, omitted = dumps_result(spoiled)
    assert text is None
    assert omitted


@given(st.text(max_size=60) | values.map(lambda value: dumps_call((value,), {})[:-1]))
def test_damaged_text_raises_one_kind_of_error(text):
    try:
        args, kwargs = loads_call(text)
    except NotSerializable:
        return
    assert isinstance(args, list)
    assert isinstance(kwargs, dict)

"""Values as JSON and back, exactly: what JSON lacks travels in tagged objects.

Pure, but for ZoneInfo, whose first use of a key reads the zone's data. JSON's own types stand for themselves. Any other
supported type is an object with one key that starts with "$tw:", whose value the type's reader understands:

    (1, 2)              {"$tw:tuple": [1, 2]}
    Decimal("1.50")     {"$tw:decimal": "1.50"}
    {"$tw:tuple": 7}    {"$tw:dict": {"$tw:tuple": 7}}      a caller's dict that looks like ours is wrapped

Types are matched exactly: a subclass would lose its type, so it is refused, as is every value that does not come back
equal. `timewheel.untagged` reads the forms back; a tag is never given another meaning, so old text stays readable.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson

from timewheel.checks import shown, type_name

MAX_DEPTH = 100  # of the caller's value; orjson writes at most 254 levels, and a tagged level takes two
PREFIX = "$tw:"
MARK = '{"$tw:'  # stands in JSON text only where an object begins: inside a string its quote would be escaped
_STEPS = 12  # shown of a long path
ATOMS = frozenset({int, str, bool, type(None)})
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1  # what orjson keeps exact


class Refused(Exception):
    """A value that would not come back as it went in; `steps` is the way to it, innermost first."""

    def __init__(self, value: object, why: str, fix: str) -> None:
        super().__init__(why)
        self.kind, self.why, self.fix = type(value), why, fix
        self.steps: list[str] = []

    def path(self, start: str) -> str:
        """Where the value stands, like `args[1].x[3]`."""
        steps = self.steps[::-1]
        return start + "".join(steps if len(steps) <= _STEPS else [*steps[: _STEPS - 2], "…", *steps[-2:]])


class Encoder:
    """Encodes values into JSON natives, within a budget of `limit_bytes` of JSON text.

    Each part is charged the least it can take. That bounds the work as well: a value of many shared references is
    refused before it is unfolded.
    """

    __slots__ = ("left", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.left = self.limit_bytes = limit_bytes

    def encode(self, value: Any, depth: int = 1) -> Any:
        """What orjson writes for `value` at nesting `depth`. Raises Refused."""
        kind = type(value)
        if kind is str:
            return self.text(value)
        if kind is int:
            return value if _LEAST <= value <= _MOST else _tagged("int", self.text(hex(value)))
        if kind is bool or value is None:
            return value
        if kind is float:
            if value - value == 0.0:
                return value
            raise Refused(value, f"{value} has no JSON form", "pass None or a str for it")
        write = _WRITERS.get(kind)
        if write is None:
            raise Refused(value, *_advice(value))
        if depth > MAX_DEPTH:
            raise Refused(value, f"it is nested deeper than {MAX_DEPTH} levels or contains itself", "flatten it")
        return write(self, value, depth + 1)

    def text(self, value: str) -> str:
        """`value`, which must be UTF-8 text."""
        self._spend(value, len(value) + 2)
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise Refused(value, "it has a lone surrogate, which UTF-8 lacks", _SURROGATE_FIX) from None
        return value

    def sequence(self, values: Any, depth: int) -> list[Any]:
        """The encoded elements of a list or tuple."""
        self._spend(values, len(values) + 1)
        result: list[Any] = []
        encode, add = self.encode, result.append
        try:
            for value in values:
                add(encode(value, depth))
        except Refused as refused:
            refused.steps.append(f"[{len(result)}]")
            raise
        return result

    def mapping(self, values: dict[Any, Any], depth: int) -> dict[str, Any]:
        """The encoded items of a dict, whose keys must be str."""
        self._spend(values, 2 * len(values) + 1)
        result: dict[str, Any] = {}
        key: Any = None
        try:
            for key, value in values.items():
                if type(key) is not str:
                    raise Refused(key, "as a dict key only a str has a JSON form", _KEY_FIX)
                result[self.text(key)] = self.encode(value, depth)
        except Refused as refused:
            refused.steps.append(_key_step(key))
            raise
        return result

    def unordered(self, values: Iterable[Any], depth: int) -> list[Any]:
        """The encoded elements of a set in the order of their text: equal sets give equal text in every process."""
        try:
            return sorted((self.encode(value, depth) for value in values), key=orjson.dumps)
        except Refused as refused:
            refused.steps.append("{element}")
            raise

    def _spend(self, value: object, count: int) -> None:
        self.left -= count
        if self.left < 0:
            size = f"takes {count:,} bytes or more and " if count > self.limit_bytes else ""
            limit = size_text(self.limit_bytes)
            raise Refused(value, f"it {size}makes the JSON text too large (at most {limit} is kept)", LARGE_FIX)


def size_text(size_bytes: int) -> str:
    """A limit as people say it: 64 KiB."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes and size_bytes % unit == 0:
            return f"{size_bytes // unit} {name}"
    return f"{size_bytes:,} bytes"


def _tagged(name: str, body: Any) -> dict[str, Any]:
    return {PREFIX + name: body}


def _write_dict(encoder: Encoder, value: dict[Any, Any], depth: int) -> Any:
    encoded = encoder.mapping(value, depth)
    looks_like_ours = len(encoded) == 1 and next(iter(encoded)).startswith(PREFIX)
    return _tagged("dict", encoded) if looks_like_ours else encoded


def _write_set(encoder: Encoder, value: Any, depth: int) -> Any:
    return _tagged("set" if type(value) is set else "frozenset", encoder.unordered(value, depth))


def _write_decimal(encoder: Encoder, value: Decimal, _depth: int) -> Any:
    if value.is_nan():
        raise Refused(value, f"{value} equals nothing, not even itself", "pass None or a str for it")
    return _tagged("decimal", encoder.text(str(value)))


def _write_moment(value: datetime | time) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), value.fold, _zone(value)]


def _zone(value: datetime | time) -> Any:
    """The tzinfo of `value`: None, a ZoneInfo's key, or the [microseconds, name] of a fixed offset."""
    zone = value.tzinfo
    if zone is None:
        return None
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        return [offset // _MICROSECOND, None if name == timezone(offset).tzname(None) else name]
    if type(zone) is ZoneInfo and zone.key is not None:
        again = ZoneInfo(zone.key)
        if again is zone or value.replace(tzinfo=again) == value:
            return zone.key
    raise Refused(
        value,
        f"its tzinfo is a {type_name(type(zone))} that could not be made again",
        "use timezone.utc, ZoneInfo(key), or .astimezone(timezone.utc)",
    )


_MICROSECOND = timedelta(microseconds=1)

_WRITERS: dict[type, Callable[[Encoder, Any, int], Any]] = {
    list: Encoder.sequence,
    dict: _write_dict,
    tuple: lambda encoder, value, depth: _tagged("tuple", encoder.sequence(value, depth)),
    set: _write_set,
    frozenset: _write_set,
    bytes: lambda encoder, value, _: _tagged("bytes", encoder.text(base64.b64encode(value).decode())),
    Decimal: _write_decimal,
    UUID: lambda _encoder, value, _: _tagged("uuid", str(value)),
    datetime: lambda _encoder, value, _: _tagged("datetime", _write_moment(value)),
    time: lambda _encoder, value, _: _tagged("time", _write_moment(value)),
    date: lambda _encoder, value, _: _tagged("date", value.isoformat()),
    timedelta: lambda _encoder, value, _: _tagged("timedelta", [value.days, value.seconds, value.microseconds]),
}
_SUPPORTED = (bool, int, float, str, *_WRITERS)
_KEY_FIX = "make the key a str, or pass a list of pairs"
_SURROGATE_FIX = 'pass bytes, or text.encode("utf-8", "replace").decode()'
_ANY_FIX = (
    "pass an id by which the handler finds it, or plain data: None, bool, int, float, str, bytes, list, tuple, dict "
    "with str keys, set, frozenset, datetime, date, time, timedelta, UUID, Decimal"
)
LARGE_FIX = "keep the data elsewhere and pass the key or path by which the handler finds it"


def _advice(value: object) -> tuple[str, str]:
    """Why a value of an unsupported type is refused, and the way out."""
    kind = type(value)
    if issubclass(kind, Enum):
        return "an enum member would come back as another type", "pass its .value or .name"
    for base in _SUPPORTED:
        if issubclass(kind, base):
            fix = f"pass {base.__name__}(...) of it" if base is not datetime else "pass a plain datetime"
            return f"a subclass of {base.__name__} would come back as {base.__name__}", fix
    if issubclass(kind, tzinfo):
        return "a zone has no JSON form", "pass its key"
    return "it has no JSON form that comes back equal", _ANY_FIX


def _key_step(key: object) -> str:
    if type(key) is str and key.isidentifier() and len(key) <= 40:
        return f".{key}"
    return f"[{shown(key, 40)}]"

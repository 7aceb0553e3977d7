"""Arguments, results and errors as text: what a journal keeps of a caller's values.

The law of arguments: each comes back exactly as it went in (equal, of the same type, also when nested) or is refused
when the call is scheduled, by NotSerializable naming it. It holds for every journal, in memory too. Results and errors
are never refused: what cannot be kept is left out, with a reason (`timewheel.tagged` has the forms).

The text of a call is `[args...]`, or `{"args": [...], "kwargs": {...}}` when it has keyword arguments.
"""

from __future__ import annotations

from typing import Any

import orjson

from timewheel.checks import type_name
from timewheel.errors import NotSerializable
from timewheel.failures import error_line, error_text
from timewheel.tagged import ATOMS, LARGE_FIX, MARK, Encoder, Refused, size_text
from timewheel.untagged import decode, decode_items

__all__ = ["dumps_call", "dumps_result", "error_text", "loads_call", "loads_result"]

MAX_CALL_BYTES = 1 << 20
MAX_RESULT_BYTES = 64 * 1024
_QUICK_BUDGET = 1 << 16  # characters and elements that the quick look takes
_QUICK_CONTAINER = 1_000  # charged for each list and dict
_KEYS = frozenset({str})
_LOAD_ERRORS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError, RecursionError)


def dumps_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The JSON text of one call's arguments, at most 1 MiB; later changes of the arguments do not touch it.

    Raises NotSerializable naming the argument (`args[1].x[3]`), its type and the way out, for a value that would not
    come back exactly, or is nested deeper than 100 levels, or makes the text too large.
    """
    left = _QUICK_BUDGET
    for value in (*args, *kwargs.values()) if kwargs else args:
        if type(value) not in ATOMS:
            left = _after(value, left)
            if left < 0:
                return _dumps_carefully(args, kwargs)
    try:
        text = orjson.dumps({"args": args, "kwargs": kwargs} if kwargs else args).decode()
    except TypeError:  # an int over 64 bits, a lone surrogate, a key that is no str
        return _dumps_carefully(args, kwargs)
    # A character takes at most four bytes of UTF-8, so only a text of this length needs to be measured.
    return text if len(text) * 4 <= MAX_CALL_BYTES and MARK not in text else _dumps_carefully(args, kwargs)


def _after(value: Any, left: int) -> int:
    """What is left of a small budget after a quick look that found nothing but JSON's own types; else less than 0.

    Less than 0 refuses nothing: it only sends the call to the careful way. A container costs enough to bound the depth.
    """
    kind = type(value)
    if kind is float:
        return left if value - value == 0.0 else -1  # inf and nan are neither
    if kind is list:
        elements = value
    elif kind is dict and _KEYS.issuperset(map(type, value)):
        elements = value.values()
        left -= sum(map(len, value))
    else:
        return -1
    left -= _QUICK_CONTAINER + len(elements)
    for element in elements:
        if left < 0:
            return -1
        kind = type(element)
        if kind is str:
            left -= len(element)
        elif kind not in ATOMS:
            left = _after(element, left)
    return left


def _dumps_carefully(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    encoder = Encoder(MAX_CALL_BYTES)
    start = "args"
    try:
        positional = encoder.sequence(args, 1)
        start = "kwargs"
        named = encoder.mapping(kwargs, 1) if kwargs else {}
    except Refused as refused:
        raise NotSerializable(
            f"{refused.path(start)} is of type {type_name(refused.kind)} and cannot be kept: {refused.why}; "
            f"{refused.fix}"
        ) from None
    data = orjson.dumps({"args": positional, "kwargs": named} if kwargs else positional)
    if len(data) > MAX_CALL_BYTES:
        _refuse_size(len(data), args, positional, kwargs, named)
    return data.decode()


def _refuse_size(total: int, args: tuple[Any, ...], positional: list[Any], kwargs: dict[str, Any], named: Any) -> None:
    """Raise NotSerializable naming the largest argument."""
    found = [(len(orjson.dumps(part)), f"args[{place}]", args[place]) for place, part in enumerate(positional)]
    found += [(len(orjson.dumps(part)), f"kwargs.{name}", kwargs[name]) for name, part in named.items()]
    size, name, value = max(found, key=lambda entry: entry[0])
    raise NotSerializable(
        f"{name} is of type {type_name(type(value))} and takes {size:,} of {total:,} bytes of JSON text; a call "
        f"may take {MAX_CALL_BYTES:,}; {LARGE_FIX}"
    )


def loads_call(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that `dumps_call` wrote, as a fresh (args, kwargs).

    Raises NotSerializable for text that does not load: damaged, written by a newer version, or with a zone that this
    machine does not know.
    """
    try:
        data = orjson.loads(text)
        args, kwargs = (data, {}) if type(data) is list else (data["args"], data["kwargs"])
        if type(args) is not list or type(kwargs) is not dict:
            raise TypeError("not the text of a call")
        if MARK in text:
            return [*map(decode, args)], decode_items(kwargs)
        return args, kwargs
    except _LOAD_ERRORS as error:
        raise NotSerializable(f"stored arguments do not load: {_reason(error)}") from error


def dumps_result(value: Any, limit_bytes: int = MAX_RESULT_BYTES) -> tuple[str | None, str | None]:
    """(JSON text, None) of a handler's result, or (None, type and reason) when it cannot be kept. Never raises.

    `loads_result` gives it back exactly.
    """
    if value is None:
        return "null", None
    try:
        data = orjson.dumps(Encoder(limit_bytes).encode(value))
        if len(data) <= limit_bytes:
            return data.decode(), None
        reason = f"it takes {len(data):,} bytes of JSON text; at most {size_text(limit_bytes)} is kept"
    except Refused as refused:
        inside = f"result{refused.path('')} ({type_name(refused.kind)}): " if refused.steps else ""
        reason = inside + refused.why
    except Exception as error:  # noqa: BLE001 - whatever a foreign object does, the job has succeeded
        reason = _reason(error)
    return None, f"{type_name(type(value))}: {reason}"[:500]


def loads_result(text: str) -> Any:
    """The result that `dumps_result` wrote. Raises NotSerializable for text that does not load."""
    try:
        data = orjson.loads(text)
        return decode(data) if MARK in text else data
    except _LOAD_ERRORS as error:
        raise NotSerializable(f"the stored result does not load: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    return error_line(error, 200)

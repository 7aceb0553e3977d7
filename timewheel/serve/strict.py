"""Strict JSON: what both ends of the API take. Python's own reader lets NaN, infinities and lone surrogates through."""

from __future__ import annotations

import json
from typing import Any

import orjson

MAX_DEPTH = 110  # the arguments of a job may have 100 levels; the rest is what stands around them


class NotJson(ValueError):
    """The text is not usable JSON; the message says why."""


def loads(data: bytes, *, depth: int = MAX_DEPTH) -> Any:
    """The value of a JSON text in UTF-8, of any size of numbers, at most `depth` levels deep. Raises NotJson."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant, parse_float=_finite)
        if b"\\ud" in data or b"\\uD" in data:  # surrogates, in pairs or alone: orjson takes the pairs only
            orjson.loads(data)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg.removesuffix(' at')} at {_place(error)}") from None
    except RecursionError:
        raise NotJson(f"it has more than {depth} levels") from None
    except ValueError as error:  # not UTF-8, a constant, an int of thousands of digits
        raise NotJson(str(error)) from None
    if not _shallow(value, depth):
        raise NotJson(f"it has more than {depth} levels")
    return value


def _place(error: json.JSONDecodeError) -> str:
    """Where a text goes wrong; the line only where there are several."""
    several = "\n" in error.doc.strip()
    return f"line {error.lineno}, column {error.colno}" if several else f"column {error.pos + 1}"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits:.40} is too large")
    return value


def _shallow(value: Any, depth: int) -> bool:
    level = [value] if type(value) in (dict, list) else []
    for _ in range(depth):
        if not level:
            return True
        level = [child for parent in level for child in _children(parent)]
    return not level


def _children(value: Any) -> list[Any]:
    children = value.values() if type(value) is dict else value
    return [child for child in children if type(child) in (dict, list)]

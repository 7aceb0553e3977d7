"""Small checks shared by everything that judges a caller's values: how a value is shown, and numbers in a range.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from timewheel.errors import InvalidOption
from timewheel.model import SECOND_US

SHOWN_LENGTH = 80


def shown(value: object, length: int = SHOWN_LENGTH) -> str:
    """How `value` stands in a message: its repr, at most `length` characters. Never raises, whatever the value is."""
    try:
        # A built-in of this size is cut before repr, which would copy all of it.
        if isinstance(value, (str, bytes)) and len(value) > length:
            value = value[: length - 1]
        text = str.__getitem__(repr(value), slice(length + 1))
    except BaseException:  # noqa: BLE001 - a foreign __repr__ may raise anything
        text = f"<{type_name(type(value))}>"
    return storable(text if len(text) <= length else text[: length - 1] + "…")


def type_name(kind: type) -> str:
    """A type's name with its module, unless that is `builtins`; at most 200 characters. Never raises.

    What `timewheel` exports has the name that users import it by.
    """
    try:
        module, name = kind.__module__, kind.__qualname__
        if module.startswith("timewheel.") and getattr(sys.modules.get("timewheel"), name, None) is kind:
            module = "timewheel"
        text = str(name) if module == "builtins" else f"{module}.{name}"
    except BaseException:  # noqa: BLE001 - a metaclass may raise anything
        text = "unnamed type"
    return storable(text[:200])


def storable(text: str) -> str:
    """`text` with lone surrogates and NUL written as escapes, so that any journal and any terminal takes it."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def counted(number: int, noun: str) -> str:
    """A number with its noun, which gets an s but for 1.

    >>> counted(1, "job"), counted(2, "dead letter")
    ('1 job', '2 dead letters')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def microseconds(seconds: float) -> int:
    """Finite seconds as microseconds: exact for an int, the nearest microsecond for a float."""
    whole = int(seconds)
    return whole * SECOND_US + round((seconds - whole) * SECOND_US)


def whole(field: str, value: Any, least: int, most: int) -> int:
    """`value` when it is an int (no bool) within [least, most]; else InvalidOption names field, value and range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidOption(f"{field}={shown(value)}: it must be an int from {least} to {most}")
    return int(value)


def number(field: str, value: Any, allowed: str, least: float, most: float = math.inf, *, above: bool = False) -> float:
    """`value` when it is a finite int or float (no bool) within [least, most], with `above` within (least, most].

    Else InvalidOption names the field, the value and `allowed`, the range in words.
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and _finite(value)
    if not good or not least <= value <= most or (above and value == least):
        raise InvalidOption(f"{field}={shown(value)}: it must be {allowed}")
    return float(value) if isinstance(value, float) else int(value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int that no float can hold
        return False


def printable(field: str, value: Any, most: int) -> str:
    """`value` when it is a str of 1 to `most` printable characters; else InvalidOption."""
    if not isinstance(value, str) or not 1 <= len(value) <= most or not value.isprintable():
        raise InvalidOption(
            f"{field}={shown(value)}: it must be a str of 1 to {most} printable characters (no control characters)"
        )
    return str(value)

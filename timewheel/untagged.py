"""Tagged JSON back to values: the readers of what `timewheel.tagged` writes, one a tag.

Pure, but for ZoneInfo, whose first use of a key reads the zone's data.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from timewheel.tagged import PREFIX


def decode(value: Any) -> Any:
    """The value that `Encoder.encode` was given. Raises ValueError, TypeError, LookupError or ArithmeticError."""
    kind = type(value)
    if kind is list:
        return list(map(decode, value))
    if kind is not dict:
        return value
    if len(value) == 1:
        [(key, body)] = value.items()
        if key.startswith(PREFIX):
            return _READERS[key](body)
    return decode_items(value)


def decode_items(values: dict[str, Any]) -> dict[str, Any]:
    """A dict whose keys are the caller's own, whatever they look like; its values decoded."""
    return dict(zip(values, map(decode, values.values()), strict=True))


def _read_moment(moment: Any, body: list[Any]) -> Any:
    text, fold, zone = body
    if type(zone) is str:
        info: tzinfo | None = ZoneInfo(zone)
    elif zone is None:
        info = None
    else:
        offset, name = timedelta(microseconds=zone[0]), zone[1]
        info = timezone(offset) if name is None else timezone(offset, name)
    return moment.fromisoformat(text).replace(tzinfo=info, fold=fold)


_READERS: dict[str, Callable[[Any], Any]] = {
    PREFIX + "int": lambda body: int(body, 16),
    PREFIX + "dict": decode_items,
    PREFIX + "tuple": lambda body: tuple(map(decode, body)),
    PREFIX + "set": lambda body: set(map(decode, body)),
    PREFIX + "frozenset": lambda body: frozenset(map(decode, body)),
    PREFIX + "bytes": lambda body: base64.b64decode(body, validate=True),
    PREFIX + "decimal": Decimal,
    PREFIX + "uuid": UUID,
    PREFIX + "datetime": lambda body: _read_moment(datetime, body),
    PREFIX + "time": lambda body: _read_moment(time, body),
    PREFIX + "date": date.fromisoformat,
    PREFIX + "timedelta": lambda body: timedelta(*body),
}

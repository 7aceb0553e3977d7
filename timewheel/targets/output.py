"""What is kept of a command's output: its beginning and its end. Pure: no asyncio, clock, files or sockets.

A command may write without end, so memory is bounded while it writes (`Kept`), and what is shown of it fits into the
64 KiB of JSON that a job's result may have, whatever bytes it wrote.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

HEAD_BYTES = 32 * 1024
TAIL_BYTES = 32 * 1024
JSON_BYTES = 60 * 1024  # of both texts in the result; the rest of its 64 KiB is for what stands around them
ERROR_CHARACTERS = 1_500  # of an end in the text of an error, which has room for about 2,000


class Output(NamedTuple):
    """Text of an output: `head`, then `cut_bytes` bytes that were not kept, then `tail` ("" when nothing was cut)."""

    head: str
    tail: str = ""
    cut_bytes: int = 0

    def ending(self) -> str:
        """The last lines, for the text of an error; "" when there was no output."""
        text = (self.tail or self.head).strip()
        if len(text) <= ERROR_CHARACTERS:
            return text
        lines = text[-ERROR_CHARACTERS:]
        return "…" + (lines.partition("\n")[2] or lines)


class Kept:
    """The first HEAD_BYTES and the last TAIL_BYTES of what is added; at most 128 KiB of memory."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """The next bytes."""
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        excess = len(self._tail) - TAIL_BYTES
        if excess > TAIL_BYTES:  # now and then, not with each read
            del self._tail[:excess]
            self._dropped += excess

    def output(self) -> Output:
        """What was kept, as text: UTF-8, U+FFFD for what is none."""
        excess = max(0, len(self._tail) - TAIL_BYTES)
        head, tail, cut = bytes(self._head), bytes(self._tail[excess:]), self._dropped + excess
        if not cut and json_bytes(text_of(head + tail)) <= JSON_BYTES:
            return Output(text_of(head + tail))
        fitting_head = _fitting(head, JSON_BYTES // 2, from_end=False)
        fitting_tail = _fitting(tail, JSON_BYTES - json_bytes(text_of(fitting_head)), from_end=True)
        cut += len(head) - len(fitting_head) + len(tail) - len(fitting_tail)
        return Output(text_of(fitting_head), text_of(fitting_tail), cut)


def text_of(data: bytes) -> str:
    """Bytes as text."""
    return data.decode("utf-8", "replace")


def json_bytes(text: str) -> int:
    """How long a text is in JSON, without its quotes."""
    return len(orjson.dumps(text)) - 2


def _fitting(data: bytes, room: int, *, from_end: bool) -> bytes:
    """As much of `data`, from its beginning or its end, as takes at most `room` bytes in JSON, in whole characters."""
    least, most = 0, len(data)
    while least < most:
        middle = (least + most + 1) // 2
        part = data[len(data) - middle :] if from_end else data[:middle]
        least, most = (middle, most) if json_bytes(text_of(part)) <= room else (least, middle - 1)
    return _whole(data[len(data) - least :] if from_end else data[:least], from_end=from_end)


def _whole(data: bytes, *, from_end: bool) -> bytes:
    """`data` without a character of UTF-8 that was cut in two, at the side where it was cut."""
    if from_end:
        starts = next((place for place, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
        return data[starts:]
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needs = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[: len(data) - back] if needs > back else data
    return data

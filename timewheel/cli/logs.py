"""Logging of the command line: one line an event on stderr, whatever it contains. The only place with log handlers."""

from __future__ import annotations

import logging
import re
import sys
import time

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def one_line(text: str) -> str:
    """`text` with control characters as escapes: nothing in it can start a line of its own or speak to a terminal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class LineFormatter(logging.Formatter):
    """time LEVEL logger message [job=... attempt=...] [traceback, its line ends escaped]."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        parts = [f"{stamp}.{int(record.msecs):03d}Z", record.levelname, record.name, record.getMessage()]
        parts += [f"{name}={record.__dict__[name]}" for name in ("job_id", "attempt") if name in record.__dict__]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        return one_line(" ".join(parts))


def configure(level: int = logging.INFO) -> None:
    """Send the log of the whole process to stderr; uvicorn's own chatter only from WARNING on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "asyncio", "aiohttp"):
        logging.getLogger(name).setLevel(logging.WARNING)

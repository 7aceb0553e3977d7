"""What an HTTP request may look like. Pure: no asyncio, clock, files or sockets."""

from __future__ import annotations

import math
import re
from typing import Any

from yarl import URL

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MAX_URL = 8 * 1024
MAX_HEADERS = 64
MAX_HEADER_BYTES = 16 * 1024
MAX_TIMEOUT_S = 3600.0
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# They frame the message or speak for the connection: not the caller's to say.
_OURS = {
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
}
_OURS |= {"proxy-authorization", "proxy-connection", "proxy-authenticate"}


def fault_of_request(url: Any, method: Any, headers: Any, timeout_s: Any) -> str | None:
    """What is wrong with a request, or None; whether its host is allowed is another question."""
    if not isinstance(method, str) or method.upper() not in METHODS:
        return f"method={method!r:.80}: it must be one of {', '.join(sorted(METHODS))}"
    number = isinstance(timeout_s, (int, float)) and not isinstance(timeout_s, bool) and math.isfinite(timeout_s)
    if not number or not 0 < timeout_s <= MAX_TIMEOUT_S:
        return f"timeout_s={timeout_s!r:.80}: it must be seconds above 0, at most {MAX_TIMEOUT_S:g}"
    return _fault_of_url(url) or _fault_of_headers(headers)


def _fault_of_url(text: Any) -> str | None:
    if not isinstance(text, str) or len(text) > MAX_URL or not text.isprintable() or " " in text:
        return f"url: it must be text without blanks or control characters, at most {MAX_URL} long"
    try:
        url = URL(text)
        port = url.port
    except ValueError as error:
        return f"url: {error}"
    if url.scheme not in ("http", "https") or not url.raw_host:
        return "url: it must start with http:// or https:// and name a host"
    if "%" in url.raw_host:
        return "url: its host must not hold a %"
    if url.raw_user is not None or url.raw_password is not None:
        return "url: it must not hold a user or password; use an Authorization header"
    return None if port else "url: its port must be from 1 to 65535"


def _fault_of_headers(headers: Any) -> str | None:
    if headers is None:
        return None
    if not isinstance(headers, dict) or len(headers) > MAX_HEADERS:
        return f"headers: it must be an object of at most {MAX_HEADERS} names with texts"
    seen: set[str] = set()
    size = 0
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"headers: {name!r:.80} is not a header name"
        if name.lower() in _OURS:
            return f"headers: {name} is not yours to set; it follows from the request"
        if name.lower() in seen:
            return f"headers: {name} is given twice"
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            return f"headers: the value of {name} must be text of one line in Latin-1"
        seen.add(name.lower())
        size += len(name) + len(value)
    return None if size <= MAX_HEADER_BYTES else f"headers: {size} bytes; at most {MAX_HEADER_BYTES} are allowed"

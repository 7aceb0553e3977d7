"""The door: what every request must pass before the application sees it, and what every answer carries.

A browser on this machine will send requests to a loopback port for any web page that asks. So the Host header must be
one of ours (a name that was rebound to 127.0.0.1 is not), and a write must say that it comes from here: no foreign
Origin, no cross-site Sec-Fetch-Site, and a content type that a form cannot have. Bodies are read here, within limits of
size and time, before anything is parsed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from timewheel.serve.problems import Problem, cause_of, instance_of, overloaded

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger("timewheel.serve")

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
BODY_BYTES = 1 << 20
BODY_S = 30.0
REQUESTS_AT_ONCE = 1_000
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})  # of these a form can send POST; the others need a preflight
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(?::\d{1,5})?", re.ASCII)
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware; see the module.

    `hosts`: names and addresses that the Host header may have, beside the loopback names, with any port.
    `limits`: path -> body limit in bytes where it is not BODY_BYTES.
    """

    def __init__(self, app: ASGIApp, *, hosts: Collection[str] = (), limits: dict[str, int] | None = None) -> None:
        self._app = app
        self._hosts = LOOPBACK_NAMES | {host.lower() for host in hosts}
        self._limits = limits or {}
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket: there are none here
            await send({"type": "websocket.close", "code": 1008})
            return
        sender = _Sender(send)
        self._open += 1
        try:
            await self._enter(scope, receive, sender)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the client gets an answer and the log the cause
            await _answer(error, scope, receive, sender)
        finally:
            self._open -= 1

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._open > REQUESTS_AT_ONCE:
            raise overloaded(f"{REQUESTS_AT_ONCE} requests are being answered; try again shortly", 1.0)
        headers = Headers(scope=scope)
        if _host(headers) not in self._hosts:
            names = ", ".join(sorted(self._hosts))
            raise Problem(421, "wrong-host", f"the Host header must name this server: {names}")
        if scope["method"] not in _READS:
            _check_origin(headers)
        if scope["method"] in _WITH_BODY:
            _check_content(headers)
        limit = self._limits.get(scope["path"], BODY_BYTES)
        body = await _read_body(headers, receive, limit)
        await self._app(scope, _replay(body, receive), send)


def _host(headers: Headers) -> str | None:
    """The one Host header, in lower case and without its port, when it is well formed."""
    given = headers.getlist("host")
    found = _HOST.fullmatch(given[0].lower()) if len(given) == 1 else None
    return found[1] if found else None


def _check_origin(headers: Headers) -> None:
    """Refuse a write that a browser sends for a page of another site."""
    site = headers.get("sec-fetch-site", "none")
    origin = headers.get("origin")
    same = origin is None or origin.lower() == f"http://{headers['host'].lower()}"
    if site not in ("same-origin", "none") or not same:
        raise Problem(403, "cross-site", "a page of another site may not write here")


def _check_content(headers: Headers) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        shown = f"got {kind!r:.80}" if kind else "it is missing"
        raise Problem(415, "not-json", f"send JSON with the header Content-Type: application/json ({shown})")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "not-json", "send the body without a Content-Encoding")


async def _read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """The whole body, or a Problem when it is too large or too slow."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "http", "the client went away before its request was complete")
                body += message.get("body", b"")
                if len(body) > limit:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        close = {"Connection": "close"}
        raise Problem(408, "http", f"the body took longer than {BODY_S:g} s", headers=close) from None


def _too_large(limit: int) -> Problem:
    return Problem(413, "too-large", f"the body may have at most {limit:,} bytes", headers={"Connection": "close"})


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that hands out the body that was read, then what the server has to say."""
    handed_out = False

    async def again() -> Message:
        nonlocal handed_out
        if handed_out:
            return await receive()
        handed_out = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


class _Sender:
    """A `send` that adds our headers, and knows whether an answer has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        """Pass one message on."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


async def _answer(error: Exception, scope: Scope, receive: Receive, send: _Sender) -> None:
    problem = cause_of(error)
    if problem.status == 500:
        _log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
    if send.begun:  # half an answer is out: all we can do is to end the connection
        raise error
    await problem.response(instance_of(scope))(scope, receive, send)

"""`http.request`: the built-in task that calls a URL, so that any program that speaks HTTP can be scheduled.

    answer                          becomes
    2xx                             success; the result holds status and a little of the body
    429, 5xx with Retry-After       throttled: a retry, not before that where the answer has it
    any other 5xx                   a retry
    3xx, any other 4xx              dead: nothing is followed, and asking again would not help
    no connection                   a retry: nothing was asked
    no answer, or a part of one     ambiguous: it may have been done; a retry, with the same Idempotency-Key
    a host or address not allowed   dead

Requests reach only the hosts that the operator named when he started `serve` (see `timewheel.targets.hosts`). A name is
resolved once, every address it has is checked, and the connection goes to a checked address: a name server that answers
differently the second time gains nothing. Redirects, proxies, cookies and compressed answers are not used.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from timewheel.targets.hosts import AllowedHosts
from timewheel.targets.request import MAX_TIMEOUT_S, fault_of_request
from timewheel.work.context import current
from timewheel.work.foreign import retry_after_s
from timewheel.work.signals import Ambiguous, Permanent, Throttled, Transient

NAME = "http.request"
TIMEOUT_S = 30.0
READ_BYTES = 64 * 1024  # of an answer; a longer one is cut off there
KEPT_BYTES = 4 * 1024  # of an answer in the job's result
QUOTED_BYTES = 200  # of an answer in the text of an error
_KEEP_ALIVE_S = 2  # below what servers keep idle connections for, so that we rarely write into one being closed
_TEXTS = ("text/", "application/json", "application/problem+json", "application/xml")


class _Refused(Exception):
    """The address of a host is not allowed. Not an OSError, which aiohttp would take for a failing name server."""


class _CheckedResolver(AbstractResolver):
    """Resolves names, and refuses a name as soon as one of its addresses is not allowed."""

    def __init__(self, allowed: AllowedHosts, names: AbstractResolver) -> None:
        self._allowed = allowed
        self._names = names

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        """The addresses of `host`, all of them checked. Raises _Refused, OSError."""
        found = await self._names.resolve(host, port, family)
        for result in found:
            fault = self._allowed.fault_at(host, result["host"])
            if fault is not None:
                raise _Refused(fault)
        return found

    async def close(self) -> None:
        """Close the resolver beneath."""
        await self._names.close()


class HttpTarget:
    """Calls URLs over one pool of connections, made with the first request. `names` resolves hosts."""

    def __init__(self, allowed: AllowedHosts, names: AbstractResolver | None = None) -> None:
        self._allowed = allowed
        self._names = names
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        url: str,
        method: str = "POST",
        headers: dict[str, str] | None = None,
        json: Any = None,
        timeout_s: float = TIMEOUT_S,
    ) -> dict[str, Any]:
        """Call `url` and answer {"status": ..., "body": ...}; `json`, unless None, is the body.

        Sends `Idempotency-Key` with the job's key, the same for every attempt, unless `headers` has one. Raises
        Permanent, Throttled, Transient, Ambiguous as the module's table says. `timeout_s` bounds the whole call.
        """
        fault = self.fault_of(url, method, headers, json, timeout_s)
        if fault is not None:
            raise Permanent(fault)
        sent = {"Idempotency-Key": current().idempotency_key, "Accept-Encoding": "identity"}
        given = {name.lower() for name in headers or ()}
        sent = {name: value for name, value in sent.items() if name.lower() not in given} | (headers or {})
        target = URL(url)
        what = f"{method.upper()} {target.origin()}"
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._open().request(
                    method.upper(),
                    target,
                    headers=sent,
                    json=json,
                    skip_auto_headers=("Content-Type",) if json is None else (),
                    allow_redirects=False,
                ) as answer,
            ):
                return await _judge(what, answer)
        except _Refused as error:
            raise Permanent(str(error)) from None
        except TimeoutError:
            raise Ambiguous(f"{what}: no answer within {timeout_s} s") from None
        except (aiohttp.ClientError, OSError) as error:
            never_asked = isinstance(error, (aiohttp.ClientConnectorError, aiohttp.InvalidURL))
            kind = Transient if never_asked else Ambiguous
            raise kind(f"{what}: {type(error).__name__}: {error}") from error

    def fault_of(
        self,
        url: Any,
        method: Any = "POST",
        headers: Any = None,
        json: Any = None,  # noqa: ARG002 - any JSON value is a body
        timeout_s: Any = TIMEOUT_S,
    ) -> str | None:
        """What is wrong with these arguments, or None. Resolves no names: their addresses are checked by the call."""
        fault = fault_of_request(url, method, headers, timeout_s)
        if fault is not None:
            return fault
        return self._allowed.fault_of(URL(url).raw_host or "")

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            names = self._names or aiohttp.ThreadedResolver()
            connector = aiohttp.TCPConnector(
                resolver=_CheckedResolver(self._allowed, names),
                use_dns_cache=False,
                limit=0,  # the scheduler's own limits say how many run at once
                keepalive_timeout=_KEEP_ALIVE_S,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=MAX_TIMEOUT_S),
                auto_decompress=False,
                trust_env=False,
                headers={"User-Agent": "timewheel"},
            )
        return self._session


async def _judge(what: str, answer: aiohttp.ClientResponse) -> dict[str, Any]:
    """The result of a good answer; raises what a bad one means."""
    body = await _read(answer)
    if 200 <= answer.status < 300:
        return _result(answer, body)
    text = f"{what} answered {answer.status} {answer.reason or ''}".rstrip()
    quoted = body[:QUOTED_BYTES].decode("utf-8", "replace").strip() if _is_text(answer) else ""
    message = f"{text}: {quoted}" if quoted else text
    if answer.status == 429 or answer.status >= 500:
        wait_s = retry_after_s(answer.headers.get("Retry-After"), answer.headers.get("Date"), datetime.now(UTC))
        if wait_s is None and answer.status != 429:
            raise Transient(message)
        raise Throttled(message, retry_after_s=wait_s)
    if 300 <= answer.status < 400:
        raise Permanent(f"{text}: redirects are not followed; schedule the address it points to")
    raise Permanent(message)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """The first READ_BYTES of the body; the connection of a longer one is not used again."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > READ_BYTES:
            answer.close()
            break
    return bytes(body[:READ_BYTES])


def _is_text(answer: aiohttp.ClientResponse) -> bool:
    coded = answer.headers.get("Content-Encoding", "identity").lower() != "identity"
    return not coded and answer.content_type.startswith(_TEXTS)


def _result(answer: aiohttp.ClientResponse, body: bytes) -> dict[str, Any]:
    result: dict[str, Any] = {"status": answer.status}
    if body and _is_text(answer):
        result["body"] = body[:KEPT_BYTES].decode("utf-8", "replace")
        if len(body) > KEPT_BYTES:
            result["body_cut_at"] = KEPT_BYTES
    return result

"""The HTTP client of the commands: speaks to a running `timewheel serve`, and says plainly when there is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple

import aiohttp
from yarl import URL

from timewheel.cli.exits import DATA, UNAVAILABLE, USAGE, Exit

DEFAULT_URL = "http://127.0.0.1:8400"
ANSWER_S = 60.0
BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0)
_NO_ANSWER = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError, ConnectionError)


class Answer(NamedTuple):
    """What the server said."""

    status: int
    body: Any
    retry_after_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it did what was asked."""
        return 200 <= self.status < 300

    @property
    def detail(self) -> str:
        """What a problem says, for people."""
        return detail_of(self.body, f"the server answered {self.status}")

    def good(self) -> Answer:
        """The answer itself when it is a success. Raises Exit."""
        if not self.ok:
            raise self.exit()
        return self

    def exit(self) -> Exit:
        """The end that an answer which is no success means for a command."""
        return Exit(UNAVAILABLE if self.status in (408, 429) or self.status >= 500 else DATA, self.detail)


def detail_of(problem: Any, otherwise: str) -> str:
    """The text of a problem document: its detail, or its errors with their fields."""
    if not isinstance(problem, dict):
        return otherwise
    faults = problem.get("errors")
    if isinstance(faults, list) and faults:
        return "; ".join(_fault(fault) for fault in faults if isinstance(fault, dict))
    return str(problem.get("detail") or problem.get("title") or otherwise)


def _fault(fault: Mapping[str, Any]) -> str:
    field = fault.get("field")
    return f"{field}: {fault.get('message')}" if field else str(fault.get("message"))


class Client:
    """Use with `async with`. Raises Exit when the server cannot be reached or answers something else than its API."""

    def __init__(self, url: str) -> None:
        try:
            self.url = URL(url)
        except ValueError as error:
            raise Exit(USAGE, f"--url {url}: {error}") from None
        if self.url.scheme not in ("http", "https") or not self.url.host:
            raise Exit(USAGE, f"--url {url}: write it like {DEFAULT_URL}")
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        """Open the connection pool."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=5)
        self._session = aiohttp.ClientSession(
            timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(), headers={"User-Agent": "timewheel-cli"}
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        if self._session is not None:
            await self._session.close()

    # Paths are given as they go over the wire: names in them are quoted already.

    async def get(self, path: str, query: Mapping[str, str | list[str]] | None = None) -> Answer:
        """GET a path of the API."""
        return await self._reach("GET", path, query=query)

    async def post(self, path: str, body: Any) -> Answer:
        """POST JSON to a path of the API."""
        return await self._reach("POST", path, body=body)

    async def put(self, path: str, body: Any) -> Answer:
        """PUT JSON to a path of the API."""
        return await self._reach("PUT", path, body=body)

    async def patch(self, path: str, body: Any) -> Answer:
        """PATCH a path of the API with JSON."""
        return await self._reach("PATCH", path, body=body)

    async def delete(self, path: str, version: int | None = None) -> Answer:
        """DELETE a path of the API; with `version` only if what is there has it."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return await self._reach("DELETE", path, headers=headers)

    async def post_patiently(
        self, path: str, body: Any, patience_s: float, waiting: Callable[[Answer], None]
    ) -> Answer:
        """POST; while the server is away, overloaded or out of space, try again for `patience_s`, then answer that.

        Only for requests that may be repeated. `waiting` hears what came instead, before each further try.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        tries = 0
        while True:
            try:
                answer = await self._ask("POST", path, body=body)
            except _NO_ANSWER as error:
                answer = Answer(503, {"detail": self._unreachable(error)})
            wait_s = max(BACKOFF_S[min(tries, len(BACKOFF_S) - 1)], answer.retry_after_s or 0.0)
            if not may_pass(answer.status) or loop.time() + wait_s > until:
                return answer
            tries += 1
            waiting(answer)
            await asyncio.sleep(wait_s)

    async def pages(self, path: str, query: Mapping[str, str | list[str]]) -> AsyncIterator[dict[str, Any]]:
        """The items of all pages of a list. Raises Exit for an answer that is no success."""
        asked: dict[str, str | list[str]] = dict(query)
        while True:
            answer = await self.get(path, asked)
            if not answer.ok:
                raise answer.exit()
            for item in answer.body["items"]:
                yield item
            token = answer.body.get("next_page_token")
            if token is None:
                return
            asked["page_token"] = token

    async def _reach(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | list[str]] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        try:
            return await self._ask(method, path, query=query, body=body, headers=headers)
        except _NO_ANSWER as error:
            raise Exit(UNAVAILABLE, self._unreachable(error)) from None

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | list[str]] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        assert self._session is not None, "a client is used with `async with`"
        url = self.url.with_path(self.url.raw_path.rstrip("/") + path, encoded=True).with_query(query)
        # Not ASCII: escapes would triple the size of most of the world's texts.
        data = None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        request = self._session.request(method, url, data=data, headers=sent, allow_redirects=False)
        async with request as response:
            text = await response.read()
            return Answer(response.status, self._parsed(text, response), _seconds(response.headers.get("Retry-After")))

    def _parsed(self, text: bytes, response: aiohttp.ClientResponse) -> Any:
        if response.status == 204:
            return None
        try:
            return json.loads(text)
        except ValueError:
            if response.status >= 500 or response.status == 429:  # a proxy in between: its status says enough
                return None
            message = f"{self.url} does not answer like timewheel serve (status {response.status}, no JSON)"
            raise Exit(UNAVAILABLE, message) from None

    def _unreachable(self, error: BaseException) -> str:
        cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
        why = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        return f"no timewheel serve answers at {self.url} ({why}); start one, or name its address with --url"


def may_pass(status: int) -> bool:
    """Whether an answer may be another one later: the server is away, overloaded, draining or out of space."""
    return status in (408, 429, 500, 502, 503, 504, 507)


def _seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.isdecimal() and len(header) < 6 else None

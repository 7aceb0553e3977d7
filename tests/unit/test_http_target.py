"""`http.request` against a local server: what each answer means, which hosts are reached, what is sent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer

from timewheel.targets.addresses import is_public, is_reachable_by_name
from timewheel.targets.hosts import AllowedHosts
from timewheel.targets.http import KEPT_BYTES, READ_BYTES, HttpTarget
from timewheel.targets.request import fault_of_request
from timewheel.work.context import JobContext, enter, leave
from timewheel.work.foreign import MAX_RETRY_AFTER_S, retry_after_s
from timewheel.work.signals import Ambiguous, Permanent, Throttled, Transient

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """A server whose one handler a test sets; what came in is kept."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.handler: Handler | None = None
        self.server: TestServer | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        return await self.handler(request) if self.handler else web.json_response({"fine": True})

    def url(self, path: str = "/", host: str | None = None) -> str:
        assert self.server is not None
        url = self.server.make_url(path)
        return str(url if host is None else url.with_host(host))


class Names(AbstractResolver):
    """A name server of the test's own; counts what it is asked."""

    def __init__(self, names: dict[str, list[str]]) -> None:
        self.names = names
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("no such name")
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in self.names[host]
        ]

    async def close(self) -> None:
        return None


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.answer)
    site.server = TestServer(app)
    await site.server.start_server()
    yield site
    await site.server.close()


@pytest_asyncio.fixture
async def target() -> AsyncIterator[HttpTarget]:
    target = HttpTarget(AllowedHosts(["127.0.0.1"]))
    token = enter(JobContext(1 << 40 | 7, 1, 0))
    yield target
    leave(token)
    await target.close()


def answers(status: int, **headers: str) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text="because", headers=headers)

    return answer


async def test_success_has_status_and_body(site: Site, target: HttpTarget) -> None:
    result = await target.request(site.url("/hook"), json={"a": [1, None]})
    assert result == {"status": 200, "body": '{"fine": true}'}
    [request] = site.requests
    assert (request.method, request.path, site.bodies) == ("POST", "/hook", [b'{"a": [1, null]}'])
    assert request.content_type == "application/json"


async def test_sends_the_jobs_idempotency_key_unless_given_one(site: Site, target: HttpTarget) -> None:
    await target.request(site.url())
    await target.request(site.url(), headers={"idempotency-key": "mine", "X-Other": "1"})
    keys = [request.headers.getall("Idempotency-Key") for request in site.requests]
    assert keys == [["job-0000100000007"], ["mine"]]
    assert site.requests[1].headers["X-Other"] == "1"


async def test_no_body_without_json(site: Site, target: HttpTarget) -> None:
    await target.request(site.url(), method="get")
    assert site.requests[0].method == "GET"
    assert site.bodies == [b""]


@pytest.mark.parametrize("status", [400, 401, 404, 408, 410, 422])
async def test_client_errors_are_permanent(site: Site, target: HttpTarget, status: int) -> None:
    site.handler = answers(status)
    with pytest.raises(Permanent, match=f"answered {status} .*because"):
        await target.request(site.url())


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(site: Site, target: HttpTarget, status: int) -> None:
    site.handler = answers(status, Location=site.url("/elsewhere"))
    with pytest.raises(Permanent, match="redirects are not followed"):
        await target.request(site.url())
    assert len(site.requests) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_server_errors_are_transient(site: Site, target: HttpTarget, status: int) -> None:
    site.handler = answers(status)
    with pytest.raises(Transient, match=f"answered {status}"):
        await target.request(site.url())


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured(site: Site, target: HttpTarget, status: int) -> None:
    site.handler = answers(status, **{"Retry-After": "7"})
    with pytest.raises(Throttled) as caught:
        await target.request(site.url())
    assert caught.value.retry_after_us == 7_000_000


async def test_429_without_retry_after_is_throttled_all_the_same(site: Site, target: HttpTarget) -> None:
    site.handler = answers(429)
    with pytest.raises(Throttled) as caught:
        await target.request(site.url())
    assert caught.value.retry_after_us is None


async def test_no_listener_is_transient(site: Site, target: HttpTarget) -> None:
    url = site.url()
    assert site.server is not None
    await site.server.close()
    with pytest.raises(Transient, match="ClientConnector"):
        await target.request(url)


async def test_a_slow_answer_is_ambiguous(site: Site, target: HttpTarget) -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    site.handler = never
    with pytest.raises(Ambiguous, match=r"no answer within 0\.05 s"):
        await target.request(site.url(), timeout_s=0.05)


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"], ids=["none", "part"]
)
async def test_a_broken_answer_is_ambiguous(site: Site, target: HttpTarget, said: bytes) -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert isinstance(request.transport, asyncio.Transport)
        request.transport.write(said)
        request.transport.close()
        return web.Response()

    site.handler = hang_up
    with pytest.raises(Ambiguous):
        await target.request(site.url())


async def test_a_large_answer_is_cut_and_its_connection_dropped(site: Site, target: HttpTarget) -> None:
    async def much(request: web.Request) -> web.Response:
        return web.Response(text="x" * (READ_BYTES * 4))

    site.handler = much
    result = await target.request(site.url())
    assert len(result["body"]) == KEPT_BYTES
    assert result["body_cut_at"] == KEPT_BYTES


async def test_an_endless_answer_is_cut(site: Site, target: HttpTarget) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            while True:
                await response.write(b"y" * 65_536)
        except ConnectionError:  # the client has had enough
            return response

    site.handler = endless
    result = await target.request(site.url())
    assert result["status"] == 200
    assert len(result["body"]) == KEPT_BYTES


@pytest.mark.parametrize("headers", [{"Content-Encoding": "gzip"}, {"Content-Type": "image/png"}])
async def test_what_is_no_plain_text_is_not_kept(site: Site, target: HttpTarget, headers: dict[str, str]) -> None:
    async def binary(request: web.Request) -> web.Response:
        return web.Response(body=b"\x1f\x8b\x00", headers=headers)

    site.handler = binary
    assert await target.request(site.url()) == {"status": 200}


async def test_asks_for_no_compression_and_keeps_no_cookies(site: Site, target: HttpTarget) -> None:
    site.handler = answers(200, **{"Set-Cookie": "a=b"})
    await target.request(site.url())
    await target.request(site.url())
    assert [request.headers["Accept-Encoding"] for request in site.requests] == ["identity", "identity"]
    assert all("Cookie" not in request.headers for request in site.requests)


async def test_proxies_of_the_environment_are_not_used(
    site: Site, target: HttpTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await target.request(site.url()))["status"] == 200


async def test_a_host_that_was_not_named_is_refused(site: Site, target: HttpTarget) -> None:
    with pytest.raises(Permanent, match=r"'localhost' is not allowed here: start serve with --allow-http localhost"):
        await target.request(site.url(host="localhost"))
    assert site.requests == []


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"])
async def test_the_star_reaches_public_addresses_only(site: Site, address: str) -> None:
    token = enter(JobContext(7, 1, 0))
    names = Names({"rebound.example": ["93.184.215.14", address]})
    target = HttpTarget(AllowedHosts(["*"]), names)
    for host in ("rebound.example", address):
        with pytest.raises(Permanent, match=r"not public|not a public address"):
            await target.request(site.url(host=host))
    assert site.requests == []
    assert names.asked == ["rebound.example"]
    leave(token)
    await target.close()


async def test_a_named_host_may_be_private_but_not_link_local(site: Site) -> None:
    token = enter(JobContext(7, 1, 0))
    names = Names({"inside.example": ["127.0.0.1"], "cloud.example": ["169.254.169.254"]})
    target = HttpTarget(AllowedHosts(["inside.example", "cloud.example"]), names)
    assert (await target.request(site.url(host="INSIDE.example")))["status"] == 200
    with pytest.raises(Permanent, match="link-local"):
        await target.request(site.url(host="cloud.example"))
    assert names.asked == ["inside.example", "cloud.example"]
    leave(token)
    await target.close()


async def test_a_name_is_resolved_once_for_each_connection(site: Site) -> None:
    token = enter(JobContext(7, 1, 0))
    names = Names({"once.example": ["127.0.0.1"]})
    target = HttpTarget(AllowedHosts(["once.example"]), names)
    await target.request(site.url(host="once.example"))
    assert names.asked == ["once.example"]
    leave(token)
    await target.close()


async def test_an_unknown_name_is_transient(site: Site) -> None:
    token = enter(JobContext(7, 1, 0))
    target = HttpTarget(AllowedHosts(["gone.example"]), Names({}))
    with pytest.raises(Transient):
        await target.request(site.url(host="gone.example"))
    leave(token)
    await target.close()


@pytest.mark.parametrize("spelling", ["0x7f000001", "2130706433", "127.1", "017700000001"])
async def test_old_spellings_of_an_address_are_checked_too(site: Site, spelling: str) -> None:
    """getaddrinfo turns them into 127.0.0.1, behind the back of whoever looks at the text."""
    token = enter(JobContext(7, 1, 0))
    target = HttpTarget(AllowedHosts(["*"]))
    with pytest.raises((Permanent, Transient)):  # transient where the system's resolver does not know the spelling
        await target.request(site.url(host=spelling))
    assert site.requests == []
    leave(token)
    await target.close()


@pytest.mark.parametrize(
    "address",
    [
        "::1",
        "::",
        "::ffff:127.0.0.1",
        "::ffff:0:7f00:1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::1",
        "2001:0:7f00:1::1",
        "2001:0:808:808::80ff:fffe",  # Teredo with client 127.0.0.1
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "3fff::1",
        "2a00::5efe:10.0.0.1",  # ISATAP
        "192.0.0.9",
        "198.18.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "not an address",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:4700::1111", "64:ff9b::808:808", "2002:808:808::1"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("address", "good"),
    [("10.1.2.3", True), ("::1", True), ("fe80::1", False), ("0.0.0.0", False), ("224.0.0.1", False)],
)
def test_addresses_a_name_may_have(address: str, good: bool) -> None:
    assert is_reachable_by_name(address) is good


@pytest.mark.parametrize("entry", ["http://x", "x:80", "a/b", "", "a b", "*.example", "u@h", "x?y"])
def test_what_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        AllowedHosts([entry])


def test_hosts_have_one_spelling() -> None:
    allowed = AllowedHosts(["Example.COM.", "[::1]", "bücher.example"])
    assert allowed.named == {"example.com", "::1", "xn--bcher-kva.example"}
    assert allowed.fault_of("EXAMPLE.com") is None
    assert allowed.fault_of("0:0::1") is None


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"url": "ftp://127.0.0.1/"}, "must start with http"),
        ({"url": "//127.0.0.1/"}, "must start with http"),
        ({"url": 7}, "must be text"),
        ({"url": "http://127.0.0.1/a b"}, "without blanks"),
        ({"url": "http://127.0.0.1/\r\nX: y"}, "without blanks"),
        ({"url": "http://u:p@127.0.0.1/"}, "user or password"),
        ({"url": "http://127.0.0.1:0/"}, "port"),
        ({"url": "http://127.0.0.1:99999/"}, "url"),
        ({"url": "http://[fe80::1%25eth0]/"}, "%"),
        ({"method": "CONNECT"}, "method"),
        ({"method": "GET / HTTP/1.1"}, "method"),
        ({"headers": {"Host": "x"}}, "not yours to set"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "not yours to set"),
        ({"headers": {"X": "a\r\nY: b"}}, "one line"),
        ({"headers": {"X\r\nY": "b"}}, "not a header name"),
        ({"headers": {"X": "€"}}, "Latin-1"),
        ({"headers": {"X": "a", "x": "b"}}, "twice"),
        ({"headers": {"X": 1}}, "text"),
        ({"headers": ["X"]}, "object"),
        ({"headers": {"X": "y" * 20_000}}, "bytes"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": True}, "timeout_s"),
        ({"timeout_s": float("nan")}, "timeout_s"),
        ({"timeout_s": 1e9}, "timeout_s"),
    ],
)
async def test_bad_requests_are_permanent_and_send_nothing(
    site: Site, target: HttpTarget, arguments: dict[str, Any], fault: str
) -> None:
    with pytest.raises(Permanent, match=fault):
        await target.request(**{"url": site.url(), **arguments})
    assert site.requests == []


def test_a_good_request_has_no_fault() -> None:
    assert fault_of_request("https://example.com/x?y=1#z", "post", {"Authorization": "Bearer x"}, 5) is None


NOW = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        (None, None, None),
        ("0", None, 0.0),
        ("120", None, 120.0),
        ("1.5", None, 1.5),
        ("99999999999", None, MAX_RETRY_AFTER_S),
        ("-1", None, None),
        ("soon", None, None),
        ("Mon, 05 Jan 2026 00:01:00 GMT", None, 60.0),
        ("Sun, 04 Jan 2026 23:59:00 GMT", None, 0.0),
        ("Mon, 05 Jan 2026 00:01:00 GMT", "Mon, 05 Jan 2026 00:00:30 GMT", 30.0),
        ("Mon, 05 Jan 2026 00:01:00 GMT", "nonsense", 60.0),
        ("9" * 200, None, None),
    ],
)
def test_retry_after(value: str | None, date: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, date, NOW) == seconds


async def test_a_closed_target_opens_again(site: Site, target: HttpTarget) -> None:
    await target.request(site.url())
    await target.close()
    await target.close()
    assert (await target.request(site.url()))["status"] == 200


def test_aiohttp_lets_an_address_past_the_resolver() -> None:
    """Why `AllowedHosts.fault_of` judges addresses: the connector asks no resolver about them."""
    assert aiohttp.helpers.is_ip_address("127.0.0.1")

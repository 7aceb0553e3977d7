"""The door of `serve`: who may knock, with what, how fast. An open control port is remote code execution."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio
from serving import client_of, make_scheduler

from timewheel.scheduler import Scheduler
from timewheel.serve import guard, protocol
from timewheel.serve.app import create_app
from timewheel.serve.guard import Guard
from timewheel.serve.problems import Problem, cause_of
from timewheel.serve.protocol import QuietServer
from timewheel.serve.runner import bind

JOBS = "/api/v1/jobs"
JSON = {"Content-Type": "application/json"}


@pytest_asyncio.fixture
async def scheduler() -> AsyncIterator[Scheduler]:
    async with make_scheduler() as scheduler:
        yield scheduler


@pytest_asyncio.fixture
async def client(scheduler: Scheduler) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(scheduler) as client:
        yield client


def name_of(response: httpx.Response) -> str:
    assert response.headers["content-type"] == "application/problem+json"
    return str(response.json()["type"]).rpartition(":")[2]


@pytest.mark.parametrize("path", ["/livez", "/nope", "/metrics", "/openapi.json"])
async def test_every_answer_carries_the_headers(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    assert headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.mark.parametrize("host", ["127.0.0.1:8400", "localhost", "LOCALHOST:1", "[::1]:8400", "[::1]"])
async def test_our_own_names_are_let_in(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/livez", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8400", "", "[::2]", "127.0.0.1:x", "a b", "@"],
)
async def test_other_names_are_not(client: httpx.AsyncClient, host: str) -> None:
    """A web page whose name was rebound to 127.0.0.1 sends its own name."""
    response = await client.get("/livez", headers={"Host": host})
    assert (response.status_code, name_of(response)) == (421, "wrong-host")


async def test_two_host_headers_are_not(client: httpx.AsyncClient) -> None:
    response = await client.get("/livez", headers=[("Host", "127.0.0.1"), ("Host", "127.0.0.1")])
    assert response.status_code == 421


async def test_a_further_name_can_be_allowed(scheduler: Scheduler) -> None:
    async with client_of(scheduler, hosts=["127.0.0.2"]) as client:
        assert (await client.get("/livez", headers={"Host": "127.0.0.2:8400"})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8400"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_pages_of_other_sites_may_not_write(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    response = await client.post(JOBS, json={"task": "echo"}, headers=headers)
    assert (response.status_code, name_of(response)) == (403, "cross-site")
    assert (await client.get(JOBS)).json()["items"] == []


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://127.0.0.1:8400", "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}]
)
async def test_our_own_pages_may(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await client.post(JOBS, json={"task": "echo"}, headers=headers)).status_code == 201


@pytest.mark.parametrize(
    "kind",
    ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp"],
)
async def test_what_a_form_can_send_is_no_write(client: httpx.AsyncClient, kind: str) -> None:
    response = await client.post(JOBS, content=b'{"task": "echo"}', headers={"Content-Type": kind})
    assert (response.status_code, name_of(response)) == (415, "not-json")


async def test_json_with_a_charset_is_json(client: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert (await client.post(JOBS, content=b'{"task": "echo"}', headers=headers)).status_code == 201


async def test_compressed_bodies_are_refused(client: httpx.AsyncClient) -> None:
    response = await client.post(JOBS, content=b"{}", headers={**JSON, "Content-Encoding": "gzip"})
    assert response.status_code == 415


async def test_an_announced_body_is_refused_before_it_is_sent(client: httpx.AsyncClient) -> None:
    for length in (str(100 << 20), "9" * 400, "x", "-1"):
        response = await client.post(JOBS, content=b"{}", headers={**JSON, "Content-Length": length})
        assert response.status_code == 413


async def call(app: Any, *messages: Any, headers: list[tuple[bytes, bytes]] | None = None) -> dict[str, Any]:
    """One request to an ASGI application, its body given message by message."""
    sent: list[dict[str, Any]] = []
    left = list(messages)

    async def receive() -> Any:
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    given = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), *(headers or [])]
    scope = {"type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"", "headers": given}
    await app(scope, receive, send)
    return {"status": sent[0]["status"], "body": b"".join(message.get("body", b"") for message in sent[1:])}


async def test_a_slow_body_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_S", 0.01)
    answer = await call(Guard(None), {"type": "http.request", "body": b"{", "more_body": True})  # type: ignore[arg-type]
    assert answer["status"] == 408


async def test_a_client_that_goes_away_makes_no_job() -> None:
    answer = await call(Guard(None), {"type": "http.disconnect"})  # type: ignore[arg-type]
    assert answer["status"] == 400


async def test_an_error_of_ours_is_a_500_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("the secret inside")

    answer = await call(Guard(broken), {"type": "http.request", "body": b"{}"})
    assert answer["status"] == 500
    assert b"secret" not in answer["body"]
    assert json.loads(answer["body"])["type"] == "urn:timewheel:problem:internal-error"
    assert "the secret inside" in caplog.text


async def test_too_many_requests_at_once_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUESTS_AT_ONCE", 1)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        inside.set()
        await leave.wait()
        await Problem(418, "http", "at last").response("/")(scope, receive, send)

    door = Guard(slow)
    first = asyncio.create_task(call(door, {"type": "http.request", "body": b"{}"}))
    await inside.wait()
    assert (await call(door, {"type": "http.request", "body": b"{}"}))["status"] == 429
    leave.set()
    assert (await first)["status"] == 418


async def test_websockets_are_closed() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await Guard(None)({"type": "websocket"}, None, send)  # type: ignore[arg-type]
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_an_unknown_error_becomes_a_500() -> None:
    assert cause_of(ValueError("x")).status == 500


# ---- on a socket -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def listening(scheduler: Scheduler) -> AsyncIterator[int]:
    """The application on a port of its own."""
    server = QuietServer(create_app(scheduler))
    listener = bind("127.0.0.1", 0)
    task = asyncio.create_task(server.run_on(listener))
    await server.listening.wait()
    yield listener.getsockname()[1]
    server.should_exit = True
    await task


async def exchange(port: int, data: bytes) -> bytes:
    """Everything the server says to these bytes, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_what_is_no_http_gets_a_problem(scheduler: Scheduler) -> None:
    async with listening(scheduler) as port:
        for data in (
            b"\x16\x03\x01\x00\xa5\x01\r\n\r\n",
            b"GET /livez\r\n\r\n",
            b"GET / HTTP/1.1\r\nA: " + b"x" * 20_000,
        ):
            answer = await exchange(port, data)
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert b"application/problem+json" in answer


async def test_a_head_that_does_not_come_is_not_waited_for(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "HEAD_S", 0.02)
    async with listening(scheduler) as port:
        assert await exchange(port, b"") == b""
        assert await exchange(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ") == b""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"alive")
        writer.write(b"GET /livez HTTP")  # the head of a second request, begun and not ended
        assert b"HTTP" not in await reader.read()
        writer.close()
        await writer.wait_closed()


async def test_more_connections_than_the_limit_are_closed(
    scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CONNECTIONS", 1)
    async with listening(scheduler) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"alive")
        assert await exchange(port, b"") == b""
        writer.close()
        await writer.wait_closed()


async def test_requests_follow_one_another_on_a_connection(scheduler: Scheduler) -> None:
    async with listening(scheduler) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(3):
            assert (await client.post(JOBS, json={"task": "echo"})).status_code == 201
        response = await client.get(JOBS)
        assert len(response.json()["items"]) == 3
        assert response.headers["date"]
        assert "server" not in response.headers

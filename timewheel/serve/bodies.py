"""Request bodies: strict JSON, read before FastAPI would read it in its own, laxer way."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from timewheel.serve.problems import Problem
from timewheel.serve.strict import NotJson, loads

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def parse(body: bytes) -> Any:
    """The value of a body. Raises Problem (400) when it is not JSON."""
    try:
        return loads(body)
    except NotJson as error:
        raise Problem(400, "malformed-json", f"the body is not usable JSON: {error}") from None


class _ParsedRequest(Request):
    """A request whose body was read and parsed already."""

    def __init__(self, request: Request, body: bytes, parsed: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._given = body
        self._parsed = parsed

    async def body(self) -> bytes:
        """The body as it came."""
        return self._given

    async def json(self) -> Any:
        """What the body says."""
        return self._parsed


class StrictRoute(APIRoute):
    """A route whose bodies are read by `parse`."""

    def get_route_handler(self) -> Handler:
        """FastAPI's handler, given a request that was parsed before."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            body = await request.body()
            if body:
                request = _ParsedRequest(request, body, parse(body))
            return await handle(request)

        return strict

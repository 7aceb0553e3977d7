"""What paths have in common: how they are added, and versions in If-Match."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter

from timewheel.errors import InvalidOption, InvalidTime, VersionConflict
from timewheel.serve.problems import Problem, invalid

_ETAG = re.compile(r'(?:W/)?"(\d{1,18})"', re.ASCII)


def add(
    router: APIRouter,
    method: str,
    path: str,
    handler: Any,
    model: Any,
    responses: dict[int | str, dict[str, Any]],
    *,
    code: int = 200,
    extra: dict[str, Any] | None = None,
) -> None:
    """One path of a router, with a method; `code` is the status of success, `extra` goes into its OpenAPI."""
    router.add_api_route(
        path,
        handler,
        methods=[method],
        status_code=code,
        response_model=model,
        responses=responses,
        openapi_extra=extra,
    )


@contextmanager
def blaming(instant: str, option: str | None = None) -> Iterator[None]:
    """Name the field that an InvalidTime or an InvalidOption of the block is about: nothing else can be bad by then."""
    try:
        yield
    except InvalidTime as error:
        raise invalid(str(error), instant) from None
    except InvalidOption as error:
        raise invalid(str(error), option or instant) from None


class Precondition:
    """Turns a version that is not the one of If-Match into 412; without the header it stays a conflict, 409."""

    def __init__(self, if_match: str | None) -> None:
        self._if_match = if_match

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._if_match is not None and isinstance(error, VersionConflict):
            raise Problem(
                412, "version-conflict", str(error), schedule_id=error.schedule, version=error.version
            ) from None


def version_of(if_match: str | None, if_version: int | None) -> int | None:
    """The version that is meant, or None for any. Raises Problem."""
    if if_match is None or if_match.strip() == "*":
        return if_version
    found = _ETAG.fullmatch(if_match.strip())
    if found is None:
        raise invalid(f'If-Match: {if_match:.80}: give one ETag, which is the version in quotes, like "3"', "if-match")
    version = int(found[1])
    if if_version is not None and if_version != version:
        raise invalid("If-Match and if_version name two versions", "if_version")
    return max(version, 1)

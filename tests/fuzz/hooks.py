"""What Schemathesis must be told about the API: the tasks that exist, and the rules that JSON Schema cannot say.

Loaded by Schemathesis (SCHEMATHESIS_HOOKS). Whatever is excused here stands with its reason; a 5xx never is.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import AcceptedNegativeData
from schemathesis.openapi.checks import RejectedPositiveData, UnsupportedMethodResponse

TASKS = ["add", "echo", "fail", "hang"]  # those of tests/fuzz/server.py
RULES = (  # (field, words of the refusal): rules that the document tells in words
    ("page_token", "give back the next_page_token of a page"),
    ("task", "no task is registered as"),
    ("args", "do not fit"),
    ("args", "cannot be kept"),
    ("queue|tags|idempotency_key", "printable characters"),
    ("retry", "base_s=.* is over cap_s="),
    ("scheduled_at", "is not RFC 3339|out of range|names no instant"),
    ("scheduled_at", "give scheduled_at or delay_s"),
    ("delay_s", "not both|reach beyond|out of range"),
)


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Let the document name the tasks, so that jobs are really made, and found by the paths with an id."""
    task = raw_schema["components"]["schemas"]["JobIn"]["properties"]["task"]
    task["enum"] = TASKS
    task["examples"] = ["echo"]
    del task["minLength"], task["maxLength"]


INSTANTS = st.datetimes(min_value=datetime(1970, 1, 2)).map(lambda moment: moment.isoformat() + "Z")
schemathesis.openapi.format("date-time", INSTANTS)


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether a failure counts."""
    if isinstance(failure, UnsupportedMethodResponse):
        return response.status_code != 415  # the door asks for JSON before it looks at paths
    if isinstance(failure, RejectedPositiveData):
        return response.status_code != 422 or not all(map(_told_in_words, response.json()["errors"]))
    if isinstance(failure, AcceptedNegativeData) and case.operation.label == "POST /api/v1/jobs/batch":
        return not any(result["status"] >= 400 for result in response.json()["results"])  # each is judged by itself
    return True


def _told_in_words(error: dict[str, str]) -> bool:
    return any(
        re.fullmatch(rf"({field})(\.\d+)?", error["field"] or "") and re.search(words, error["message"])
        for field, words in RULES
    )

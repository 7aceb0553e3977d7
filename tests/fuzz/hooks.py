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
    ("id|note|overlap|name", "printable characters"),
    ("concurrency_key|rate_key|partition_key", "printable characters"),
    ("cost", "give rate_key="),
    ("expires_at|deadline", "is not RFC 3339|out of range|names no instant|is not after"),
    ("expires_after_s|deadline_after_s", "give one of them"),
    ("unique", "by=.*it must be|they go together|printable characters|one or more"),
    ("wait_for", "it must be a Job|no job of this journal"),
    ("if_dependency_fails", "name them"),
    ("id", "cannot stand in a URL"),
    ("cron|every_s|days|weeks", "two rules|say when it recurs|never runs|the least is|it must be an int from"),
    ("anchor|after_completion|tz|gap|fold|calendar|roll", "does not belong|give the rule as well|needs a calendar"),
    ("anchor", "needs an anchor|is no local time|out of range|has no meaning|is not RFC 3339|names no instant"),
    ("calendar", "no calendar is saved"),
    ("body", "nothing is to change"),
    ("overlap", "takes no|takes a key"),
    ("start|end|until|after|from|to", "is not RFC 3339|out of range|names no instant"),
    ("until", "is past already"),
    ("end|to", "is not after|must lie after"),
    ("", "is not after start|is a concurrency key"),
    ("bucket_s", "buckets|too much to count"),
    ("most", "more than"),
    ("exclude", "is no date|ends before|takes at most"),
    ("weekend", "leaves no business day"),
    ("if-match", "give one ETag"),
    ("if_version", "name two versions"),
    ("actor|reason|cause_fixed|tag|fingerprint|task|queue|dependency", "printable characters"),
    ("since", "is not RFC 3339|out of range|names no instant"),
    ("rate|key_rate", "is too fast"),
)
# So that schedules are really made: one kind of rule for each kind of request, and texts that few would find by chance.
KINDS = {"ScheduleIn": ("cron",), "PreviewIn": ("every_s",), "ScheduleChangeIn": ("weeks", "anchor")}
PARTS = {"cron", "every_s", "after_completion", "days", "weeks", "anchor", "calendar", "roll"}
TEXTS = {
    "cron": ["0 9 * * mon", "*/5 * * * *", "@daily", "30 2 L * *", "* * * * * *"],
    "tz": ["UTC", "Europe/Berlin", "America/New_York"],
    "anchor": ["2026-01-09T09:00:00", "2026-01-09 09:00"],
    "id": ["nightly", "0", "a b%"],
    "queue": ["default", "q"],
    "concurrency_key": ["k"],
    "rate_key": ["k"],
    "partition_key": ["p", "q"],
    "note": ["audit"],
    "start": ["2026-01-05T00:00:00Z", "2025-01-05T00:00:00Z"],
    "end": ["2026-01-06T00:00:00Z", "2099-01-05T00:00:00Z"],
    "until": ["2099-01-05T00:00:00Z"],
}
OUR_LISTS = re.compile(rf"in body - ({'|'.join(TEXTS)}): Invalid enum value")


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Let the document name the tasks, so that jobs are really made, and found by the paths with an id."""
    schemas = raw_schema["components"]["schemas"]
    for name in ("JobIn", "ScheduleIn"):
        _limit(schemas[name]["properties"]["task"], TASKS)
    for name, kind in KINDS.items():
        properties = schemas[name]["properties"]
        for field in PARTS - set(kind):
            del properties[field]
        for field in kind:
            properties[field] = properties[field]["anyOf"][0]
        schemas[name]["required"] = [*schemas[name].get("required", []), *kind]
    for name in (*KINDS, "PauseIn", "BackfillIn"):
        properties = schemas[name]["properties"]
        for field in TEXTS.keys() & properties.keys():
            _limit(properties[field].get("anyOf", [properties[field]])[0], TEXTS[field])


def _limit(text: dict[str, Any], values: list[str]) -> None:
    """Let a text of the document be one of these."""
    text["enum"] = values
    text["examples"] = values[:1]
    for bound in ("minLength", "maxLength", "format"):
        text.pop(bound, None)


INSTANTS = st.datetimes(min_value=datetime(1970, 1, 2)).map(lambda moment: moment.isoformat() + "Z")
schemathesis.openapi.format("date-time", INSTANTS)


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Whether a failure counts."""
    if isinstance(failure, UnsupportedMethodResponse):
        return response.status_code != 415  # the door asks for JSON before it looks at paths
    if isinstance(failure, RejectedPositiveData):
        return response.status_code != 422 or not all(map(_told_in_words, response.json()["errors"]))
    if isinstance(failure, AcceptedNegativeData) and OUR_LISTS.search(str(failure.message)):
        return False  # the document itself has no such list
    if isinstance(failure, AcceptedNegativeData) and case.operation.label == "POST /api/v1/jobs/batch":
        return not any(result["status"] >= 400 for result in response.json()["results"])  # each is judged by itself
    return True


def _told_in_words(error: dict[str, str]) -> bool:
    return any(
        re.fullmatch(rf"({field})(\.\d+)?", error["field"] or "") and re.search(words, error["message"])
        for field, words in RULES
    )

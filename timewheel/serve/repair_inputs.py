"""What requests about dead letters, operations and the audit may say, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from timewheel.audits import MOST_ACTOR, MOST_REASON
from timewheel.letters import MOST_GROUPS, MOST_TEXT
from timewheel.policies import MAX_SECONDS
from timewheel.progress import MOST_CANARIES
from timewheel.serve.inputs import PAGE_JOBS, WHOLE, Given, Instant
from timewheel.serve.schedule_queries import Asked

Text = Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]
Token = Annotated[str | None, Field(min_length=1, max_length=500, description="From the page before.")]
_CAUSE = {
    "anyOf": [{"type": "boolean", "enum": [True]}, {"type": "string", "minLength": 1, "maxLength": MOST_REASON}],
    "description": "true, or what was done about the cause. What is not mended fails again: false is refused.",
    "examples": ["gateway restarted"],
}
Cause = Annotated[Any, WithJsonSchema(_CAUSE)]
Actor = Annotated[
    str | None, Field(min_length=1, max_length=MOST_ACTOR, examples=["ada"], description="Who acts, for the audit.")
]


class Letters(BaseModel):
    """Which dead letters are meant; what is not said means any. Instants are of when they died, both included."""

    queue: Text | None = None
    task: Text | None = None
    tag: Text | None = None
    fingerprint: Annotated[Text | None, Field(description="Of a group: letters that failed alike.")] = None
    since: Instant | None = None
    until: Instant | None = None


class LettersQuery(Letters, Asked):
    """Which dead letters a list shows, newest first."""

    page_size: Annotated[int, Field(ge=1, le=PAGE_JOBS)] = 100
    page_token: Token = None


class GroupsQuery(Letters, Asked):
    """Which dead letters are grouped."""

    limit: Annotated[int, Field(ge=1, le=MOST_GROUPS, description="How many groups; the largest are first.")] = 100


class WhoIn(Given):
    """Who acts, and why: both are kept in the audit."""

    actor: Annotated[str, Field(min_length=1, max_length=MOST_ACTOR, examples=["ada"])]
    reason: Annotated[str, Field(min_length=1, max_length=MOST_REASON, examples=["the bank is back"])]


class ReplayIn(WhoIn):
    """A replay of one job."""

    cause_fixed: Cause
    args: Annotated[list[Any] | None, Field(description="Instead of its positional arguments; null: they stay.")] = None
    kwargs: Annotated[dict[str, Any] | None, Field(description="Instead of those by name; null: they stay.")] = None


class RateIn(Given):
    """So many starts in so many seconds, evenly spaced, of which some may be at once."""

    count: Annotated[int, Field(ge=1, le=10**9), WHOLE]
    per_s: Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)] = 1
    burst: Annotated[int, Field(ge=1, le=10**6), WHOLE] = 1


class LettersReplayIn(Letters, WhoIn):
    """A replay of the dead letters that match."""

    model_config = ConfigDict(extra="forbid", strict=True)

    cause_fixed: Cause
    canary: Annotated[
        int,
        Field(ge=0, le=MOST_CANARIES, description="So many first; the others only when all of these have COMPLETED."),
        WHOLE,
    ] = 1
    rate: Annotated[RateIn | None, Field(description="Of the others; null: 10 a second.")] = None
    dry_run: Annotated[bool, Field(description="Only count. Nothing is done unless this is false.")] = True


class LettersDiscardIn(Letters, WhoIn):
    """A discard of the dead letters that match."""

    model_config = ConfigDict(extra="forbid", strict=True)

    dry_run: Annotated[bool, Field(description="Only count. Nothing is done unless this is false.")] = True


class PagesQuery(Asked):
    """Which page of a list."""

    page_size: Annotated[int, Field(ge=1, le=PAGE_JOBS)] = 100
    page_token: Token = None

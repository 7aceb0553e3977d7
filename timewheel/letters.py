"""Dead letters: jobs that ended DEAD and that nobody has discarded. The list of them, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from timewheel.audits import Account, account, replay_account
from timewheel.checks import printable, shown, whole
from timewheel.errors import InvalidOption
from timewheel.handles import Page, Query
from timewheel.job import Job
from timewheel.model import SECOND_US, job_text
from timewheel.policies import Rate
from timewheel.progress import DISCARD, MOST_CANARIES, REPLAY, Terms
from timewheel.store.port import LetterFilter
from timewheel.times import utc_datetime, when_us

if TYPE_CHECKING:
    from timewheel.operation import Operation
    from timewheel.store import letters as stored

DEFAULT_RATE = Rate(10)
MOST_GROUPS = 1_000
MOST_TEXT = 200


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters that failed alike: of one task, with one fingerprint (the error's type, and where it was raised).

    `letters`: how many. `error`: of the newest, whose id is `newest`. They ended from `first_at` to `last_at` (UTC).
    """

    fingerprint: str | None
    task: str
    error: str | None
    letters: int
    first_at: datetime
    last_at: datetime
    newest: str


def letter_group(found: stored.LetterGroup) -> LetterGroup:
    """A group as it is shown."""
    first, last = utc_datetime(found.first_at), utc_datetime(found.last_at)
    newest = job_text(found.newest)
    return LetterGroup(found.fingerprint, found.task, found.error, found.letters, first, last, newest)


class LettersDesk(Protocol):
    """What the list asks of its scheduler."""

    async def groups(self, which: LetterFilter, limit: int) -> list[LetterGroup]:
        """See DeadLetters.groups."""

    async def operate(self, kind: str, terms: Terms, who: Account, *, dry_run: bool) -> Operation:
        """Begin an operation; in a dry run only count."""


class DeadLetters(Query[Job[Any]]):
    """Dead letters, newest first: `await` for one Page, `async for` for all. Each is a Job, with its whole history."""

    def __init__(
        self,
        read: Callable[[str | None], Awaitable[Page[Job[Any]]]],
        count: Callable[[], Awaitable[int]],
        page_token: str | None,
        desk: LettersDesk,
        which: LetterFilter,
    ) -> None:
        super().__init__(read, count, page_token)
        self._desk = desk
        self._which = which

    async def groups(self, *, limit: int = 100) -> list[LetterGroup]:
        """Those that failed alike, the largest groups first; at most `limit` (1 to 1,000) of them."""
        return await self._desk.groups(self._which, whole("limit", limit, 1, MOST_GROUPS))

    async def replay(
        self,
        *,
        actor: str,
        reason: str,
        cause_fixed: str | bool,
        canary: int = 1,
        rate: Rate | None = None,
        dry_run: bool = False,
    ) -> Operation:
        """Run them again: each is the same job, with a new attempt, fresh retries and its history.

        Begins an Operation and returns once that is durable; the work goes on in the background, and after a restart.
        First `canary` (0 to 100) of the jobs, the newest, are replayed; only when all of them have COMPLETED the others
        follow, at `rate` (None: 10 a second). If one ends otherwise the operation stops, and the others stay dead
        letters. Jobs that die meanwhile are not touched. Asked again for the same while it runs, this returns the
        operation that runs. `actor`, `reason` and `cause_fixed` (True, or what was done about it) go into the audit.

        `dry_run` only counts. Raises InvalidOption, Overloaded, JournalFull.
        """
        who = replay_account(actor, reason, cause_fixed)
        whole("canary", canary, 0, MOST_CANARIES)
        if rate is not None and not isinstance(rate, Rate):
            raise InvalidOption(f"rate={shown(rate)}: it must be a Rate, like Rate(10), or None", field="rate")
        pace = rate or DEFAULT_RATE
        per_us = round(pace.per_s * SECOND_US)
        terms = Terms(self._which, canary, pace.count, per_us, pace.burst)
        return await self._desk.operate(REPLAY, terms, who, dry_run=_flag("dry_run", dry_run))

    async def discard(self, *, actor: str, reason: str, dry_run: bool = False) -> Operation:
        """Take them out of the list: they stay DEAD, with their history, until retention forgets them.

        An Operation, as for `replay`. `dry_run` only counts. Raises InvalidOption, Overloaded, JournalFull.
        """
        terms = Terms(self._which)
        return await self._desk.operate(DISCARD, terms, account(actor, reason), dry_run=_flag("dry_run", dry_run))


def letter_filter(
    *,
    queue: str | None,
    task: str | None,
    tag: str | None,
    fingerprint: str | None,
    since: datetime | float | None,
    until: datetime | float | None,
) -> LetterFilter:
    """Which dead letters are meant. Raises InvalidOption, InvalidTime."""
    texts = {"queue": queue, "task": task, "tag": tag, "fingerprint": fingerprint}
    for name, value in texts.items():
        if value is not None:
            _check_text(name, value)
    since_us = None if since is None else when_us(since, "datetime.now(UTC) - timedelta(seconds={})")
    until_us = None if until is None else when_us(until, "datetime.now(UTC) - timedelta(seconds={})")
    return LetterFilter(queue, task, tag, fingerprint, since_us, until_us)


def _check_text(name: str, value: Any) -> None:
    try:
        printable(name, value, MOST_TEXT)
    except InvalidOption as error:
        raise InvalidOption(str(error), field=name) from None


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidOption(f"{name}={shown(value)}: it must be True or False", field=name)
    return value

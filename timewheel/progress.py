"""How far an operation on many dead letters is, and how many it may take on next. Pure.

It goes through the jobs from the newest id down. `before` is where it stands: what lies above is done with, for ever,
so that a restart goes on there and nothing is done twice.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from timewheel.model import SECOND_US, job_number, job_text
from timewheel.store.port import LetterFilter

REPLAY, DISCARD = "replay", "discard"
AHEAD_US = 2 * SECOND_US  # replays are made due so far ahead of their time at most
STEP = 100  # jobs of one step
MOST_CANARIES = STEP
_PREFIX = "operation-"


def operation_text(number: int) -> str:
    """The public form of an operation's number.

    >>> operation_text(1 << 40 | 7)
    'operation-0000100000007'
    """
    return _PREFIX + job_text(number).removeprefix("job-")


def operation_number(text: Any) -> int | None:
    """The number behind its public form, or None when the text is not one."""
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        return None
    return job_number("job-" + text.removeprefix(_PREFIX))


@dataclass(frozen=True, slots=True)
class Terms:
    """What an operation was asked to do. `count` starts in `per_us`, of which `burst` may be at once; of replays only.

    `asked_at` (wall): what died later is not meant.
    """

    which: LetterFilter
    canary: int = 0
    count: int = 1
    per_us: int = 0
    burst: int = 1
    asked_at: int = 0

    def text(self) -> str:
        """As JSON text."""
        return json.dumps({**asdict(self), "which": self.which._asdict()})

    @classmethod
    def of(cls, text: str) -> Terms:
        """Of the JSON text."""
        data = json.loads(text)
        return cls(LetterFilter(**data.pop("which")), **data)

    def same_as(self, other: Terms) -> bool:
        """Whether both were asked the same, whenever that was."""
        return replace(self, asked_at=0) == replace(other, asked_at=0)

    @property
    def letters(self) -> LetterFilter:
        """Which dead letters are meant."""
        until = self.which.until
        return self.which._replace(until=self.asked_at if until is None else min(until, self.asked_at))

    @property
    def interval_us(self) -> int:
        """Between two starts: rounded up, so that the rate is never exceeded."""
        return -(-self.per_us // self.count)


@dataclass(slots=True)
class Progress:
    """See the module. `done`: replayed or discarded. `skipped`: no dead letters any more when their turn came.

    `canaries`: those replayed jobs that must complete before it goes on; `failed`: those of them that did not.
    `tried`: that part is over. `full_at`: when the bucket of its rate is full again (steady). `since_entry`: number of
    a journal entry that is older than all of its own. `written`: jobs below `before` that were done, and counted, by a
    step whose progress was not written.
    """

    matched: int
    before: int
    done: int = 0
    skipped: int = 0
    failed: int = 0
    canaries: list[int] = field(default_factory=list)
    tried: bool = False
    full_at: int = 0
    since_entry: int = 0
    written: list[int] = field(default_factory=list)

    def text(self) -> str:
        """As JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Progress:
        """Of the JSON text."""
        return cls(**json.loads(text))

    def room(self, terms: Terms, now_us: int) -> int:
        """How many jobs the next step may take; 0: it is too early for any."""
        if not self.tried:
            return min(STEP, terms.canary - len(self.canaries))
        if not terms.per_us:
            return STEP
        left = now_us + AHEAD_US - self._earliest(terms, now_us)
        return 0 if left < 0 else min(STEP, 1 + left // max(terms.interval_us, 1))

    def next_due(self, terms: Terms, now_us: int) -> int:
        """When the next job is to be due (steady): takes its place in the rate."""
        if not terms.per_us:
            return now_us
        due_at = self._earliest(terms, now_us)
        self.full_at = max(self.full_at, due_at) + terms.interval_us
        return due_at

    def patience_us(self, terms: Terms, now_us: int) -> int:
        """How long to wait until there is room for a step that is worth its commit."""
        return max(self._earliest(terms, now_us) - AHEAD_US // 2 - now_us, 0)

    def _earliest(self, terms: Terms, now_us: int) -> int:
        return max(now_us, self.full_at - (terms.burst - 1) * terms.interval_us)

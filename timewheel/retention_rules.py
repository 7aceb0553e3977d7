"""How long jobs that have ended are kept: the record `Retention`, and what it means for a pass. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

from timewheel.checks import printable, shown
from timewheel.errors import InvalidOption
from timewheel.model import SECOND_US, JobState, Now
from timewheel.policies import duration
from timewheel.store.letters import PruneRule

Age: TypeAlias = float | timedelta | None
_FIELDS = ("completed_s", "cancelled_s", "skipped_s", "dead_s", "discarded_s")
_STATES = (JobState.COMPLETED, JobState.CANCELLED, JobState.SKIPPED, JobState.DEAD, JobState.DEAD)
_LETTERS = _FIELDS.index("dead_s")
STEP_PATIENCE_US = 24 * 3600 * SECOND_US
_MAX_QUEUE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long jobs that have ended are kept, by how they ended; then they are forgotten, with their attempts.

    Each is seconds or a timedelta, at least 0, since the job ended; None, the default: for ever. `dead_s` is of dead
    letters, whether somebody looked at them or not; `discarded_s` of those that were discarded, since then. A queue
    that `queues` names follows its own Retention alone (which names no queues). Jobs that hold an idempotency key, or
    that others wait for, are kept until that is over. Raises InvalidOption naming the field.
    """

    completed_s: Age = None
    cancelled_s: Age = None
    skipped_s: Age = None
    dead_s: Age = None
    discarded_s: Age = None
    queues: Mapping[str, Retention] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ages_us()
        if not isinstance(self.queues, Mapping):
            raise InvalidOption(f"queues={shown(self.queues)}: it must map names to Retention", field="queues")
        for name, own in self.queues.items():
            printable("queues", name, _MAX_QUEUE)
            if not isinstance(own, Retention) or own.queues:
                raise InvalidOption(
                    f"queues: {shown(name)}: {shown(own)} must be a Retention without queues of its own, like "
                    f"Retention(completed_s=3600)",
                    field="queues",
                )

    def ages_us(self) -> tuple[int | None, ...]:
        """The ages in microseconds, in the order of the fields."""
        given = ((name, getattr(self, name)) for name in _FIELDS)
        return tuple(None if value is None else duration(name, value, zero=True) for name, value in given)

    @property
    def keeps_all(self) -> bool:
        """Whether nothing is ever forgotten."""
        return all(age is None for one in (self, *self.queues.values()) for age in one.ages_us())


def as_retention(value: Any) -> Retention | None:
    """`value` when it is a Retention or None. Raises InvalidOption."""
    if value is not None and not isinstance(value, Retention):
        raise InvalidOption(
            f"retention={shown(value)}: it must be a Retention, like Retention(completed_s=7 * 86400), or None"
        )
    return value


def prune_rules(retention: Retention, queues: Collection[str], now_us: int) -> tuple[PruneRule, ...]:
    """What may be forgotten at `now_us` (wall). `queues`: every queue that there is.

    A rule for all queues is used where no queue keeps its jobs longer; else each queue gets its own.
    """
    rules = []
    default = retention.ages_us()
    own = {name: each.ages_us() for name, each in retention.queues.items()}
    for place, state in enumerate(_STATES):
        age = default[place]
        ages: dict[str | None, int | None] = {name: its[place] for name, its in own.items()}
        if age is not None and all(one is not None and one <= age for one in ages.values()):
            ages[None] = age
        elif age is not None:
            ages = {**dict.fromkeys(queues, age), **ages}
        for queue, one in ages.items():
            if one is not None:
                rules.append(PruneRule(state, now_us - one, queue, letters=place == _LETTERS))
    return tuple(rules)


class Horizon:
    """The present, as retention counts it: a wall clock that was set forward ages no job before a day has passed.

    A clock set by mistake must not cost anybody his jobs. One that was set back counts at once.
    """

    def __init__(self) -> None:
        self._offset_us: int | None = None
        self._later_since: int | None = None

    def now_us(self, now: Now) -> int:
        """The wall instant from which ages count."""
        offset = now.wall_us - now.steady_us
        if self._offset_us is None or offset - self._offset_us <= SECOND_US:
            self._offset_us, self._later_since = offset, None
        elif self._later_since is None:
            self._later_since = now.steady_us
        elif now.steady_us - self._later_since >= STEP_PATIENCE_US:
            self._offset_us, self._later_since = offset, None
        return now.steady_us + self._offset_us

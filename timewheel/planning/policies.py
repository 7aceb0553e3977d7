"""Misfire and overlap: how callers name these policies, and the records that planning reads.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple

from timewheel.checks import printable, shown, whole
from timewheel.errors import InvalidOption
from timewheel.misfits import Misfit, explained
from timewheel.model import SECOND_US

MOST_CATCH_UP = 1_000
MOST_LIMIT = 100_000
MOST_KEY = 255
DEFAULT_LIMIT = 100


class Misfire(StrEnum):
    """What becomes of slots that were missed: reached more than `misfire_grace_s` late (down, suspended, paused).

    SKIP: none of them runs. LATEST: one job for the newest; the older ones are skipped. COALESCE: one job for the
    newest, which stands for the older ones. ALL: each runs, oldest first, at most `catch_up_max` of the newest,
    `catch_up_per_s` a second; one at a time where the overlap policy is SKIP, QUEUE_ONE or REPLACE.
    """

    SKIP = "SKIP"
    LATEST = "LATEST"
    COALESCE = "COALESCE"
    ALL = "ALL"


MisfireName = Misfire | Literal["SKIP", "LATEST", "COALESCE", "ALL"]


class MisfirePolicy(NamedTuple):
    """The misfire policy of a schedule, as stored. `catch_up_per_s` None: all at once."""

    kind: Misfire = Misfire.LATEST
    grace_us: int = 10 * SECOND_US
    catch_up_max: int = 100
    catch_up_per_s: float | None = 1.0


class OverlapKind(StrEnum):
    """The kinds of overlap policy; see Overlap."""

    SKIP = "SKIP"
    QUEUE_ONE = "QUEUE_ONE"
    REPLACE = "REPLACE"
    ALLOW = "ALLOW"
    QUEUE_ALL = "QUEUE_ALL"
    SERIALIZE = "SERIALIZE"


class OverlapPolicy(NamedTuple):
    """The overlap policy of a schedule, as stored: `limit` of ALLOW and QUEUE_ALL, `key` of SERIALIZE."""

    kind: OverlapKind = OverlapKind.SKIP
    limit: int | None = None
    key: str | None = None


_LIMITED = (OverlapKind.ALLOW, OverlapKind.QUEUE_ALL)
_KEYED = 'Overlap.SERIALIZE needs a key, by position: write Overlap.SERIALIZE("key")'


def _bad_call(args: tuple[Any, ...], misfit: Misfit) -> InvalidOption:
    """What is wrong with a call of Overlap.ALLOW or another member (the first of `args`)."""
    kind = args[0].policy.kind
    if kind not in _LIMITED:
        return InvalidOption(f"{args[0]!r} is a value, not a call: write overlap={args[0]!r}", field="overlap")
    if misfit.missing:
        text = f"Overlap.{kind}() lacks its limit: write Overlap.{kind}(limit=5), or Overlap.{kind} for {DEFAULT_LIMIT}"
    else:
        text = f"Overlap.{kind} takes a limit, by its name: write Overlap.{kind}(limit={shown(misfit.value)})"
    return InvalidOption(text, field="overlap")


@dataclass(frozen=True, slots=True, repr=False)
class Overlap:
    """What becomes of a slot while a job of its schedule is not final (a retry that waits included).

    Overlap.SKIP: it is skipped. Overlap.QUEUE_ONE: its job waits; later slots join the one that waits.
    Overlap.QUEUE_ALL, Overlap.QUEUE_ALL(limit=5): its job waits, behind at most `limit` (100) others.
    Overlap.ALLOW, Overlap.ALLOW(limit=5): it runs beside them, at most `limit` (100) at a time.
    Overlap.REPLACE: a cancel is asked of those that run, which do not retry; its job starts when they have ended.
    Overlap.SERIALIZE("key"): it gets a job with this concurrency key; of all jobs with it one runs at a time.
    Raises InvalidOption for a limit or a key that cannot be.
    """

    policy: OverlapPolicy

    def __post_init__(self) -> None:
        if not isinstance(self.policy, OverlapPolicy):
            raise InvalidOption(
                f"Overlap({shown(self.policy)}): write one of its members, like Overlap.SKIP or Overlap.ALLOW(limit=5)",
                field="overlap",
            )

    SKIP: ClassVar[Overlap]
    QUEUE_ONE: ClassVar[Overlap]
    REPLACE: ClassVar[Overlap]
    ALLOW: ClassVar[Overlap]
    QUEUE_ALL: ClassVar[Overlap]

    @explained(_bad_call)
    def __call__(self, *, limit: int) -> Overlap:
        """ALLOW or QUEUE_ALL with another limit, 1 to 100,000."""
        kind = self.policy.kind
        if kind not in _LIMITED:
            raise InvalidOption(f"Overlap.{kind} takes no limit; Overlap.ALLOW(limit=) and QUEUE_ALL(limit=) do")
        return Overlap(OverlapPolicy(kind, whole("limit", limit, 1, MOST_LIMIT)))

    @staticmethod
    @explained(lambda _args, _misfit: InvalidOption(_KEYED, field="overlap"))
    def SERIALIZE(key: str, /) -> Overlap:  # noqa: N802 - beside the members, as one of them
        """One at a time among all jobs with this concurrency key, whatever made them."""
        return Overlap(OverlapPolicy(OverlapKind.SERIALIZE, key=printable("SERIALIZE key", key, MOST_KEY)))

    def __repr__(self) -> str:
        kind, limit, key = self.policy
        if key is not None:
            return f"Overlap.{kind}({key!r})"
        return f"Overlap.{kind}" + (f"(limit={limit})" if limit not in (None, DEFAULT_LIMIT) else "")


Overlap.SKIP = Overlap(OverlapPolicy(OverlapKind.SKIP))
Overlap.QUEUE_ONE = Overlap(OverlapPolicy(OverlapKind.QUEUE_ONE))
Overlap.REPLACE = Overlap(OverlapPolicy(OverlapKind.REPLACE))
Overlap.ALLOW = Overlap(OverlapPolicy(OverlapKind.ALLOW, DEFAULT_LIMIT))
Overlap.QUEUE_ALL = Overlap(OverlapPolicy(OverlapKind.QUEUE_ALL, DEFAULT_LIMIT))

OverlapName = Overlap | Literal["SKIP", "QUEUE_ONE", "REPLACE", "ALLOW", "QUEUE_ALL"]
_NAMED = {
    "SKIP": Overlap.SKIP,
    "QUEUE_ONE": Overlap.QUEUE_ONE,
    "REPLACE": Overlap.REPLACE,
    "ALLOW": Overlap.ALLOW,
    "QUEUE_ALL": Overlap.QUEUE_ALL,
}


def misfire_kind(value: Any) -> Misfire:
    """The Misfire that `value` is or names. Raises InvalidOption."""
    if isinstance(value, str) and value in Misfire.__members__:
        return Misfire(value)
    raise InvalidOption(f"misfire={shown(value)}: it must be one of {', '.join(Misfire)}{_near(value, Misfire)}")


def overlap_policy(value: Any) -> OverlapPolicy:
    """The policy that `value`, an Overlap or a name, stands for. Raises InvalidOption."""
    if isinstance(value, Overlap):
        return value.policy
    if isinstance(value, str) and value in _NAMED:
        return _NAMED[value].policy
    if value in ("SERIALIZE", Overlap.SERIALIZE):
        raise InvalidOption("overlap='SERIALIZE' needs a key: write Overlap.SERIALIZE(\"key\")")
    raise InvalidOption(
        f"overlap={shown(value)}: it must be one of {', '.join(_NAMED)}, an Overlap with a limit, like "
        f'Overlap.ALLOW(limit=5), or Overlap.SERIALIZE("key"){_near(value, _NAMED)}'
    )


def _near(value: Any, names: Any) -> str:
    plain = value.strip().upper().replace("-", "_") if isinstance(value, str) and len(value) < 40 else None
    return f": did you mean {plain!r}?" if plain in list(names) else ""

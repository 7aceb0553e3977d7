"""Who hears of a batch: the surroundings first, then the receiver of each change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from timewheel.store.backlog import Entry, Receiver
    from timewheel.store.changes import Change, Outcome, Submit
    from timewheel.store.room import Room

T = TypeVar("T")
PORTION = 128  # outcomes that are told in one turn of the loop
SUBMITS_A_TURN = 250  # of one caller that are queued in one turn of the loop


class Aftermath(Protocol):
    """What the committer tells its surroundings, before any receiver hears of the batch."""

    def committed(self, changes: list[Change], outcomes: list[Outcome]) -> None:
        """The batch is durable."""

    def all_told(self) -> None:
        """Every receiver has heard of the batch; what follows from that now can still go into the next one."""

    async def journal_unknown(self, claimed: list[int]) -> None:
        """The journal was opened again after an unknown outcome: whatever was derived from it must be re-read.

        `claimed`: jobs that may have been claimed without anybody to run them. Nothing is written until this returns.
        """

    def journal_failed(self, cause: BaseException) -> None:
        """The committer has ended; nothing will be written any more."""


def reply_to(future: asyncio.Future[Any]) -> Receiver:
    """A receiver that completes a future; a future that was cancelled meanwhile is left alone."""

    def receive(outcome: Any) -> None:
        if future.done():
            return
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    return receive


class Tally:
    """Counts the outcomes of one caller's many submissions: `each(change, outcome or exception)` hears every one."""

    def __init__(self, each: Callable[[Submit, Any], None]) -> None:
        self._each = each
        self._outstanding = 0
        self._complete: asyncio.Future[None] | None = None

    def expect(self, change: Submit) -> Receiver:
        """The receiver of one more."""
        self._outstanding += 1
        return partial(self._receive, change)

    async def complete(self) -> None:
        """Wait until all that were expected have come."""
        if self._outstanding:
            self._complete = asyncio.get_running_loop().create_future()
            await self._complete

    def _receive(self, change: Submit, outcome: Any) -> None:
        self._outstanding -= 1
        self._each(change, outcome)
        if self._complete is not None and not self._outstanding and not self._complete.done():
            self._complete.set_result(None)


async def submit_all(
    changes: Iterable[Submit],
    each: Callable[[Submit, Any], None],
    room: Room,
    submit_soon: Callable[[Submit, Receiver], None],
) -> None:
    """Queue the submissions of one caller as there is room, and wait until `each` has heard of every one."""
    tally = Tally(each)
    try:
        for number, change in enumerate(changes):
            if number % SUBMITS_A_TURN == SUBMITS_A_TURN - 1:
                await asyncio.sleep(0)  # others want the loop too
            await room.wait()
            receive = tally.expect(change)
            try:
                submit_soon(change, receive)
            except Exception as refused:  # noqa: BLE001  full, or ended: each is told, for some are acknowledged
                receive(refused)
    finally:
        await tally.complete()  # also when the iterable raised: what came before it is told


def ignore(_: Any) -> None:
    """A receiver for what nobody wants to hear."""


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await what decides what is true even while we are cancelled; being cancelled comes after.

    Raises CancelledError only when somebody cancelled the work itself.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as request:
            cancelled = request
    if cancelled is not None:
        asyncio.current_task().cancel()  # type: ignore[union-attr]  # we run in a task; it ends at its next await
    return task.result()


async def let_others_run() -> None:
    """Leave the loop to others for a turn, in the midst of what is done as a whole; being cancelled comes after."""
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        asyncio.current_task().cancel()  # type: ignore[union-attr]  # we run in a task; it ends at its next await


async def tell_outcomes(
    aftermath: Aftermath, batch: list[Entry], outcomes: list[Outcome]
) -> tuple[Exception, list[Entry]] | None:
    """Tell a batch that is durable, a portion a turn of the loop; a fault comes back with those not told yet."""
    begin = 0
    try:
        for begin in range(0, max(1, len(batch)), PORTION):
            if begin:
                await let_others_run()
            portion = slice(begin, begin + PORTION)
            aftermath.committed([change for change, _ in batch[portion]], outcomes[portion])
            for (_, receive), outcome in zip(batch[portion], outcomes[portion], strict=True):
                receive(outcome)
        aftermath.all_told()
    except Exception as fault:  # noqa: BLE001  a fault of timewheel: those who were not told yet must not wait on
        return fault, batch[begin:]
    return None

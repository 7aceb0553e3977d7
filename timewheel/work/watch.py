"""The watch: ends a running handler at the first of its limits. They are its timeout, its silence and its deadline.

    limit                 counts                                        ends it when
    timeout_s             awake seconds since it began                  they are over
    heartbeat_timeout_s   awake seconds since it was heard last         they are over
    deadline              the wall clock, however it is set meanwhile   that shows this instant; at most a second later

A loop that was blocked keeps handlers from saying that they are alive: a look that comes late for that reason gives
them as long as it was late, once in a silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from timewheel.model import SECOND_US
from timewheel.work.context import last_heartbeat_us, listen

if TYPE_CHECKING:
    from timewheel.model import Now
    from timewheel.ports import Clock, Timer
    from timewheel.work.run import Run

LATE_US = SECOND_US // 10  # a look that comes so much later than it should: the loop was blocked
DEADLINE_CAME = "its deadline came while it ran"


class Watch:
    """See the module. `expired(run, why)` hears of a run that has reached a limit, once for each."""

    def __init__(self, clock: Clock, now: Callable[[], Now], expired: Callable[[Run, str], None]) -> None:
        self._clock = clock
        self._now = now
        self._expired = expired
        self._deadlines: dict[int, tuple[int, Run]] = {}  # job id -> (wall us, run)
        self._timer: Timer | None = None
        self._next_us = 0  # the deadline that the timer is for

    def begin(self, run: Run) -> None:
        """A handler has been entered."""
        timeout_us, flow = run.job.timeout_us, run.job.flow
        if timeout_us is not None:
            why = f"timed out after {timeout_us / SECOND_US:g} s"
            run.timer = self._clock.call_later(timeout_us / SECOND_US, lambda: self._expired(run, why))
        if flow is None:
            return
        if flow.heartbeat_timeout_us is not None:
            listen(run.context, self._awake_us)
            self._listen_for(run, flow.heartbeat_timeout_us, flow.heartbeat_timeout_us)
        if flow.deadline is not None:
            self._deadlines[run.job.job_id] = (flow.deadline, run)
            if self._timer is None or flow.deadline < self._next_us:
                self.look()

    def end(self, run: Run) -> None:
        """Its attempt is settled: nothing more is expected of it."""
        run.stop_timers()
        self._deadlines.pop(run.job.job_id, None)

    def _awake_us(self) -> int:
        return self._clock.read().awake_us

    # ---- silence -----------------------------------------------------------------------------------------------------

    def _listen_for(self, run: Run, timeout_us: int, left_us: int, spared_us: int = -1) -> None:
        """Look again when `left_us` are over. `spared_us`: the silence since it was heard then was forgiven already."""
        due_us = self._awake_us() + left_us
        run.pulse = self._clock.call_later(
            left_us / SECOND_US, lambda: self._listened(run, timeout_us, due_us, spared_us)
        )

    def _listened(self, run: Run, timeout_us: int, due_us: int, spared_us: int) -> None:
        now_us, heard_us = self._awake_us(), last_heartbeat_us(run.context)
        left_us = heard_us + timeout_us - now_us
        late_us = now_us - due_us
        if left_us > 0:
            self._listen_for(run, timeout_us, left_us)
        elif late_us >= LATE_US and heard_us != spared_us:
            self._listen_for(run, timeout_us, min(late_us, timeout_us), heard_us)
        else:
            self._expired(run, f"no heartbeat for {timeout_us / SECOND_US:g} s")

    # ---- deadlines ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """End what is past its deadline, by the wall clock as it stands, and see when to look again."""
        wall_us = self._now().wall_us
        for deadline, run in list(self._deadlines.values()):
            if deadline <= wall_us:
                del self._deadlines[run.job.job_id]
                self._expired(run, DEADLINE_CAME)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._deadlines:
            self._next_us = min(deadline for deadline, _ in self._deadlines.values())
            wait_s = min((self._next_us - wall_us) / SECOND_US, self._clock.longest_sleep_s)
            self._timer = self._clock.call_later(wait_s, self._looked)

    def _looked(self) -> None:
        self._timer = None
        self.look()

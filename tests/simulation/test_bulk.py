"""Cancelling a whole list."""

from __future__ import annotations

from timewheel import Scheduler
from timewheel.testing.virtual import VirtualMachine


async def idle(number: int) -> None:
    """A handler that does nothing."""


def test_a_list_is_cancelled_as_a_whole_and_a_dry_run_only_counts():
    machine = VirtualMachine()

    async def main() -> None:
        scheduler = Scheduler("memory://", system=machine.system)
        scheduler.task(name="idle")(idle)
        async with scheduler:
            await scheduler.at_many(scheduler.new(machine.now().timestamp() + 60, idle, i) for i in range(1_234))
            other = await scheduler.options(queue="other").after(60, idle, 0)
            listed = scheduler.jobs(state="SCHEDULED", queue="default")
            dry = await listed.cancel(dry_run=True)
            assert (dry.matched, dry.cancelled) == (1_234, 0)
            assert await listed.count() == 1_234
            done = await listed.cancel(reason="spring cleaning")
            assert (done.matched, done.cancelled, done.requested, done.too_late) == (1_234, 1_234, 0, 0)
            assert await scheduler.jobs(state="CANCELLED").count() == 1_234
            await machine.sleep(61)
            assert (await other.refresh()).state == "COMPLETED"
            assert (await scheduler.jobs(queue="default").cancel()).matched == 0

    machine.run(main())

"""Checkers of breakers and retry budgets: who starts while a dependency fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from timewheel.model import SECOND_US, AttemptState, job_number
from timewheel.testing.simulation.checking import Checker, attempt_of
from timewheel.testing.simulation.facts import Ended, Fact, LifeRecord, Over
from timewheel.testing.simulation.facts_flow import Passed, Went
from timewheel.testing.simulation.flow_plans import BANK

if TYPE_CHECKING:
    from timewheel.testing.simulation.world import World

SHUT = {"OPEN", "FORCED_OPEN"}
COUNT = {"ValueError", "Transient", "Ambiguous", "OSError", "LookupError", "ArithmeticError"}  # as failures, here
SAVED = f"breaker\n{BANK}"
SLACK_US = SECOND_US // 10
FORCED = {0: "FORCED_CLOSED", 1: "FORCED_OPEN"}


def bank_of(world: World) -> Any:
    """How the dependency is declared; None: it is not."""
    return world.plan.limits.get("dependencies", {}).get(BANK)


def starts_of(world: World, record: LifeRecord, fact: Fact) -> Passed | None:
    """A start of a job that calls the dependency, if it is one."""
    if not isinstance(fact, Passed):
        return None
    job = record.after["jobs"].get(fact.job_id)
    return fact if job is not None and job.task == "brittle" else None


class Breakers(Checker):
    """Who calls a dependency that fails."""

    number = "I17"
    sentence = "A breaker opens when enough has failed; open it lets nobody start, half open no more than its probes"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each start of this life."""
        bank = bank_of(world)
        if bank is None or not record.ran:
            return
        seen = Seen(bank["breaker"], record)
        for fact in world.log[record.begin : record.end]:
            if isinstance(fact, Went):
                cls.demand(fact.before in (seen.state, seen.state), f"it was {seen.state}", fact)
                seen.went(fact)
            elif isinstance(fact, Ended | Over):
                seen.ended(world, record, fact)
            elif (start := starts_of(world, record, fact)) is not None:
                wrong = seen.start(start)
                cls.demand(wrong is None, f"{wrong}", start)


class Seen:
    """A breaker, as the log tells of it."""

    def __init__(self, settings: dict[str, Any], record: LifeRecord) -> None:
        self._settings = settings
        saved = record.before["limits"].get(SAVED)
        self.state = "CLOSED" if saved is None else FORCED.get(saved, "OPEN")
        self._ended: list[tuple[int, bool]] = []  # when, and whether it failed
        self._probing: set[int] = set()
        self._fine: list[int] = []  # when, of probes that succeeded

    def went(self, fact: Went) -> None:
        """It has changed."""
        self.state = fact.after
        self._ended.clear()
        self._probing.clear()
        self._fine.clear()

    def ended(self, world: World, record: LifeRecord, fact: Ended | Over) -> None:
        """A handler, or a job, has ended."""
        number = fact.job_id if isinstance(fact, Over) else job_number(fact.job_id) or 0
        probed = number in self._probing
        self._probing.discard(number)
        job = record.after["jobs"].get(number)
        if job is None or job.task != "brittle" or isinstance(fact, Over):
            return
        attempt = attempt_of(record, fact)
        if probed and attempt is not None and attempt.state is AttemptState.SUCCEEDED:
            self._fine.append(fact.elapsed_us)
        self._ended.append((fact.elapsed_us, fact.how in COUNT))

    def start(self, fact: Passed) -> str | None:
        """What is wrong with a start."""
        if self.state in SHUT:
            return f"started, and its breaker is {self.state}"
        if self.state == "HALF_OPEN":
            self._probing.add(fact.job_id)
            if len(self._probing) > self._settings["probes"]:
                return f"{len(self._probing)} probe at once"
            fine = sum(each < fact.elapsed_us - SLACK_US for each in self._fine)
            if fine >= self._settings["closes_after"]:
                return f"started after {fine} probes have succeeded, and the breaker is half open"
        for at_us in [at_us for at_us, bad in self._ended if bad and fact.elapsed_us - at_us > SLACK_US]:
            failed, others = self._counted(at_us)
            if self.state == "CLOSED" and failed >= self._settings["failures"] and failed >= others:
                return f"started after {failed} failures, {others} others, and the breaker is closed"
        return None

    def _counted(self, failed_us: int) -> tuple[int, int]:
        """The failures, at least, and the others, at most, that counted when this failure made it judge."""
        window_us = round(self._settings["window_s"] * SECOND_US)
        failed = sum(bad for at_us, bad in self._ended if 0 <= failed_us - at_us < window_us * 0.8)
        others = sum(not bad for at_us, bad in self._ended if -SLACK_US < failed_us - at_us < window_us * 1.2)
        return failed, others


class RetryBudgets(Checker):
    """Retries as a share of the starts."""

    number = "I17"
    sentence = "In any window no more of the starts are retries than the budget's share, and as many more as it says"

    @classmethod
    def life_over(cls, world: World, record: LifeRecord) -> None:
        """Each retry of this life; a restart begins anew."""
        starts = [fact for fact in world.log[record.begin : record.end] if isinstance(fact, Passed)]
        jobs = {start.job_id: record.after["jobs"].get(start.job_id) for start in starts}
        if (bank := bank_of(world)) is not None and bank["retry_budget"] is not None:
            of_bank = [each for each in starts if (job := jobs[each.job_id]) is not None and job.task == "brittle"]
            cls._spend(bank["retry_budget"], BANK, of_bank)
        for queue, limits in world.plan.limits["queues"].items():
            if budget := limits.get("retry_budget"):
                of_queue = [each for each in starts if (job := jobs[each.job_id]) is not None and job.queue == queue]
                cls._spend(budget, queue, of_queue)

    @classmethod
    def _spend(cls, budget: dict[str, Any], name: str, starts: list[Passed]) -> None:
        window_us = round(budget["window_s"] * SECOND_US)
        for place, start in enumerate(starts):
            recent = [each for each in starts[: place + 1] if each.steady_us > start.steady_us - window_us]
            retries = sum(each.retry for each in recent)
            allowed = budget["share"] * len(recent) + budget["at_least"]
            fine = not start.retry or retries <= allowed + 1e-6
            cls.demand(fine, f"{retries} retries of {len(recent)} starts of {name}", start)

"""The methods, and how each is run: in full for the table of the README, and in a small share."""

from typing import NamedTuple


class Method(NamedTuple):
    """`module` takes `--report FILE` and writes there at least "cases", "faults" and "violations", all counts.

    `unit` says what a case is.
    """

    name: str
    unit: str
    module: str
    full: str
    quick: str

    def command(self, quick: bool) -> str:
        """What follows `python -m`."""
        return f"{self.module} {self.quick if quick else self.full}".strip()


METHODS = (
    Method(
        "simulation",
        "lives",
        "timewheel.testing.simulation",
        "--seeds 30000..31599 --store memory,sqlite",
        "--seeds 30000..30019",
    ),
    Method("year", "slots of 1,000 schedules", "tests.planning.year", "--schedules 1000", "--schedules 30"),
    Method("planted-bugs", "bugs, each found", "tests.planted", "", ""),
    Method("model", "runs of all stores", "tests.conformance", "--runs 300", "--runs 5"),
    Method("sigkill", "journals", "tests.crash.kills", "--kills 400 --serve 100", "--kills 10 --serve 2"),
    Method("kth-call", "lives cut at call k", "tests.crash.kth", "--all", "--every 150"),
    Method("power-cut", "images", "tests.crash.power", "--images 10000", "--images 300"),
    Method("flipped-bit", "bits", "tests.crash.flips", "--flips 4000", "--flips 40"),
    Method("mutation", "mutants", "tests.mutation", "", "--only backoff"),
    Method("api-fuzz", "requests", "tests.fuzz.api", "--examples 100", "--examples 3"),
    Method("parser-fuzz", "inputs", "tests.fuzz.parsers", "all --seconds 30", "times --seconds 5"),
)

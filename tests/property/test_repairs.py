"""The pure parts of repairs: the pace of an operation, what retention may forget, and when an alarm begins and ends."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timewheel import InvalidOption, Rate, Retention
from timewheel.alerting import Hysteresis
from timewheel.audits import Word, account, account_of, audit_entry, replay_account, word
from timewheel.model import SECOND_US, JobState, Now
from timewheel.progress import AHEAD_US, STEP, Progress, Terms, operation_number, operation_text
from timewheel.retention_rules import STEP_PATIENCE_US, Horizon, prune_rules
from timewheel.store.port import LetterFilter

# ---- the pace --------------------------------------------------------------------------------------------------------


def terms(rate: Rate, canary: int = 0) -> Terms:
    return Terms(LetterFilter(), canary, rate.count, round(rate.per_s * SECOND_US), rate.burst, 5)


rates = st.builds(Rate, st.integers(1, 200), st.sampled_from([0.5, 1, 7, 60]), st.integers(1, 20))
lives = st.lists(st.tuples(st.booleans(), st.integers(0, 3 * SECOND_US)), max_size=30)


@given(rates, lives, st.integers(1, 150))
def test_no_window_has_more_starts_than_rate_and_burst_allow(
    rate: Rate, life: list[tuple[bool, int]], cap: int
) -> None:
    """Also when it is written and read back in between, as a restart does."""
    asked, progress, now = terms(rate), Progress(10_000, 10_000, tried=True), 0
    dues: list[int] = []
    for restarts, pause_us in life:
        now += pause_us
        if restarts:
            progress = Progress.of(progress.text())
        for _ in range(min(progress.room(asked, now), cap)):
            dues.append(progress.next_due(asked, now))
            assert now <= dues[-1] <= now + AHEAD_US
    assert dues == sorted(dues)
    for first in range(len(dues)):
        for last in range(first, len(dues)):
            within = last - first + 1
            assert (within - rate.burst) * rate.per_s * SECOND_US <= (dues[last] - dues[first]) * rate.count


@given(rates, st.integers(0, 10 * SECOND_US))
def test_whoever_waits_out_the_patience_finds_room(rate: Rate, now: int) -> None:
    asked, progress = terms(rate), Progress(10_000, 10_000, tried=True)
    for _ in range(3 * STEP):
        progress.next_due(asked, now)
    patience = progress.patience_us(asked, now)
    assert progress.room(asked, now + patience) >= 1
    if patience:
        wide = progress.room(asked, now + patience) * asked.interval_us
        assert wide >= min(AHEAD_US // 2, STEP * asked.interval_us), "a step is worth its commit"


def test_canaries_come_first_and_no_more_than_asked() -> None:
    asked, progress = terms(Rate(1000, burst=1000), canary=3), Progress(10, 10)
    assert progress.room(asked, 0) == 3
    progress.canaries.append(9)
    assert progress.room(asked, 0) == 2
    progress.tried = True
    assert progress.room(asked, 0) == STEP


def test_terms_and_progress_survive_the_journal() -> None:
    asked = Terms(LetterFilter("q", "t", "tag", "print", 1, 2), 3, 4, 5, 6, 7)
    assert Terms.of(asked.text()) == asked
    progress = Progress(1, 2, 3, 4, 5, [6, 7], tried=True, full_at=8, since_entry=9, written=[10])
    assert Progress.of(progress.text()) == progress


def test_an_operation_means_what_had_died_when_it_was_asked_for() -> None:
    assert Terms(LetterFilter(), asked_at=50).letters.until == 50
    assert Terms(LetterFilter(until=40), asked_at=50).letters.until == 40
    assert Terms(LetterFilter(until=60), asked_at=50).letters.until == 50


def test_the_same_is_asked_whenever_it_is_asked() -> None:
    one = Terms(LetterFilter("q"), 1, 10, SECOND_US, asked_at=5)
    assert one.same_as(Terms(LetterFilter("q"), 1, 10, SECOND_US, asked_at=6))
    for other in (
        Terms(LetterFilter("r"), 1, 10, SECOND_US, asked_at=5),
        Terms(LetterFilter("q"), 2, 10, SECOND_US, asked_at=5),
        Terms(LetterFilter("q"), 1, 11, SECOND_US, asked_at=5),
        Terms(LetterFilter("q", until=9), 1, 10, SECOND_US, asked_at=5),
    ):
        assert not one.same_as(other)


@given(st.integers(0, 2**62))
def test_ids_of_operations_come_back(number: int) -> None:
    assert operation_number(operation_text(number)) == number


@pytest.mark.parametrize("text", ["", "job-0000100000007", "operation-", "operation-xyz", None, 7, "operation-job-00"])
def test_other_texts_are_no_ids_of_operations(text: object) -> None:
    assert operation_number(text) is None


# ---- who and why -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cause_fixed", [True, "deployed 1.2.3"])
def test_what_was_said_stands_in_the_entry(cause_fixed: str | bool) -> None:
    who = replay_account("ada", "customers wait", cause_fixed)
    assert account_of(who.text()) == who
    entry = audit_entry((3, 1_700_000_000_000_000, "audit", who.entry("replay", job="job-1", replaced=None, n=5)))
    assert (entry.number, entry.action, entry.actor, entry.reason) == (3, "replay", "ada", "customers wait")
    assert (entry.cause_fixed, entry.job_id, entry.operation_id) == (cause_fixed, "job-1", None)
    assert entry.details == {"n": 5}


def test_what_was_said_of_a_queue_stands_in_the_entry() -> None:
    entry = audit_entry((3, 0, "audit", word("ada", "it is slow").entry("pause", queue="mail", more=None, n=5)))
    assert (entry.action, entry.actor, entry.reason) == ("pause", "ada", "it is slow")
    assert (entry.queue, entry.dependency, entry.job_id, entry.details) == ("mail", None, None, {"n": 5})
    entry = audit_entry((4, 0, "audit", word(None, None).entry("auto", dependency="stripe")))
    assert (entry.actor, entry.reason, entry.queue, entry.dependency) == (None, None, None, "stripe")
    assert word(None, "why") == Word(None, "why")


@pytest.mark.parametrize(
    ("said", "field"),
    [(("", "why"), "actor"), ((5, None), "actor"), (("me", ""), "reason"), ((None, "a\nb"), "reason")],
)
def test_what_is_said_is_checked(said: tuple[str, str], field: str) -> None:
    with pytest.raises(InvalidOption, match="kept in the audit") as raised:
        word(*said)
    assert raised.value.field == field


@pytest.mark.parametrize("text", ["[1]", '"text"', "null", '{"something": "else"}'])
def test_entries_of_others_are_shown_too(text: str) -> None:
    assert audit_entry((1, 0, "audit", text)).details in ({"data": json.loads(text)}, {"something": "else"})


@pytest.mark.parametrize(
    ("said", "field", "words"),
    [
        (("", "why", True), "actor", "1 to 200"),
        (("me\n", "why", True), "actor", "printable"),
        ((None, "why", True), "actor", "audit"),
        (("me", "", True), "reason", "1 to 1000"),
        (("me", 5, True), "reason", "audit"),
        (("me", "why", False), "cause_fixed", "fails again"),
        (("me", "why", None), "cause_fixed", "True, or a str"),
        (("me", "why", ""), "cause_fixed", "True, or a str"),
        (("me", "why", 1), "cause_fixed", "True, or a str"),
    ],
)
def test_a_replay_without_who_why_and_a_fixed_cause_is_refused(said: tuple, field: str, words: str) -> None:
    with pytest.raises(InvalidOption, match=words) as refused:
        replay_account(*said)
    assert refused.value.field == field


def test_a_discard_needs_no_fixed_cause() -> None:
    assert account("me", "test data").cause_fixed is None
    assert "cause_fixed" not in account("me", "test data").entry("discard")


# ---- retention -------------------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d")
ages = st.none() | st.integers(0, 5)
keepings = st.builds(Retention, completed_s=ages, cancelled_s=ages, skipped_s=ages, dead_s=ages, discarded_s=ages)
retentions = st.builds(
    lambda base, queues: Retention(
        **{name: getattr(base, name) for name in base.__slots__ if name != "queues"}, queues=queues
    ),
    keepings,
    st.dictionaries(st.sampled_from(NAMES[:3]), keepings),
)
FIELDS = {JobState.COMPLETED: "completed_s", JobState.CANCELLED: "cancelled_s", JobState.SKIPPED: "skipped_s"}


def may_go(
    retention: Retention, state: JobState, queue: str, ended_s: int, discarded_s: int | None, now_s: int
) -> bool:
    """What the docstring of Retention says, job by job."""
    own = retention.queues.get(queue, retention)
    if state is not JobState.DEAD:
        age = getattr(own, FIELDS[state])
        return age is not None and ended_s < now_s - age
    if own.dead_s is not None and ended_s < now_s - own.dead_s:
        return True
    return own.discarded_s is not None and discarded_s is not None and discarded_s < now_s - own.discarded_s


@given(
    retentions,
    st.sampled_from([*FIELDS, JobState.DEAD]),
    st.sampled_from(NAMES),
    st.integers(0, 12),
    st.none() | st.integers(0, 12),
)
def test_the_rules_name_exactly_what_retention_lets_go(
    retention: Retention, state: JobState, queue: str, ended_s: int, discarded_s: int | None
) -> None:
    now_s = 10
    named = False
    for rule in prune_rules(retention, NAMES, now_s * SECOND_US):
        if rule.state is state and rule.queue in (None, queue):
            since = ended_s if state is not JobState.DEAD or rule.letters else discarded_s
            named = named or (since is not None and since * SECOND_US < rule.ended_before)
    assert named == may_go(retention, state, queue, ended_s, discarded_s, now_s)


@given(retentions)
def test_what_keeps_all_has_no_rule(retention: Retention) -> None:
    assert retention.keeps_all == (not prune_rules(retention, NAMES, 10))


def test_nothing_is_forgotten_unasked() -> None:
    assert Retention().keeps_all


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"completed_s": -1}, "completed_s=-1"),
        ({"dead_s": True}, "dead_s=True"),
        ({"discarded_s": "1d"}, "discarded_s='1d'"),
        ({"queues": []}, "it must map names"),
        ({"queues": {"mail": 5}}, "must be a Retention"),
        ({"queues": {"": Retention()}}, "1 to 100 printable"),
        ({"queues": {"a": Retention(queues={"b": Retention()})}}, "without queues of its own"),
    ],
)
def test_a_bad_retention_is_refused(options: dict, words: str) -> None:
    with pytest.raises(InvalidOption, match=words):
        Retention(**options)


def test_a_clock_set_forward_ages_no_job_before_a_day_has_passed() -> None:
    horizon, year = Horizon(), 365 * 24 * 3600 * SECOND_US
    assert horizon.now_us(Now(1_000, 0)) == 1_000
    assert horizon.now_us(Now(1_010 + year, 10)) == 1_010
    almost = STEP_PATIENCE_US + 9
    assert horizon.now_us(Now(1_000 + almost + year, almost)) == 1_000 + almost
    later = STEP_PATIENCE_US + 10
    assert horizon.now_us(Now(1_000 + later + year, later)) == 1_000 + later + year


def test_a_clock_set_right_again_within_a_day_has_cost_nothing() -> None:
    horizon, hour = Horizon(), 3600 * SECOND_US
    horizon.now_us(Now(0, 0))
    horizon.now_us(Now(50 * hour, hour))
    assert horizon.now_us(Now(2 * hour, 2 * hour)) == 2 * hour
    assert horizon.now_us(Now(70 * hour, 3 * hour)) == 3 * hour
    assert horizon.now_us(Now(90 * hour, 26 * hour)) == 26 * hour, "the day begins anew"


@given(st.lists(st.integers(0, 10**7), max_size=20))
def test_a_clock_set_back_counts_at_once(steps: list[int]) -> None:
    horizon, wall = Horizon(), 10**15
    for step in steps:
        wall -= step
        assert horizon.now_us(Now(wall, 5)) == wall


# ---- alarms ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 50), st.lists(st.integers(0, 60), max_size=60))
def test_alarms_begin_at_the_bound_and_end_at_four_fifths(bound: int, values: list[int]) -> None:
    watched, raised = Hysteresis(bound), False
    for value in values:
        told = watched.look(value)
        if not raised:
            assert told is (True if value >= bound else None)
        else:
            assert told is (False if value <= 0.8 * bound else None)
        raised = raised if told is None else told


def test_a_number_that_dances_around_its_bound_raises_one_alarm() -> None:
    watched = Hysteresis(1000)
    told = [watched.look(value) for value in (990, 1000, 999, 1001, 999, 1000, 801, 1000, 800, 999)]
    assert told == [None, True, None, None, None, None, None, None, False, None]

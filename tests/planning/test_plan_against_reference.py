"""plan() against a model that goes slot by slot, through lives of random moves; and the laws of what comes of them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planning.reference import has_to_go_back, reference, start_of
from tests.planning.worlds import TZDATA, World, definitions, moves
from timewheel.model import ClockKind
from timewheel.planning.position import renewed, wake_at
from timewheel.recurrence.interval import Every
from timewheel.schedule_records import Fate, SkipReason


def slots_between(world, first, last):
    """Every slot in [first, last], found one by one."""
    rule = world.definition.rule
    if isinstance(rule, Every):
        phase = world.first.at % rule.interval_us
        begin = first + (phase - first) % rule.interval_us
        return list(range(begin, last + 1, rule.interval_us))
    found = []
    at = rule.following(first - 1)
    while at is not None and at.instant_us <= last:
        found.append(at.instant_us)
        at = rule.following(at.instant_us)
    return found


def fates_of(world, made):
    """What a plan says of each slot, as the model says it; gaps are left out."""
    found = []
    for row, number in zip(made.rows, made.stands, strict=True):
        if row.reason == SkipReason.GAP:
            continue
        job = row.job_id if number is None else ("new", number)
        slots = slots_between(world, row.first_at, row.last_at)
        assert (slots[0], slots[-1], len(slots)) == (row.first_at, row.last_at, row.count)
        reason = None if row.reason is None else row.reason.value
        found += [(slot, row.fate.value, reason, job) for slot in slots]
    return found


def agree(world, made, because):
    answer = reference(world.definition, world.position, world.unfinished, world.now, because.value)
    assert fates_of(world, made) == sorted(tuple(fate) for fate in answer.fates)
    told = [
        (job.origin.nominal_at, job.origin.catch_up, job.origin.missed and tuple(job.origin.missed))
        for job in made.jobs
    ]
    assert told == answer.jobs
    assert (made.position.at, made.position.turn, made.ended) == (answer.at, answer.turn, answer.ended)
    assert (made.position.catch_up_until is not None) == answer.catching_up
    assert (made.hold, made.supersede, list(made.cancel)) == (answer.hold, answer.supersede, answer.cancel)
    assert made.position.made == world.position.made + len(made.jobs)


def check_jobs(world, made):
    """Each job is due on its slot or within the jitter after it, and before the next slot."""
    clock = ClockKind.STEADY if isinstance(world.definition.rule, Every) else ClockKind.WALL
    for wanted in made.jobs:
        origin = wanted.origin
        assert (origin.schedule, origin.clock, wanted.clock) == (world.schedule, clock, clock)
        assert origin.turn == made.position.turn
        late = wanted.scheduled_at - origin.nominal_at
        assert 0 <= late <= max(0, world.definition.jitter_us - 1)
        if late:
            assert slots_between(world, origin.nominal_at + 1, wanted.scheduled_at) == []


def check_rows(world, made):
    firsts = [row.first_at for row in made.rows]
    assert firsts == sorted(set(firsts))
    assert len(made.rows) <= 2 + len(made.jobs) + 100 + sum(row.reason == SkipReason.GAP for row in made.rows)
    for row, number in zip(made.rows, made.stands, strict=True):
        assert row.turn == made.position.turn
        assert (number is not None or row.job_id is not None) == (row.fate is not Fate.SKIPPED)
        assert row.recorded_at == world.now.wall_us


def check_next(world, made):
    """next_at is the slot after the position, and the time to wake up is never later than there is something to do."""
    position = made.position
    again = renewed(world.definition, position, world.now, TZDATA)
    assert again == position
    assert made.ended == (position.next_at is None)
    if made.ended:
        assert wake_at(position) is None
    elif position.catch_up_until is None:
        assert wake_at(position) == (position.clock, position.next_at)
        assert position.next_at > world.now.on(position.clock) or len(made.rows) >= 1
    else:
        assert wake_at(position) == (ClockKind.STEADY, position.catch_up_at)


def step(world, because=SkipReason.MISFIRE):
    """Plan until there is nothing left to do now."""
    for _ in range(50):
        made = world.look(because)
        agree(world, made, because)
        check_rows(world, made)
        check_jobs(world, made)
        check_next(world, made)
        before = world.position
        world.carry_out(made)
        wake = wake_at(world.position)
        if world.ended or wake is None or wake.at > world.now.on(wake.clock):
            again = world.look(because)
            assert (again.rows, again.jobs, again.position) == ([], [], world.position), (
                "planning again changes something"
            )
            return
        assert world.position != before, "there is something to do, and a plan does nothing"


def live(world, apart, data, most_moves):
    for what, much in data.draw(st.lists(moves(apart), min_size=1, max_size=most_moves)):
        if world.ended:
            return
        if what in ("wait", "nap"):
            world.steady += much
        elif what == "slot":
            world.wait_for_slot(much)
        elif what == "step":
            world.offset += much
        elif what == "finish":
            world.finish(much)
        elif what == "pause":
            world.steady += much
            step(world, SkipReason.PAUSED)
            continue
        if what != "nap":
            step(world)
    step(world)


def check_ledger(world):
    """Each slot of each turn that was planned is in exactly one row, and names are never used twice."""
    rows = [row for row in world.rows if row.reason != SkipReason.GAP]
    names = [(row.clock, row.first_at, row.turn, row.kind) for row in world.rows]
    assert len(names) == len(set(names))
    for turn in range(world.position.turn + 1):
        spans = sorted((row.first_at, row.last_at) for row in rows if row.turn == turn)
        assert spans == [(row.first_at, row.last_at) for row in rows if row.turn == turn], "not in the order of time"
        assert all(one[1] < other[0] for one, other in pairwise(spans)), "a slot is in two rows"
        if spans:
            counted = sum(row.count for row in rows if row.turn == turn)
            assert counted == len(slots_between(world, spans[0][0], spans[-1][1])), "a slot is in no row"
    ids = [row.job_id for row in rows if row.fate is Fate.JOB]
    assert ids == [job_id for job_id, _ in world.jobs]
    assert world.position.made == len(world.jobs)
    if world.definition.max_runs is not None:
        assert len(world.jobs) <= world.definition.max_runs


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_life_agrees_with_the_model_and_loses_no_slot(data):
    definition, start_us, apart = data.draw(definitions())
    world = World(definition, start_us, data.draw(st.sampled_from([0, 0, 7_000_123])))
    live(world, apart, data, 12)
    check_ledger(world)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_first_slot_after_making_is_the_first_that_is_accounted_for(data):
    """From the first position on, nothing is left out: the ledger of one turn begins with the first slot."""
    definition, start_us, apart = data.draw(definitions())
    world = World(definition, start_us)
    world.steady += data.draw(st.integers(0, 100)) * apart
    step(world)
    rows = [row for row in world.rows if row.reason != SkipReason.GAP]
    if rows and world.position.catch_up_until is None and not world.ended:
        first = (
            start_of(definition, world.now._replace(wall_us=start_us))
            if not isinstance(definition.rule, Every)
            else world.first.at
        )
        expected = slots_between(world, first + 1, world.now.on(world.position.clock))
        assert sum(row.count for row in rows) == len(expected)
        assert rows[0].first_at == expected[0]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_many_small_steps_and_one_great_one_account_for_the_same_slots(data):
    definition, start_us, apart = data.draw(definitions())
    one, many = World(definition, start_us), World(definition, start_us)
    pieces = data.draw(st.lists(st.integers(0, 20 * apart), min_size=1, max_size=8))
    for piece in pieces:
        many.steady += piece
        step(many)
    one.steady += sum(pieces)
    step(one)

    def accounted(world):
        rows = [row for row in world.rows if row.reason != SkipReason.GAP]
        return [slot for row in rows for slot in slots_between(world, row.first_at, row.last_at)]

    whole, parts = accounted(one), accounted(many)
    if definition.max_runs is None and one.position.catch_up_until is None and many.position.catch_up_until is None:
        assert whole == parts
    else:  # an end by max_runs, or a catch-up that goes on, may come at another slot
        short, long = sorted((whole, parts), key=len)
        assert long[: len(short)] == short
    gaps = [[(row.first_at, row.count) for row in world.rows if row.reason == SkipReason.GAP] for world in (one, many)]
    short, long = sorted(gaps, key=len)
    assert long[: len(short)] == short


def test_the_model_goes_back_as_the_real_one_does():
    """Both judge a step for themselves: here they are held to one answer on its edges."""
    from timewheel.model import Now
    from timewheel.planning.definition import Definition
    from timewheel.planning.position import first_position, stepped_back
    from timewheel.recurrence.cron import Cron

    for text in ("*/5 * * * *", "30 2 * * *"):
        definition = Definition(rule=Cron(text), task="t")
        start = 1_767_571_200_000_000
        position = first_position(definition, Now(start, start), TZDATA)
        for size in (1, 249_999, 250_000, 250_001, 3 * 3_600_000_000 - 1, 3 * 3_600_000_000, 10**12):
            now = Now(start + 60_000_000 - size, start + 60_000_000)
            assert stepped_back(definition, position, now) == has_to_go_back(definition, position, now)

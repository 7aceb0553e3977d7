"""The planted bugs of schedules: mistakes in planning, in edits of schedules, and in how a journal keeps them."""

from __future__ import annotations

from tests.planted.planting import Bug, all_of, edit, edited, into, reworded
from timewheel.model import JobState, Now
from timewheel.planning import (
    by_hand,
    carrier,
    drafts,
    edits,
    jitter,
    overlap,
    plan,
    position,
    review,
    roster,
    rounds,
)
from timewheel.planning.planner import Planner
from timewheel.store import heirs
from timewheel_storage import memory_claims, memory_schedules
from timewheel_storage.sqlite import read_schedules, write_claim, write_plan, write_take_over

STANDING_BUGS: list[Bug] = []
_bug = into(STANDING_BUGS)


# ---- no slot twice, none forgotten (I5, I15, I21) --------------------------------------------------------------------

_bug(
    "position not saved",
    "a plan writes its rows and jobs, and the schedule stays where it was",
    edit(memory_schedules.Standing, "_move_on", "replace(old, position=plan.position)", "replace(old)"),
    "I5 I15",
    20,
)
_bug(
    "plan not remembered",
    "the planner does not take note that a plan was written, and plans from the old position",
    edit(carrier.Carrier, "done", "kept.record = carried(before, change)", "carried(before, change)"),
    "I5 I15 I29",
    20,
)
_bug(
    "unknown plan taken for failed",
    "a plan of unknown outcome is made again from the old position, though it may have been written",
    edit(rounds.Rounds, "_written", "kept.stale = True", "pass"),
    "I5 I15",
    150,
    near=46,
)
_bug(
    "fixed slots passed again",
    "every rule of wall time is planned from now on again when the clock is set back a little",
    edit(position, "stepped_back", "and definition.rule.wild)", ")"),
    "I5",
    100,
    near=21,
)
_bug(
    "the turn stays",
    "a schedule that is planned from now on again gives its slots the names that they had",
    edit(position, "settled", "turn=position.turn + 1,", "turn=position.turn,"),
    "I5 I30",
    60,
)
_bug(
    "edit forgets what has come",
    "a changed rule counts from now, and what was due under the old one is not accounted for",
    edit(edits.Edits, "_change", "if same or old is None else await self._accountant.leave(kept)", ""),
    "I5",
    80,
    near=3,
)
_bug(
    "deleted without account",
    "a schedule is deleted with slots that had come since it was paused, and no row tells of them",
    edit(edits.Edits, "drop", "await self._accountant.leave(kept)", "pass"),
    "I5",
    250,
)
_bug(
    "declared anew each time",
    "an equal declaration works out the next time anew: an overdue slot is lost, a long interval never ends",
    edit(edits.Edits, "declare", "record.definition == definition.to_text()", "False"),
    "I5",
    40,
)
_bug(
    "every second slot lost",
    "of several slots that have come every second one is passed over",
    edit(plan, "_each", "after = slot", "after = min(draft.first(slot) or slot, reached)"),
    "I5",
    40,
)
_bug(
    "made up for what ran",
    "a backfill also runs slots whose jobs have completed",
    edit(
        by_hand.ByHand,
        "_ran",
        "entry.job_state not in _DID_NOT_RUN",
        "entry.job_state not in {*_DID_NOT_RUN, JobState.COMPLETED}",
        JobState=JobState,
    ),
    "I5",
    120,
    near=27,
)
_bug(
    "gap without a row",
    "times that a gap swallowed leave no row",
    edit(drafts.Draft, "lose", "self.slots.lost(self.position.at, until)", "[]"),
    "I5",
    400,
    near=21,
)

# ---- misfire (I19) ---------------------------------------------------------------------------------------------------

_bug(
    "missed counted without itself",
    "a job for a missed slot is told of one slot too few",
    edit(plan, "_missed", "older.count + (late is not None)", "older.count"),
    "I19",
    40,
)
_bug(
    "late off by a grace",
    "a slot counts as missed without any grace",
    edit(plan, "_new_slots", "late = reached - misfire.grace_us - 1", "late = reached - 1"),
    "I19",
    20,
)
_bug(
    "SKIP runs the last",
    "under SKIP the newest missed slot runs",
    edit(plan, "_new_slots", "if misfire.kind is Misfire.SKIP:", "if misfire.kind is Misfire.SKIP and first > late:"),
    "I5 I19",
    60,
)
_bug(
    "coalesced into nothing",
    "under COALESCE the older slots are skipped, not coalesced",
    edit(plan, "_new_slots", "merge=misfire.kind is Misfire.COALESCE", "merge=False"),
    "I19",
    80,
)
_bug(
    "catch-up cap ignored",
    "under ALL every missed slot runs",
    edit(plan, "_drop_older", "if left > most and (missed := draft.span(at, until)) is not None:", "if False:"),
    "I19",
    40,
)
_bug(
    "catch-up at once",
    "missed slots run without a pause between them",
    edit(plan, "_catch_up", "catch_up_at=draft.now.steady_us + pause_us", "catch_up_at=draft.now.steady_us"),
    "I19",
    60,
)
_bug(
    "pause called a misfire",
    "slots that passed in a pause are said to have been missed because the process was down",
    edit(carrier.Carrier, "draft", "because=because", "because=SkipReason.MISFIRE"),
    "I19",
    200,
)
_bug(
    "one run too many",
    "max_runs lets one more job be made",
    edit(
        drafts.Draft,
        "room",
        "self.position.made + len(self.jobs) < most",
        "self.position.made + len(self.jobs) <= most",
    ),
    "I5 I10",
    40,
)

# ---- when a job is due (I6, I7) --------------------------------------------------------------------------------------

_bug(
    "jitter over the next slot",
    "the job of a slot may be due after the next slot",
    edit(jitter, "due", "width_us = min(width_us, following.instant_us - nominal_at)", "pass"),
    "I6",
    40,
)
_bug(
    "planned ahead",
    "a job is made a second before its slot",
    lambda: all_of(
        edited(
            carrier.Carrier,
            "draft",
            ("now = now or self._roster.now()", "now = Now(*(us + 1_000_000 for us in now or self._roster.now()))"),
            Now=Now,
        ),
    ),
    "I5 I6",
    20,
)
_bug(
    "fixed delay drifts",
    "a fixed delay counts from the slot before, not from the end of its run",
    edit(
        plan,
        "_fixed_delay",
        "(now if finished_at is None else finished_at) + rule.interval_us",
        "at + rule.interval_us",
    ),
    "I6",
    40,
)
_bug(
    "end of a run not heard",
    "nobody tells the planner that the job has ended which a fixed delay waits for",
    edit(Planner, "finished", "self._roster.at_once(kept)", "pass"),
    "I15 I29 I7",
    40,
)
_bug(
    "deaf to steps",
    "a schedule that runs in real time waits for the clock to come back when it was set back",
    edit(review.Review, "look_back", "self._roster.at_once(kept)", "pass"),
    "I29 I7",
    40,
)
_bug(
    "not entered after a plan",
    "a schedule that was planned does not come up again",
    edit(rounds.Rounds, "_written", "self._roster.give(kept, name)", "kept.custody.give()"),
    "I7 I15 I29",
    20,
)
_bug(
    "end of a pause forgotten",
    "a schedule that is paused until a time stays paused",
    edit(
        roster.Roster, "_time", "return None if record.until is None else (ClockKind.WALL, record.until)", "return None"
    ),
    "I7",
    300,
    near=72,
)

# ---- overlap and keys (I18) ------------------------------------------------------------------------------------------

_bug(
    "overlap of this process only",
    "jobs that are unfinished in the journal are not seen when slots are planned",
    edit(rounds.Rounds, "_plan_some", "unfinished.get(name, [])", "[]"),
    "I18",
    40,
)
_bug(
    "old zones",
    "next times that were worked out with other time zones are kept",
    edit(review.Review, "_wants_look", "or _is_of_other_zones(record, tzdata)", ""),
    "I15",
    100,
    near=3,
)
_bug(
    "everybody queues",
    "under QUEUE_ONE every slot waits",
    edit(overlap.Admission, "_judge", "return _MAKE if self._waiter is None else", "return _MAKE if True else"),
    "I18",
    60,
)
_bug(
    "one more beside",
    "ALLOW lets one job more run than its limit",
    edit(overlap.Admission, "_judge", "taken < limit", "taken <= limit"),
    "I18",
    60,
)
_bug(
    "hold ignored",
    "a job that must wait for another of its schedule starts at once",
    edit(memory_schedules.Standing, "_make", "if plan.hold and", "if False and"),
    "I18",
    20,
)
_bug(
    "never superseded",
    "under REPLACE the waiter stays when a newer slot comes",
    edit(memory_schedules.Standing, "_make", "if plan.supersede and requests:", "if False:"),
    "I18",
    80,
    near=3,
)
_bug(
    "REPLACE without cancel",
    "nobody asks the job to end that is to be replaced",
    edit(carrier.Carrier, "done", "self.replace_soon(to_end)", "pass"),
    "I18",
    400,
    near=44,
)
_bug(
    "nobody takes over",
    "who waits for a job is not let go on when that ends",
    edit(
        heirs.Heirs,
        "remember",
        "if self.asks or (may_wait and any(_may_end(change) for change, _ in batch)):",
        "if self.asks:",
    ),
    "I29 I18",
    20,
)
_bug(
    "taken over too soon",
    "a waiter is let go on while another job of its schedule is unfinished",
    edit(memory_claims.Claims, "_first_waiter", "if any(", "if all("),
    "I18",
    60,
)
_bug(
    "key not held",
    "a claim does not ask whether another job with the key runs",
    edit(memory_claims.Claims, "_is_held", "self._room(job, limits) <= 0", "False"),
    "I18",
    40,
)
_bug(
    "triggered past the policy",
    "a trigger does not ask the overlap policy",
    edit(by_hand.ByHand, "trigger", "if force else admission.admit()", "if True else admission.admit()"),
    "I18",
    80,
    near=3,
)

# ---- states, versions, restarts (I10, I22, I3) -----------------------------------------------------------------------

_bug(
    "pause forgotten in a restart",
    "a new process takes a paused schedule for an active one",
    lambda: edited(
        roster.Roster,
        "add",
        (
            "kept = self._all[record.schedule] = Kept(record)",
            "record.state = ScheduleState.ACTIVE; kept = self._all[record.schedule] = Kept(record)",
        ),
    ),
    "I10 I15 I19",
    60,
)
_bug(
    "resumed by an edit",
    "an edit of a paused schedule resumes it",
    edit(
        edits.Edits,
        "_change",
        "state = record.state if record.state is ScheduleState.PAUSED else",
        "state = record.state if False else",
    ),
    "I10",
    60,
    near=10,
)
_bug(
    "stale version accepted",
    "an edit for a version that was seen before is made although there were others since",
    edit(Planner, "edit", "self._edits.edit(schedule, change, if_version)", "self._edits.edit(schedule, change, None)"),
    "I22",
    200,
)
_bug(
    "jobs of before",
    "after an update jobs are made by the definition that was read first",
    edit(
        roster.Roster,
        "put",
        "kept.definition, kept.text, kept.started = definition, record.definition, True",
        "kept.definition = kept.definition or definition; kept.text, kept.started = record.definition, True",
    ),
    "I3 I5 I6 I18 I19",
    40,
)
_bug(
    "parked for good",
    "a schedule whose task was unknown stays parked when the task is known",
    lambda: all_of(
        edited(roster.Roster, "add", ("kept.retry = record.state is ScheduleState.PARKED", "kept.retry = False")),
        edited(Planner, "task_registered", ("kept.retry = True", "pass")),
    ),
    "I29",
    200,
    near=48,
)

# ---- SQL -------------------------------------------------------------------------------------------------------------

_bug(
    "position not saved in SQL",
    "a plan leaves the schedule where it was",
    lambda: reworded(
        write_plan,
        "MOVE_ON",
        ("position = coalesce(r.value ->> 1, schedules.position)", "position = schedules.position"),
    ),
    "I5 I15",
    20,
    store="sqlite",
)
_bug(
    "hold ignored in SQL",
    "a job that must wait for another of its schedule starts at once",
    lambda: reworded(write_plan, "BUSY", ("j.state IN (0, 1, 2)", "j.state IN (0, 2)")),
    "I18",
    150,
    near=46,
    store="sqlite",
)
_bug(
    "key not held in SQL",
    "a claim of several jobs does not see that it takes a key itself",
    edit(write_claim._Claim, "_judge", "keys.take(job.job_id, key, job.task, queue)", "pass"),
    "I18",
    80,
    near=16,
    store="sqlite",
)
_bug(
    "named schedules forgotten in SQL",
    "who waits for a job of his schedule is not let go on",
    lambda: reworded(
        write_take_over,
        "OF_THESE",
        ("json_group_array(DISTINCT j.schedule) FILTER (WHERE j.schedule IS NOT NULL)", "'[]'"),
    ),
    "I29 I18",
    20,
    store="sqlite",
)
_bug(
    "page of the unfinished cut short",
    "of a schedule's unfinished jobs only the oldest is read",
    lambda: reworded(read_schedules, "UNFINISHED", ("LIMIT ?2", "LIMIT min(?2, 1)")),
    "I18",
    60,
    store="sqlite",
)

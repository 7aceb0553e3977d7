"""WHICH jobs come of it? What a schedule's definition, its position and the clocks come down to, slot by slot.

Pure, and usable without a scheduler:

    policies.py, options.py          misfire, overlap and all other options, checked
    definition.py                    all that was declared of a schedule, as one value and as text
    slots.py, tail.py                the slots of a definition on the schedule's own clock
    position.py                      where a schedule begins, goes on after a step of the clock, and is due next
    overlap.py, jitter.py            whether a slot gets a job beside those that are not final, and when that is due
    plan.py, drafts.py               the plan of one schedule at one moment
    preview.py, forecast.py          what is to come, and why

What carries it out:

    planner.py, rounds.py            has every schedule planned when a slot of it has come
    roster.py, kept.py, custody.py   every schedule in memory, and who may change it
    writing.py                       asks for a change of one, and knows of what is under way
    agenda.py, review.py             when each is to be planned
    carrying.py, carrier.py          from a plan to the change in the journal
    accountant.py, ends.py           what has come of the slots so far
    edits.py, by_hand.py             what people do to a schedule
    calendars.py                     calendars by name
"""

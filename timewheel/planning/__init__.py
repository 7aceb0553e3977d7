"""WHICH jobs come of it? What a schedule's definition, its position and the clocks come down to, slot by slot.

policies.py              misfire and overlap: how callers name them, and the records that are stored
options.py               the options of a schedule, checked
definition.py            all that was declared of a schedule, as one value and as text
slots.py                 the slots of a definition on the schedule's own clock
position.py              where a schedule begins, goes on after a step of the clock, and is due next
overlap.py               whether a slot gets a job beside those that are not final
jitter.py                when that job is due
drafts.py                rows and jobs as they come together
plan.py                  the plan of one schedule at one moment
preview.py               what is to come, and why
"""

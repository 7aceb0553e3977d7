"""WHEN is it due? Rules of recurrence, pure and usable without a scheduler.

    cron.py, periods.py, interval.py    the rules: Cron, Civil, Every
    cron_text.py, cron_fields.py        the text of a cron rule
    cron_days.py                        the days that it names
    calendar.py, rolling.py             business days, and moving a date to one
    civil.py, offsets.py, times.py      wall time -> instant: gaps, folds, times of a day
    gaps.py                             what is lost in gaps
    search.py                           the next, the last and the number of occurrences
    rule.py, zonal.py, immutable.py     what rules share
    stored.py                           rules as data
    wording.py, choices.py              rules in words; the named choices

Days are counted as `date.toordinal` does, times of a day in seconds, instants in microseconds of wall time.
"""

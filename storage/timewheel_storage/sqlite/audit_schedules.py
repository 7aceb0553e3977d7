"""The audit's rules for schedules, their ledgers and the jobs that came of them (see `timewheel_storage.sqlite.audit`).

Rows of the ledger are never removed. Jobs are, when they have ended; which of those that a row names may be gone is
told by a rule of `audit_flow`.
"""

from __future__ import annotations

SCHEDULES_SINCE = 2  # the migration that made their tables; a journal that no owner has brought there has none

_SANE_ORIGIN = """
json_valid(origin) AND json_type(origin) = 'array' AND json_array_length(origin) IN (5, 8)
    AND (origin ->> 0) IN (0, 1) AND json_type(origin, '$[1]') = 'integer' AND json_type(origin, '$[2]') = 'integer'
    AND (origin ->> 3) IN (0, 1, 2)
"""
_OF_SCHEDULES = f"""
SELECT job_id, schedule, origin ->> 0 AS clock, origin ->> 1 AS nominal_at, origin ->> 2 AS turn, origin ->> 3 AS kind
FROM jobs WHERE schedule IS NOT NULL AND CASE WHEN json_valid(origin) THEN {_SANE_ORIGIN} END
"""

JOB_RULES = {
    "waits for something that does not exist": """
        SELECT job_id FROM jobs WHERE state = 1 AND CASE reason
            WHEN 'unresolvable' THEN 0 WHEN 'overrun' THEN 0 WHEN 'task' THEN 0 WHEN 'dependency' THEN 0
            WHEN 'overlap' THEN schedule IS NULL WHEN 'key' THEN concurrency_key IS NULL ELSE 1 END
    """,
    "comes of an occurrence that makes no sense": f"""
        SELECT job_id FROM jobs
        WHERE (schedule IS NULL) <> (origin IS NULL)
            OR (origin IS NOT NULL AND NOT CASE WHEN json_valid(origin) THEN coalesce({_SANE_ORIGIN}, 0) ELSE 0 END)
    """,
    "has no row in the ledger of its schedule, or one that tells otherwise": f"""
        SELECT o.job_id FROM ({_OF_SCHEDULES}) AS o LEFT JOIN ledger AS w ON w.schedule = o.schedule
            AND w.clock = o.clock AND w.first_at = o.nominal_at AND w.turn = o.turn AND w.kind = o.kind
        WHERE w.fate IS NOT 0 OR w.job_id IS NOT o.job_id
    """,
}

SCHEDULE_RULES = {
    "is in a state, or of a version, that does not exist": """
        SELECT schedule FROM schedules WHERE state NOT BETWEEN 0 AND 3 OR version < 1
    """,
    "has a definition that is no JSON": """
        SELECT schedule FROM schedules WHERE NOT json_valid(definition)
    """,
    "has a position that makes no sense": """
        SELECT schedule FROM schedules WHERE NOT CASE WHEN json_valid(position) THEN
            coalesce((SELECT group_concat(substr(type, 1, 1), '') FROM json_each(position))
                GLOB 'iii[in]i[in][in]it', 0) -- integers, some of them null, and a text
            AND (position ->> 0) IN (0, 1) AND position ->> 4 >= 0 AND coalesce(position ->> 3 > position ->> 1, 1)
        ELSE 0 END
    """,
    "has a row in its ledger that makes no sense": """
        SELECT DISTINCT schedule FROM ledger
        WHERE clock NOT BETWEEN 0 AND 1 OR kind NOT BETWEEN 0 AND 2 OR fate NOT BETWEEN 0 AND 2
            OR count < 1 OR last_at < first_at OR (fate = 0 AND (count <> 1 OR first_at <> last_at OR job_id IS NULL))
    """,
    "has a row in its ledger that names a job which came of something else": f"""
        SELECT DISTINCT w.schedule FROM ledger AS w CROSS JOIN jobs AS j ON j.job_id = w.job_id
        LEFT JOIN ({_OF_SCHEDULES}) AS o ON o.job_id = w.job_id
        WHERE (o.schedule IS NOT w.schedule OR (w.fate = 0 AND (
            o.clock <> w.clock OR o.nominal_at <> w.first_at OR o.turn <> w.turn OR o.kind <> w.kind
        )))
    """,
}

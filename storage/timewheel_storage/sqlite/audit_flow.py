"""The audit's rules for flow control, for what has ended, and for operations (see `timewheel_storage.sqlite.audit`).

How many jobs may run of a task, or with one key, is declared in code: whether such limits held, a journal cannot tell.
"""

from __future__ import annotations

import re

from timewheel.flow import Dependencies, DependencyFails, Flow, OnConflict, Uniqueness
from timewheel.model import FaultClass

FLOW_SINCE = 3  # the migration that made its tables and columns

_UNIQUE, _WAIT_FOR, _PARTITION = (Flow._fields.index(name) for name in ("unique", "wait_for", "partition_key"))
_COST = Flow._fields.index("cost")
_STATES, _ON_CONFLICT = (Uniqueness._fields.index(name) for name in ("states", "on_conflict"))
_AWAITED = f"$[{_WAIT_FOR}][{Dependencies._fields.index('job_ids')}]"
_POLICY = f"$[{_WAIT_FOR}][{Dependencies._fields.index('if_one_fails')}]"


def _names(values: type[DependencyFails | OnConflict | FaultClass]) -> str:
    return ", ".join(f"'{value.value}'" for value in values)


def _are(path: str, types: str) -> str:
    """Whether an array in a flow has members of these types, each a pattern of the first letters of some."""
    patterns = re.findall(r"\[\w+\]|\w", types)
    letters = " || ".join(f"substr(json_type(j.flow, '{path}[{place}]'), 1, 1)" for place in range(len(patterns)))
    return f"(json_array_length(j.flow, '{path}') = {len(patterns)} AND {letters} GLOB '{types}')"


def _all_are(path: str, kind: str) -> str:
    """Whether all members of an array in a flow are of this type."""
    return f"NOT EXISTS (SELECT 1 FROM json_each(j.flow, '{path}') WHERE type <> '{kind}')"


_SANE_FLOW = f"""
{_are("$", "[tn]i[in][in][in][tf][tn][an][an]")} AND j.flow ->> {_COST} >= 1
    AND (json_type(j.flow, '$[{_UNIQUE}]') = 'null' OR (
        {_are(f"$[{_UNIQUE}]", "tat[in]")} AND {_all_are(f"$[{_UNIQUE}][{_STATES}]", "text")}
        AND j.flow ->> '$[{_UNIQUE}][{_ON_CONFLICT}]' IN ({_names(OnConflict)})
    ))
    AND (json_type(j.flow, '$[{_WAIT_FOR}]') = 'null' OR (
        {_are(f"$[{_WAIT_FOR}]", "at")} AND {_all_are(_AWAITED, "integer")}
        AND j.flow ->> '{_POLICY}' IN ({_names(DependencyFails)})
    ))
"""
_SHOULD_WAIT = f"""
SELECT w.value AS on_job, j.job_id FROM jobs AS j
CROSS JOIN json_each(CASE WHEN json_valid(j.flow) THEN j.flow END, '{_AWAITED}') AS w
WHERE j.state = 1 AND j.reason = 'dependency' AND j.flow IS NOT NULL
"""
_ITS_PARTITION = f"CASE WHEN json_valid(j.flow) THEN j.flow ->> {_PARTITION} END"

JOB_RULES = {
    "has flow control that makes no sense": f"""
        SELECT j.job_id FROM jobs AS j
        WHERE j.flow IS NOT NULL AND NOT CASE WHEN json_valid(j.flow) THEN coalesce({_SANE_FLOW}, 0) ELSE 0 END
    """,
    "is found by something else than what is unique about it": f"""
        SELECT j.job_id FROM jobs AS j
        WHERE j.unique_digest IS NOT CASE WHEN json_valid(j.flow) THEN j.flow ->> '$[{_UNIQUE}][0]' END
    """,
    "waits for jobs, and says for none": f"""
        SELECT job_id FROM jobs WHERE state = 1 AND reason = 'dependency' AND job_id NOT IN (
            SELECT job_id FROM ({_SHOULD_WAIT})
        )
    """,
    "is not known to wait for the jobs that it waits for, or is known to wait for others": f"""
        SELECT DISTINCT job_id FROM (SELECT * FROM ({_SHOULD_WAIT} EXCEPT SELECT on_job, job_id FROM waits)
            UNION ALL SELECT * FROM (SELECT on_job, job_id FROM waits EXCEPT {_SHOULD_WAIT}))
    """,
    "waits for a job that does not exist": """
        SELECT DISTINCT w.job_id FROM waits AS w LEFT JOIN jobs AS j ON j.job_id = w.on_job WHERE j.job_id IS NULL
    """,
    "lies in a lane of a partition that is not its own": f"""
        SELECT j.job_id FROM jobs AS j CROSS JOIN lanes AS l ON l.lane = j.lane
        WHERE l.partition <> coalesce({_ITS_PARTITION}, '')
            AND ({_ITS_PARTITION} IS NULL OR l.partition NOT GLOB '~[0-9][0-9]')
    """,
    "was discarded, and is not DEAD": """
        SELECT job_id FROM jobs WHERE discarded_at IS NOT NULL AND state <> 5
    """,
    "failed in a way that does not exist, or before its attempt has ended": f"""
        SELECT job_id FROM jobs WHERE fault NOT IN ({_names(FaultClass)})
            OR attempt_fault NOT IN ({_names(FaultClass)}) OR (fault IS NULL AND fingerprint IS NOT NULL)
            OR (attempt_fault IS NOT NULL AND (attempt_state IS NULL OR attempt_state IN (0, 1)))
        UNION SELECT job_id FROM attempts WHERE fault NOT IN ({_names(FaultClass)})
    """,
}

OPERATION_RULES = {
    "is in a state, or does something, that does not exist": """
        SELECT number FROM operations WHERE state NOT BETWEEN 0 AND 2 OR kind NOT IN ('replay', 'discard')
    """,
    "has a request, a progress or an audit that is no JSON object": """
        SELECT DISTINCT number FROM (
            SELECT number, request AS text FROM operations
            UNION ALL SELECT number, progress FROM operations UNION ALL SELECT number, audit FROM operations
        ) WHERE NOT CASE WHEN json_valid(text) THEN json_type(text) = 'object' ELSE 0 END
    """,
}

ENTRY_RULES = {
    "is of the audit, and no JSON object": """
        SELECT number FROM entries
        WHERE kind = 'audit' AND NOT CASE WHEN json_valid(data) THEN json_type(data) = 'object' ELSE 0 END
    """,
}

SCHEDULE_RULES = {
    "has a row in its ledger that names a job which does not exist, though fewer were forgotten": """
        SELECT DISTINCT schedule FROM ledger
        WHERE job_id IS NOT NULL AND job_id NOT IN (SELECT job_id FROM jobs) AND (SELECT pruned FROM meta) < (
            SELECT count(DISTINCT job_id) FROM ledger
            WHERE job_id IS NOT NULL AND job_id NOT IN (SELECT job_id FROM jobs)
        )
    """,
}

"""When the last job of a schedule ended: what a fixed delay counts from, as far as the journal tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timewheel.model import Now, OriginKind
from timewheel.planning.slots import offset_us
from timewheel.schedule_records import Fate

if TYPE_CHECKING:
    from timewheel.store.port import Store

_PAGES = 5  # of the ledger; the newest job lies among its newest rows
_PAGE = 100


async def last_end(store: Store, schedule: str, now: Now) -> int | None:
    """When the newest job of the rule ended (steady); None when the journal does not say."""
    before = None
    for _ in range(_PAGES):
        page = await store.ledger(schedule, before=before, limit=_PAGE)
        for entry in page.entries:
            row = entry.occurrence
            if (row.kind, row.fate) == (OriginKind.RULE, Fate.JOB) and row.job_id is not None:
                job = await store.job(row.job_id)
                finished_at = None if job is None else job.finished_at
                return None if finished_at is None else finished_at - offset_us(now)
        before = page.next_before
        if before is None:
            break
    return None

-- Standing rules and what came of them. A job that no schedule made and that has no concurrency key is in none of the
-- new indexes, and pays for them with three empty columns.

CREATE TABLE schedule_states (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO schedule_states VALUES (0, 'ACTIVE'), (1, 'PAUSED'), (2, 'PARKED'), (3, 'ENDED');

CREATE TABLE origin_kinds (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO origin_kinds VALUES (0, 'rule'), (1, 'manual'), (2, 'backfill');

CREATE TABLE fates (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO fates VALUES (0, 'job'), (1, 'skipped'), (2, 'coalesced');

ALTER TABLE jobs ADD COLUMN schedule TEXT;
ALTER TABLE jobs ADD COLUMN origin TEXT;          -- the rest of an Origin, a JSON array; set where `schedule` is
ALTER TABLE jobs ADD COLUMN concurrency_key TEXT;

-- The first lists the jobs of a schedule. The others find who is in the way and who waits first, by seeks alone.
CREATE INDEX jobs_of_schedule ON jobs (schedule) WHERE schedule IS NOT NULL;
CREATE INDEX jobs_unfinished ON jobs (schedule, state, reason, due_at) WHERE schedule IS NOT NULL AND state IN (0, 1, 2);
CREATE INDEX jobs_by_concurrency_key ON jobs (concurrency_key, state, reason, due_at)
    WHERE concurrency_key IS NOT NULL AND state IN (1, 2);

CREATE TABLE schedules (
    schedule TEXT PRIMARY KEY,
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),
    version INTEGER NOT NULL CHECK (version >= 1),
    position TEXT NOT NULL,                        -- the fields of a Position; written with every plan
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    until INTEGER,
    reason TEXT,
    definition TEXT NOT NULL
) STRICT;

CREATE TABLE ledger (
    number INTEGER PRIMARY KEY,
    schedule TEXT NOT NULL,
    clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 1), -- of first_at and last_at
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL CHECK (last_at >= first_at),
    count INTEGER NOT NULL CHECK (count >= 1),
    turn INTEGER NOT NULL,
    kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 2),
    fate INTEGER NOT NULL CHECK (fate BETWEEN 0 AND 2),
    recorded_at INTEGER NOT NULL,
    reason TEXT,
    job_id INTEGER
) STRICT;
CREATE UNIQUE INDEX ledger_by_occurrence ON ledger (schedule, clock, first_at, turn, kind);
CREATE INDEX ledger_by_schedule ON ledger (schedule); -- the rows of one by their number

CREATE TABLE calendars (name TEXT PRIMARY KEY, data TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- The journal. Written in batches by statements over json_each, so that a row costs as few B-tree writes as can be:
--   * a job's row changes in place from the request to the end, and carries its newest attempt; a row of `attempts` is
--     written only when a further attempt begins and the older one must make room;
--   * what requests have in common is kept once, in `kinds`, and what an index holds is kept out of it where it can be.
-- Times are microseconds; lags and durations too. Codes are spelled out in job_states and attempt_states.

CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    journal_id TEXT NOT NULL,
    epoch INTEGER NOT NULL CHECK (epoch >= 0),     -- of the newest owner
    commits INTEGER NOT NULL CHECK (commits >= 0), -- made to this journal, ever
    boot_id TEXT,                                  -- this and the next three: both clocks at the last commit
    boot_us INTEGER,
    wall_us INTEGER,
    steady_us INTEGER
) STRICT;
INSERT INTO meta (one, journal_id, epoch, commits) VALUES (1, lower(hex(randomblob(16))), 0, 0);

CREATE TABLE job_states (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO job_states VALUES
    (0, 'SCHEDULED'), (1, 'WAITING'), (2, 'ACTIVE'), (3, 'COMPLETED'), (4, 'CANCELLED'), (5, 'DEAD'), (6, 'SKIPPED');

CREATE TABLE attempt_states (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO attempt_states VALUES
    (0, 'QUEUED'), (1, 'RUNNING'), (2, 'SUCCEEDED'), (3, 'FAILED_RETRYABLE'), (4, 'FAILED_PERMANENT'),
    (5, 'TIMED_OUT'), (6, 'CANCELLED'), (7, 'RELEASED'), (8, 'LOST');

CREATE TABLE lanes (
    lane INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 1), -- 0 wall, 1 steady: of due_at
    UNIQUE (queue, priority, clock)
) STRICT;

CREATE TABLE kinds ( -- what requests have in common
    kind INTEGER PRIMARY KEY,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 1), -- of scheduled_at
    retry TEXT NOT NULL,                           -- the fields of a RetryPolicy
    timeout_us INTEGER,
    lane INTEGER                                          -- where its jobs begin; NULL before the first of them
) STRICT;
CREATE INDEX kinds_of_task ON kinds (task);

CREATE TABLE jobs (
    job_id INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 6),
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0), -- number of the newest
    failures INTEGER NOT NULL DEFAULT 0,
    losses INTEGER NOT NULL DEFAULT 0,
    arguments TEXT NOT NULL,
    scheduled_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    result TEXT,
    -- the newest attempt
    attempt_state INTEGER CHECK (attempt_state BETWEEN 0 AND 8),
    attempt_epoch INTEGER,
    attempt_lane INTEGER,
    attempt_due_at INTEGER,
    judged_by INTEGER, -- the kind whose retry policy judged it
    dispatched_at INTEGER,
    started_at INTEGER,
    ended_at INTEGER,
    dispatch_lag_us INTEGER,
    start_lag_us INTEGER,
    attempt_error TEXT,
    error_kind TEXT,
    attempt_reason TEXT,
    -- what most jobs do without
    clock INTEGER CHECK (clock BETWEEN 0 AND 1), -- of scheduled_at, once rescheduled; else the kind's
    misfire_grace_us INTEGER,
    tags TEXT, -- a JSON array
    idempotency_key TEXT,
    holds_key INTEGER CHECK (holds_key = 1), -- the row of `keys` names this job
    first_failed_at INTEGER,
    reason TEXT,
    cancel_requested TEXT,
    result_omitted TEXT,
    error TEXT,
    CHECK ((state = 2) = (attempt_state IS 0 OR attempt_state IS 1)),
    CHECK ((state > 2) = (finished_at IS NOT NULL)),
    CHECK ((attempt = 0) = (attempt_state IS NULL))
) STRICT;
-- In each, job_id follows the named columns as the row's id. The state in jobs_due lets it answer without the row.
CREATE INDEX jobs_due ON jobs (lane, due_at, state) WHERE state = 0;
CREATE INDEX jobs_notable ON jobs (state) WHERE state <> 0 AND state <> 3;
CREATE INDEX jobs_by_key ON jobs (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_holding_keys ON jobs (finished_at) WHERE holds_key = 1 AND finished_at IS NOT NULL;

CREATE TABLE attempts ( -- those that a newer one followed
    job_id INTEGER NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 1),
    state INTEGER NOT NULL CHECK (state BETWEEN 2 AND 8),
    epoch INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    judged_by INTEGER,
    dispatched_at INTEGER,
    started_at INTEGER,
    ended_at INTEGER,
    dispatch_lag_us INTEGER,
    start_lag_us INTEGER,
    error TEXT,
    error_kind TEXT,
    reason TEXT,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    task TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id INTEGER NOT NULL,
    digest TEXT,
    PRIMARY KEY (task, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE importable (task TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE queues (queue TEXT PRIMARY KEY, settings TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE limits (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    wall_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;

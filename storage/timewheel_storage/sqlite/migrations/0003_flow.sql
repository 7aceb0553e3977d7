-- Flow control, failures and what becomes of them. A job without any of it is in none of the new indexes.

ALTER TABLE jobs ADD COLUMN flow TEXT;            -- the fields of a Flow, a JSON array
ALTER TABLE jobs ADD COLUMN unique_digest TEXT;   -- of its Uniqueness
ALTER TABLE jobs ADD COLUMN fault TEXT;           -- class of the last failure
ALTER TABLE jobs ADD COLUMN fingerprint TEXT;     -- of the last failure
ALTER TABLE jobs ADD COLUMN discarded_at INTEGER; -- of a dead letter
ALTER TABLE jobs ADD COLUMN attempt_fault TEXT;   -- of the newest attempt
ALTER TABLE attempts ADD COLUMN fault TEXT;

-- The newest equal job of a state, and who of a lane waits first for a key or for a task, are found by seeks alone.
CREATE INDEX jobs_by_unique_digest ON jobs (unique_digest, state, created_at) WHERE unique_digest IS NOT NULL;
DROP INDEX jobs_by_concurrency_key;
CREATE INDEX jobs_by_concurrency_key ON jobs (concurrency_key, state, reason, lane, due_at)
    WHERE concurrency_key IS NOT NULL AND state IN (1, 2);
CREATE INDEX jobs_waiting_for_task ON jobs (kind, lane, due_at) WHERE state = 1 AND reason = 'task';
CREATE INDEX jobs_dead ON jobs (fingerprint) WHERE state = 5 AND discarded_at IS NULL;

CREATE TABLE waits ( -- of the jobs that are WAITING (dependency), and for as long
    on_job INTEGER NOT NULL,
    job_id INTEGER NOT NULL,
    PRIMARY KEY (on_job, job_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_of_job ON waits (job_id);

CREATE TABLE lanes_with_partitions (
    lane INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL CHECK (priority BETWEEN 0 AND 9),
    clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 1), -- 0 wall, 1 steady: of due_at
    partition TEXT NOT NULL DEFAULT '',
    UNIQUE (queue, priority, clock, partition)
) STRICT;
INSERT INTO lanes_with_partitions (lane, queue, priority, clock) SELECT lane, queue, priority, clock FROM lanes;
DROP TABLE lanes;
ALTER TABLE lanes_with_partitions RENAME TO lanes;

ALTER TABLE meta ADD COLUMN pruned INTEGER NOT NULL DEFAULT 0 CHECK (pruned >= 0); -- jobs that were forgotten, ever

CREATE TABLE operation_states (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
INSERT INTO operation_states VALUES (0, 'RUNNING'), (1, 'DONE'), (2, 'STOPPED');

CREATE TABLE operations (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
    request TEXT NOT NULL,
    progress TEXT NOT NULL,
    audit TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    reason TEXT
) STRICT;
CREATE INDEX entries_of_kind ON entries (kind); -- the rows of one by their number

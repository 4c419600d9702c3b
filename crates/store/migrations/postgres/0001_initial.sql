-- Everything is text or bigint so that the same statements run on SQLite and PostgreSQL; texts are ordered by their bytes,
-- as there.
-- Moments are Unix milliseconds.

CREATE TABLE api_keys (
    hash         TEXT COLLATE "C"   NOT NULL PRIMARY KEY,
    workspace    TEXT COLLATE "C"   NOT NULL,
    role         TEXT COLLATE "C"   NOT NULL,
    subject      TEXT COLLATE "C"   NOT NULL,
    label        TEXT COLLATE "C"   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT
);

CREATE TABLE runners (
    owner        TEXT COLLATE "C"   NOT NULL,
    id           TEXT COLLATE "C"   NOT NULL,
    workspace    TEXT COLLATE "C"   NOT NULL,
    label        TEXT COLLATE "C"   NOT NULL,
    os           TEXT COLLATE "C",
    capabilities TEXT COLLATE "C"   NOT NULL,
    token_hash   TEXT COLLATE "C"   NOT NULL UNIQUE,
    paired_at    BIGINT NOT NULL,
    last_seen_at BIGINT,
    version      TEXT COLLATE "C",
    protocol     BIGINT,
    PRIMARY KEY (owner, id)
);

CREATE TABLE harnesses (
    workspace  TEXT COLLATE "C"   NOT NULL,
    id         TEXT COLLATE "C"   NOT NULL,
    version    TEXT COLLATE "C"   NOT NULL,
    spec       TEXT COLLATE "C"   NOT NULL,
    created_by TEXT COLLATE "C"   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, id, version)
);

-- Run ids are time-ordered, so "newest first" and "first in, first out" are both the primary key.
CREATE TABLE runs (
    id              TEXT COLLATE "C"   NOT NULL PRIMARY KEY,
    workspace       TEXT COLLATE "C"   NOT NULL,
    submitted_by    TEXT COLLATE "C"   NOT NULL,
    status          TEXT COLLATE "C"   NOT NULL,
    harness_id      TEXT COLLATE "C"   NOT NULL,
    harness_version TEXT COLLATE "C"   NOT NULL,
    case_id         TEXT COLLATE "C"   NOT NULL,
    runtime         TEXT COLLATE "C"   NOT NULL,
    priority        TEXT COLLATE "C"   NOT NULL,
    fair_group      TEXT COLLATE "C"   NOT NULL,
    case_spec       TEXT COLLATE "C"   NOT NULL,
    job             TEXT COLLATE "C"   NOT NULL,
    owner           TEXT COLLATE "C",
    runner          TEXT COLLATE "C",
    required_caps   TEXT COLLATE "C"   NOT NULL,
    lease_epoch     BIGINT NOT NULL,
    leased_by       TEXT COLLATE "C",
    requeues        BIGINT NOT NULL,
    note            TEXT COLLATE "C",
    result          TEXT COLLATE "C",
    usage           TEXT COLLATE "C",
    error_code      TEXT COLLATE "C",
    error_message   TEXT COLLATE "C",
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    started_at      BIGINT,
    activity_at     BIGINT NOT NULL,
    finished_at     BIGINT
);

CREATE INDEX runs_by_workspace ON runs (workspace, id);
CREATE INDEX runs_open ON runs (id) WHERE status IN ('queued', 'running');

CREATE TABLE run_logs (
    run_id TEXT COLLATE "C"   NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq    BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    line   TEXT COLLATE "C"   NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE run_events (
    run_id TEXT COLLATE "C"   NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq    BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    kind   TEXT COLLATE "C"   NOT NULL,
    body   TEXT COLLATE "C"   NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE hub_secrets (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

-- Keys made by signing in live for minutes; a key without a moment lives until it is deleted.
ALTER TABLE api_keys ADD COLUMN expires_at BIGINT;

CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

-- Runs submitted together share a batch; what a run came to is kept beside its result, so that lists and counts need not
-- read results. Runs that ended before have no verdict here: whoever wants it reads their result.
ALTER TABLE runs ADD COLUMN batch TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN batch_label TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN verdict TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN score TEXT COLLATE "C";

CREATE INDEX runs_by_batch ON runs (workspace, batch, id) WHERE batch IS NOT NULL;

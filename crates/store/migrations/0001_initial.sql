-- Everything is text or bigint so that the same statements run on SQLite and PostgreSQL.
-- Moments are Unix milliseconds.

CREATE TABLE api_keys (
    hash         TEXT   NOT NULL PRIMARY KEY,
    workspace    TEXT   NOT NULL,
    role         TEXT   NOT NULL,
    subject      TEXT   NOT NULL,
    label        TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT
);

CREATE TABLE runners (
    owner        TEXT   NOT NULL,
    id           TEXT   NOT NULL,
    workspace    TEXT   NOT NULL,
    label        TEXT   NOT NULL,
    os           TEXT,
    capabilities TEXT   NOT NULL,
    token_hash   TEXT   NOT NULL UNIQUE,
    paired_at    BIGINT NOT NULL,
    last_seen_at BIGINT,
    version      TEXT,
    protocol     BIGINT,
    PRIMARY KEY (owner, id)
);

CREATE TABLE harnesses (
    workspace  TEXT   NOT NULL,
    id         TEXT   NOT NULL,
    version    TEXT   NOT NULL,
    spec       TEXT   NOT NULL,
    created_by TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, id, version)
);

-- Run ids are time-ordered, so "newest first" and "first in, first out" are both the primary key.
CREATE TABLE runs (
    id              TEXT   NOT NULL PRIMARY KEY,
    workspace       TEXT   NOT NULL,
    submitted_by    TEXT   NOT NULL,
    status          TEXT   NOT NULL,
    harness_id      TEXT   NOT NULL,
    harness_version TEXT   NOT NULL,
    case_id         TEXT   NOT NULL,
    runtime         TEXT   NOT NULL,
    priority        TEXT   NOT NULL,
    fair_group      TEXT   NOT NULL,
    case_spec       TEXT   NOT NULL,
    job             TEXT   NOT NULL,
    owner           TEXT,
    runner          TEXT,
    required_caps   TEXT   NOT NULL,
    lease_epoch     BIGINT NOT NULL,
    leased_by       TEXT,
    requeues        BIGINT NOT NULL,
    note            TEXT,
    result          TEXT,
    usage           TEXT,
    error_code      TEXT,
    error_message   TEXT,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    started_at      BIGINT,
    activity_at     BIGINT NOT NULL,
    finished_at     BIGINT
);

CREATE INDEX runs_by_workspace ON runs (workspace, id);
CREATE INDEX runs_open ON runs (id) WHERE status IN ('queued', 'running');

CREATE TABLE run_logs (
    run_id TEXT   NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq    BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    line   TEXT   NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE run_events (
    run_id TEXT   NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq    BIGINT NOT NULL,
    at     BIGINT NOT NULL,
    kind   TEXT   NOT NULL,
    body   TEXT   NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE hub_secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

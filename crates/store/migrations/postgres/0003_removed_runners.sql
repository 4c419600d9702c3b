-- As 0004 of SQLite; the column for a pause came with the shared queue.
CREATE TABLE removed_runners (
    token_hash TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    removed_at BIGINT NOT NULL
);

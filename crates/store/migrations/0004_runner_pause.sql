-- A pause is for as long as somebody wants it, and outlives the hub's restart. Removed runners are remembered by their
-- token, so that one that asks again is told so and not merely turned away.
ALTER TABLE runners ADD COLUMN paused TEXT;

CREATE TABLE removed_runners (
    token_hash TEXT   NOT NULL PRIMARY KEY,
    removed_at BIGINT NOT NULL
);

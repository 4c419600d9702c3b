-- Runs submitted together share a batch; what a run came to is kept beside its result, so that lists and counts need not
-- read results. Runs that ended before have no verdict here: whoever wants it reads their result.
ALTER TABLE runs ADD COLUMN batch TEXT;
ALTER TABLE runs ADD COLUMN batch_label TEXT;
ALTER TABLE runs ADD COLUMN verdict TEXT;
ALTER TABLE runs ADD COLUMN score TEXT;

CREATE INDEX runs_by_batch ON runs (workspace, batch, id) WHERE batch IS NOT NULL;

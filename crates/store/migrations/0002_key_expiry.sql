-- Keys made by signing in live for minutes; a key without a moment lives until it is deleted.
ALTER TABLE api_keys ADD COLUMN expires_at BIGINT;

CREATE INDEX api_keys_expiring ON api_keys (expires_at) WHERE expires_at IS NOT NULL;

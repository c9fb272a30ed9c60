CREATE TABLE IF NOT EXISTS idempotency_keys (
  key TEXT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  task_id TEXT NOT NULL,
  accepted_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idempotency_keys_by_age ON idempotency_keys (accepted_at);

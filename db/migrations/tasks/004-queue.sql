-- Accepted tasks that are not completed. These tables are also created in memory, see `createQueueTables`.
CREATE TABLE IF NOT EXISTS messages (
  -- Position in the order of acceptance. It becomes the rowid of the task's row.
  arrival INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  -- First characters of the task's action.
  action TEXT,
  -- `scheduled` (first attempt later), `retrying` (next attempt later), `waiting`, `running`, or `failed` for a dead letter.
  state TEXT NOT NULL DEFAULT 'waiting',
  -- From 1, the first, to 5.
  priority INTEGER NOT NULL DEFAULT 3,
  -- When the message is due, in milliseconds, like all times in these tables.
  run_at INTEGER NOT NULL,
  accepted_at INTEGER NOT NULL,
  -- Number of times that the message was taken.
  delivery INTEGER NOT NULL DEFAULT 0,
  -- Number of failed attempts.
  attempts INTEGER NOT NULL DEFAULT 0,
  -- Number of attempts that ended with the death of the thread.
  crashes INTEGER NOT NULL DEFAULT 0,
  -- Number of processes that died while the message was running.
  deaths INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  -- 1 if the last attempt failed with a permanent error.
  permanent INTEGER NOT NULL DEFAULT 0,
  failed_at INTEGER,
  -- Reason of the last failed attempt.
  reason TEXT,
  -- Failed attempts as a JSON array of `at` and `reason`, oldest first; null if there were none.
  history TEXT,
  -- Last, because SQLite reads the columns of a long row in their order.
  body TEXT NOT NULL
);

-- SQLite appends the rowid, which is `arrival`, to every index.
CREATE INDEX IF NOT EXISTS waiting_messages ON messages (priority, run_at) WHERE state = 'waiting';
-- SQLite uses a partial index only for a query that names one of these states as a constant.
CREATE INDEX IF NOT EXISTS later_messages ON messages (state, run_at) WHERE state = 'scheduled' OR state = 'retrying';
CREATE INDEX IF NOT EXISTS dead_letters_by_age ON messages (failed_at) WHERE state = 'failed';
CREATE INDEX IF NOT EXISTS dead_letters_by_reason ON messages (reason, failed_at) WHERE state = 'failed';

CREATE TABLE IF NOT EXISTS idempotency_keys (
  key TEXT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  task_id TEXT NOT NULL,
  accepted_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idempotency_keys_by_age ON idempotency_keys (accepted_at);

-- Contains at most one row.
CREATE TABLE IF NOT EXISTS queue_state (paused INTEGER NOT NULL DEFAULT 0);

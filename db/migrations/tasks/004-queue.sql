-- Accepted tasks that are not completed. These tables are also created in memory, see `createQueueTables`. Columns named
-- like fields of `Message` or `StoredMessage` are described in db/task-store.ts.
CREATE TABLE IF NOT EXISTS messages (
  -- Position in the order of acceptance. It becomes the rowid of the task's row.
  arrival INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  -- First characters of the task's action.
  action TEXT,
  -- `scheduled` (first attempt later), `retrying` (next attempt later), `limited` (a limit has no room), `waiting`, `running`,
  -- or `failed` for a dead letter.
  state TEXT NOT NULL DEFAULT 'waiting',
  -- From 1, the first, to 5.
  priority INTEGER NOT NULL DEFAULT 3,
  -- Null if the task has none.
  limit_key TEXT,
  -- Id of the task whose end the message reports. Null unless the message is a callback.
  callback_of TEXT,
  -- Place among the keys of a priority, where the message waits or is limited, see `Rounds`.
  round INTEGER NOT NULL DEFAULT 0,
  -- What the message holds of the limits of its action, see `Limits`. Null if the action has none. Below 2 if it is limited.
  place INTEGER,
  -- When the message is due, in milliseconds, like all times in these tables.
  run_at INTEGER NOT NULL,
  accepted_at INTEGER NOT NULL,
  -- Number of times that the message was taken.
  delivery INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  -- Number of attempts that ended with the death of the thread.
  crashes INTEGER NOT NULL DEFAULT 0,
  -- Number of processes that died while the message was running.
  deaths INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  -- When the running attempt started, if its action has a limit of the starts.
  started_at INTEGER,
  -- 1 if the last attempt failed with a permanent error.
  permanent INTEGER NOT NULL DEFAULT 0,
  -- Null unless the message is a dead letter.
  failed_at INTEGER,
  reason TEXT,
  -- Failed attempts as JSON, see `AttemptHistory`; null if there were none.
  history TEXT,
  submitter TEXT,
  schedule TEXT,
  traceparent TEXT,
  callback_url TEXT,
  -- Last, because SQLite reads the columns of a long row in their order.
  body TEXT NOT NULL
);

-- SQLite appends the rowid, which is `arrival`, to every index. Each change of a message evaluates the conditions of all indexes
-- that name a changed column. So conditions name columns that only few messages have, and name them first. A query must
-- have the same condition.
CREATE INDEX IF NOT EXISTS waiting_messages ON messages (priority, round, run_at) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS longest_waiting ON messages (run_at) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS waiting_callbacks ON messages (priority, round, run_at)
  WHERE callback_of IS NOT NULL AND state = 'waiting';
CREATE INDEX IF NOT EXISTS rounds_of_keys ON messages (limit_key, priority, round)
  WHERE limit_key IS NOT NULL AND state = 'waiting';
-- SQLite uses a partial index only for a query that names one of these states as a constant.
CREATE INDEX IF NOT EXISTS later_messages ON messages (state, run_at) WHERE state = 'scheduled' OR state = 'retrying';
CREATE INDEX IF NOT EXISTS dead_letters_by_age ON messages (failed_at) WHERE failed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS dead_letters_by_reason ON messages (reason, failed_at) WHERE failed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS messages_by_schedule ON messages (schedule) WHERE schedule IS NOT NULL;

CREATE TABLE IF NOT EXISTS schedules (
  name TEXT NOT NULL PRIMARY KEY,
  -- Settings as a JSON object.
  definition TEXT NOT NULL,
  -- `api` or `module`.
  source TEXT NOT NULL,
  -- Cron expression and time zone; empty if the schedule is paused.
  timing TEXT NOT NULL,
  -- Null if the schedule is paused, or has no further time.
  next_at INTEGER,
  last_at INTEGER,
  last_task TEXT
);
CREATE INDEX IF NOT EXISTS schedules_by_time ON schedules (next_at) WHERE next_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS limited_by_key ON messages (place, action, limit_key, priority, round, run_at)
  WHERE place < 2;
CREATE INDEX IF NOT EXISTS limited_by_action ON messages (action, priority, round, run_at)
  WHERE place = 1;
CREATE INDEX IF NOT EXISTS longest_limited ON messages (action, run_at) WHERE place = 1;
CREATE INDEX IF NOT EXISTS limited_messages ON messages (priority, round, run_at) WHERE place < 2;

-- Limits of actions: tasks that run at once, and that start in a period. The same for each limit key.
CREATE TABLE IF NOT EXISTS limits (
  action TEXT NOT NULL PRIMARY KEY,
  -- `api` or `module`: who set them.
  source TEXT NOT NULL,
  -- `ActionLimits` as JSON.
  definition TEXT NOT NULL
);

-- What is used of a limit. The limit key is empty for the limit of the action itself.
CREATE TABLE IF NOT EXISTS limit_uses (
  action TEXT NOT NULL,
  limit_key TEXT NOT NULL,
  -- Messages that hold a place.
  used INTEGER NOT NULL,
  -- Starts: those of messages that have not started, and those in `limit_starts`.
  starts INTEGER NOT NULL,
  -- Messages that were limited by this limit and got a place, while it is used.
  promoted INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (action, limit_key)
) WITHOUT ROWID;

-- Starts that count until a time.
CREATE TABLE IF NOT EXISTS limit_starts (
  action TEXT NOT NULL,
  limit_key TEXT NOT NULL,
  ends_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS limit_starts_by_end ON limit_starts (ends_at);
CREATE INDEX IF NOT EXISTS limit_starts_by_limit ON limit_starts (action, limit_key, ends_at);

CREATE TABLE IF NOT EXISTS idempotency_keys (
  key TEXT NOT NULL PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  task_id TEXT NOT NULL,
  accepted_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idempotency_keys_by_age ON idempotency_keys (accepted_at);

-- Contains at most one row.
-- Milliseconds since the epoch; null if the queue is not paused.
CREATE TABLE IF NOT EXISTS queue_state (paused INTEGER NOT NULL DEFAULT 0, paused_at INTEGER);

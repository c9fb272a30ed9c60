-- Attempts of the task, see `DetailedRow`. Null in older rows.
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS attempts INTEGER;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS waited_ms INTEGER;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS ran_ms INTEGER;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS started_at INTEGER;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS ended_at INTEGER;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS node TEXT;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS history TEXT;
-- Who may see the row, see `TaskView`. Null in older rows, and without a limit key or access control.
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS limit_key TEXT;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS submitter TEXT;
CREATE INDEX IF NOT EXISTS tasks_by_limit_key ON tasks (limit_key, created_at) WHERE limit_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_by_submitter ON tasks (submitter, created_at) WHERE submitter IS NOT NULL;

-- Histories by id, see `HISTORIES`.
CREATE TABLE IF NOT EXISTS queue_history (id INTEGER PRIMARY KEY, history TEXT NOT NULL);

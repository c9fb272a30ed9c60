-- Who may see the row, see `TaskView`. Null in older rows, and without a limit key or access control.
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS limit_key TEXT;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS submitter TEXT;
CREATE INDEX IF NOT EXISTS tasks_by_limit_key ON tasks (limit_key, created_at) WHERE limit_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_by_submitter ON tasks (submitter, created_at) WHERE submitter IS NOT NULL;

CREATE TABLE IF NOT EXISTS tasks (
  id TEXT NOT NULL PRIMARY KEY,
  payload TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  result TEXT,
  created_at INTEGER NOT NULL,
  processed_at INTEGER
);

-- SQLite appends the rowid to every index. The rowid follows the order in which tasks were accepted, so this index also
-- sorts the tasks of the same second.
CREATE INDEX IF NOT EXISTS tasks_by_creation ON tasks (created_at);
CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status, created_at);

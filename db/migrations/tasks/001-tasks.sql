CREATE TABLE IF NOT EXISTS tasks (
  id TEXT NOT NULL PRIMARY KEY,
  payload TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending',
  result TEXT,
  created_at INTEGER NOT NULL,
  processed_at INTEGER
);

-- A listing reads the newest rows, either all or those with one status. Every index ends with the rowid, which breaks ties.
CREATE INDEX IF NOT EXISTS tasks_by_creation ON tasks (created_at);
CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status, created_at);

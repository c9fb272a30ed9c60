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
-- SQLite uses the index only if the expression equals `ACTION_KEY` in db/sqlite/tasks.ts.
CREATE INDEX IF NOT EXISTS tasks_by_action ON tasks (
  substr(payload, 56, instr(substr(payload, 56, 266), '","data":') - 1), created_at
);
-- All tasks that this program stores are `completed`, so their listing reads `tasks_by_creation` and skips rows with another
-- status, which only other programs add. This index contains only those rows, so it costs nothing to store a task.
CREATE INDEX IF NOT EXISTS uncompleted_tasks_by_status ON tasks (status, created_at) WHERE status <> 'completed';

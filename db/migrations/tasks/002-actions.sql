-- SQLite uses the index only if the expression equals `ACTION_KEY` in db/sqlite/task-listing.ts.
CREATE INDEX IF NOT EXISTS tasks_by_action ON tasks (
  substr(payload, 56, instr(substr(payload, 56, 266), '","data":') - 1), created_at
);

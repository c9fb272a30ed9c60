-- A listing of one action reads its newest rows. The expression is that of `ACTION_KEY` in sqlite/task-listing.ts.
CREATE INDEX IF NOT EXISTS tasks_by_action ON tasks (
  substr(payload, 56, instr(substr(payload, 56, 266), '","data":') - 1), created_at
);

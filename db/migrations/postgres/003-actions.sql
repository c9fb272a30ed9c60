-- A listing of one action reads its newest rows. The expression is that of `ACTION_KEY` in postgres/task-listing.ts.
CREATE INDEX IF NOT EXISTS tasks_by_action ON tasks (
  split_part(substr(payload, 56, 266), '","data":', 1), created_at, arrival
);

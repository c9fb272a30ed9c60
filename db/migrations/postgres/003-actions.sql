-- PostgreSQL uses the index only if the expression equals `ACTION_KEY` in db/postgres/task-listing.ts.
CREATE INDEX IF NOT EXISTS tasks_by_action ON tasks (
  split_part(substr(payload, 56, 266), '","data":', 1), created_at, arrival
);

CREATE TABLE IF NOT EXISTS tasks (
  id text NOT NULL PRIMARY KEY,
  payload text NOT NULL,
  status text NOT NULL DEFAULT 'pending',
  result text,
  created_at bigint NOT NULL,
  processed_at bigint,
  -- Position in the order of arrival, because created_at has a resolution of only one second.
  arrival bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
);

-- Used to list the newest rows, optionally only rows with one status, and to delete the oldest rows.
CREATE INDEX IF NOT EXISTS tasks_by_creation ON tasks (created_at, arrival);
CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status, created_at, arrival);

CREATE TABLE IF NOT EXISTS tasks (
  id text NOT NULL PRIMARY KEY,
  payload text NOT NULL,
  status text NOT NULL DEFAULT 'pending',
  result text,
  created_at bigint NOT NULL,
  processed_at bigint,
  -- The order of arrival, which created_at tells only to the second.
  arrival bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
);

-- The listing reads the newest rows, of all or of one status; the retention begins at the other end.
CREATE INDEX IF NOT EXISTS tasks_by_creation ON tasks (created_at, arrival);
CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status, created_at, arrival);

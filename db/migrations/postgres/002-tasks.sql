CREATE TABLE IF NOT EXISTS tasks (
  id text NOT NULL PRIMARY KEY,
  payload text NOT NULL,
  status text NOT NULL DEFAULT 'pending',
  result text,
  created_at bigint NOT NULL,
  processed_at bigint,
  -- Orders rows with the same `created_at`, which has a resolution of one second.
  arrival bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
);

CREATE INDEX IF NOT EXISTS tasks_by_creation ON tasks (created_at, arrival);
CREATE INDEX IF NOT EXISTS tasks_by_status ON tasks (status, created_at, arrival);

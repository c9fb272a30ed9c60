-- All stored tasks are `completed`, so their listing reads `tasks_by_creation`. The index on statuses contains only rows
-- that another program has added, and costs nothing when a task is stored.
DROP INDEX IF EXISTS tasks_by_status;
CREATE INDEX IF NOT EXISTS uncompleted_tasks_by_status ON tasks (status, created_at) WHERE status <> 'completed';

-- All tasks that this program stores are `completed`, so their listing reads `tasks_by_creation` and skips rows with another
-- status, which only other programs add. The index on statuses contains only those, so it costs nothing to store a task.
DROP INDEX IF EXISTS tasks_by_status;
CREATE INDEX IF NOT EXISTS uncompleted_tasks_by_status ON tasks (status, created_at) WHERE status <> 'completed';

-- History of the queue, see `queueHistory`. Contains at most one row.
CREATE TABLE IF NOT EXISTS queue_history (id INTEGER PRIMARY KEY, history TEXT NOT NULL);

-- History of the queue, see `queueHistory`. Contains at most one row.
CREATE TABLE IF NOT EXISTS queue_history (id integer PRIMARY KEY, history text NOT NULL);

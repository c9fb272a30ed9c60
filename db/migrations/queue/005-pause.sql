-- Has a row while the queue is paused.
CREATE TABLE IF NOT EXISTS pauses (since INTEGER NOT NULL);

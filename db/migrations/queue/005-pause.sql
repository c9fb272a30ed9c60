-- Contains one row while the queue is paused, and is empty otherwise.
CREATE TABLE IF NOT EXISTS pauses (since INTEGER NOT NULL);

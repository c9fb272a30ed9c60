-- 1 if the last attempt failed with a permanent error.
ALTER TABLE dead_letters ADD COLUMN permanent INTEGER NOT NULL DEFAULT 0;

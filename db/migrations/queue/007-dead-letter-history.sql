-- Failed attempts as a JSON array of `at` (milliseconds) and `reason`, oldest first; null if there were none.
ALTER TABLE dead_letters ADD COLUMN history TEXT;

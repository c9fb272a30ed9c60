-- Why the last attempt failed.
ALTER TABLE messages ADD COLUMN reason TEXT;

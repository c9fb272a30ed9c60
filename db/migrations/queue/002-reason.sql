-- Reason for the last failure or snooze; null if there was none.
ALTER TABLE messages ADD COLUMN reason TEXT;

-- Reason for the last failure or snooze of the message; null if there was none.
ALTER TABLE messages ADD COLUMN reason TEXT;

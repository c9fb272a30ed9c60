-- Reason for the message's last failure or snooze. Null if the message has not failed or been snoozed.
ALTER TABLE messages ADD COLUMN reason TEXT;

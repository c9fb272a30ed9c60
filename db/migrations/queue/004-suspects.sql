-- 1 if a process died while the message was in flight; reset to 0 when a later attempt ends.
ALTER TABLE messages ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;

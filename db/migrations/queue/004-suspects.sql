-- 1 if a process died while the message was in flight. Reset to 0 when an attempt ends. For a suspect, `running` is 1
-- only once its attempt has started.
ALTER TABLE messages ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;

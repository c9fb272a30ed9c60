-- Whether a process died while the message was in flight, and no attempt has ended since. `running` is 1 while a message is in
-- flight; for a suspect, only from the start of its attempt on.
ALTER TABLE messages ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;

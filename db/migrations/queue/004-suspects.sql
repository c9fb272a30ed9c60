-- Whether a process died while the message was in flight, and no attempt has ended since. `running` is 1 while a message is in
-- flight, but for a suspect only once its attempt has started.
ALTER TABLE messages ADD COLUMN suspect INTEGER NOT NULL DEFAULT 0;

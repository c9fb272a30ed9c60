-- Running nodes. A message in the state running whose owner has no row here has lost its owner.
CREATE TABLE IF NOT EXISTS nodes (
  -- Owner id of this start of the process.
  id text NOT NULL PRIMARY KEY,
  -- Heartbeat: rises while the node runs.
  counter bigint NOT NULL
);

CREATE TABLE IF NOT EXISTS leases (
  name text NOT NULL PRIMARY KEY,
  owner text NOT NULL,
  -- Rises with each change of the owner.
  epoch bigint NOT NULL,
  -- By the server's clock.
  expires_at timestamptz NOT NULL,
  -- What the next owner continues from.
  state text
);

INSERT INTO leases (name, owner, epoch, expires_at) VALUES ('ticks', '', 0, '-infinity') ON CONFLICT DO NOTHING;

CREATE TABLE IF NOT EXISTS tokens (
  id text NOT NULL PRIMARY KEY,
  -- Keyed hash of the API key.
  key_id text NOT NULL,
  -- Milliseconds since the epoch.
  expires_at bigint NOT NULL,
  -- Order of issue, in which the tokens of an API key are evicted.
  position bigint NOT NULL GENERATED ALWAYS AS IDENTITY
);

CREATE INDEX IF NOT EXISTS tokens_by_key ON tokens (key_id, position);
CREATE INDEX IF NOT EXISTS tokens_by_expiry ON tokens (expires_at);

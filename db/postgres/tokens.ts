import { CHANNEL, type Query } from './database.ts';

export interface TokenRow {
  id: string;
  keyId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

export interface PutResult {
  isAdded: boolean;
  /** Oldest tokens of the same API key, deleted because the key had too many. */
  evicted: string[];
}

/** Largest number of tokens that a statement deletes. */
const SLICE = 1000;

// Nodes are notified in the same transaction, because this node could die between the two. Without a sender, so that this
// node is notified as well: the answer to its request may be lost.
const ANNOUNCE = `pg_notify(${CHANNEL}, json_build_object('from', '', 'topic', 'revoked', 'id', id)::text)`;

// Two concurrent calls may each leave room for the other's token only: the next call then evicts one more.
const PUT = `WITH evicted AS (
    DELETE FROM tokens WHERE id = ANY (ARRAY(
      SELECT id FROM tokens WHERE key_id = $2 ORDER BY position DESC OFFSET $4 - 1 LIMIT ${SLICE}
    )) RETURNING id
  ), added AS (
    INSERT INTO tokens (id, key_id, expires_at)
    SELECT $1, $2, $3 WHERE $5 OR EXISTS (SELECT FROM evicted) RETURNING id
  )
  SELECT EXISTS (SELECT FROM added) AS "isAdded", ARRAY(SELECT id FROM evicted) AS evicted,
    ARRAY(SELECT ${ANNOUNCE}::text FROM evicted)`;
const REVOKE = `WITH revoked AS (DELETE FROM tokens WHERE id = $1 RETURNING id) SELECT ${ANNOUNCE} FROM revoked`;
const FIND = 'SELECT id, key_id AS "keyId", expires_at AS "expiresAt" FROM tokens WHERE id = $1';
const PRESENT = 'SELECT id FROM tokens WHERE id = ANY ($1)';
const DELETE_EXPIRED = `DELETE FROM tokens WHERE id = ANY (ARRAY(
    SELECT id FROM tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT ${SLICE} FOR UPDATE SKIP LOCKED
  )) RETURNING id`;
const COUNT = 'SELECT count(*) AS count FROM tokens WHERE expires_at > $1';

/**
 * Adds a token. If its API key then has more than `maxPerKey`, deletes the oldest of them.
 *
 * @param hasRoom whether the token may be added without replacing another token of its API key
 */
export async function put(
  query: Query,
  { id, keyId, expiresAt }: TokenRow,
  maxPerKey: number,
  hasRoom: boolean,
): Promise<PutResult> {
  const [result] = await query<PutResult>(PUT, [id, keyId, expiresAt, maxPerKey, hasRoom]);
  return result ?? { isAdded: false, evicted: [] };
}

export async function find(query: Query, id: string): Promise<TokenRow | undefined> {
  return (await query<TokenRow>(FIND, [id]))[0];
}

export async function revoke(query: Query, id: string): Promise<void> {
  await query(REVOKE, [id]);
}

/** Returns those of the ids that are in the table. */
export async function present(query: Query, ids: readonly string[]): Promise<Set<string>> {
  return new Set((await query<{ id: string }>(PRESENT, [ids])).map(({ id }) => id));
}

/** Deletes tokens that expired before `before`, in slices. */
export async function deleteExpired(query: Query, before: number): Promise<void> {
  while ((await query(DELETE_EXPIRED, [before])).length === SLICE);
}

/** Returns the number of tokens that expire after `now`. */
export async function count(query: Query, now: number): Promise<number> {
  return (await query<{ count: number }>(COUNT, [now]))[0]?.count ?? 0;
}

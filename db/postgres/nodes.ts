import type { Query } from './database.ts';

export interface NodeRow {
  id: string;
  counter: number;
}

const MAX_NODES = 1000;

const BEAT = `WITH beat AS (
    INSERT INTO nodes (id, counter) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET counter = excluded.counter
  ) SELECT id, counter FROM nodes LIMIT ${MAX_NODES}`;

/** Writes a node's heartbeat, and returns the rows of all nodes as they were before. */
export function beat(query: Query, id: string, counter: number): Promise<NodeRow[]> {
  return query<NodeRow>(BEAT, [id, counter]);
}

/** Deletes a node's row unless its counter has changed. Returns whether this call deleted the row. */
export async function deleteNode(query: Query, { id, counter }: NodeRow): Promise<boolean> {
  return (await query('DELETE FROM nodes WHERE id = $1 AND counter = $2 RETURNING id', [id, counter])).length > 0;
}

/** Returns the owners of running messages and of counts that are not in `nodes`. */
export async function lostOwners(query: Query): Promise<string[]> {
  const rows = await query<{ owner: string }>(`SELECT owner FROM (
      SELECT owner FROM messages WHERE state = 'running' UNION SELECT owner FROM queue_counts WHERE owner <> ''
    ) AS owners WHERE NOT EXISTS (SELECT FROM nodes WHERE nodes.id = owner)`);
  return rows.map(({ owner }) => owner);
}

/** The lease of the leader, which one node at a time owns until it expires by the server's clock. */
export interface LeaseRow {
  epoch: number;
  /** Last stored state of any owner. */
  state: string | null;
}

// `clock_timestamp()` is the time of the write, also for a statement that waited for the row.
const EXPIRY = 'clock_timestamp() + make_interval(secs => $2::float8 / 1000)';
const ACQUIRE = `UPDATE leases SET owner = $1, epoch = epoch + 1, expires_at = ${EXPIRY}
  WHERE name = 'ticks' AND (expires_at <= clock_timestamp() OR owner = $1) RETURNING epoch, state`;
const RENEW = `UPDATE leases SET expires_at = ${EXPIRY}, state = coalesce($4, state)
  WHERE name = 'ticks' AND owner = $1 AND epoch = $3 RETURNING epoch`;
/** Statement timeout, short enough that a failed renewal can be retried before the lease expires. */
const LEASE_LIMIT_MS = 500;

/** Acquires the lease if it has expired. Returns undefined if another node owns it. */
export async function acquireLease(query: Query, owner: string, durationMs: number): Promise<LeaseRow | undefined> {
  return (await query<LeaseRow>(ACQUIRE, [owner, durationMs], LEASE_LIMIT_MS))[0];
}

/** Extends the lease, and stores `state` unless it is null. Returns whether the node still owns the lease. */
export async function renewLease(
  query: Query,
  owner: string,
  { epoch, state }: LeaseRow,
  durationMs: number,
): Promise<boolean> {
  return (await query(RENEW, [owner, durationMs, epoch, state], LEASE_LIMIT_MS)).length > 0;
}

export async function leaseState(query: Query): Promise<string | null> {
  return (await query<LeaseRow>("SELECT epoch, state FROM leases WHERE name = 'ticks'"))[0]?.state ?? null;
}

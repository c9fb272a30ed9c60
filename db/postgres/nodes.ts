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
  state: string | null;
}

// `clock_timestamp()` is the time of the write, also for a statement that waited for the row.
const HOLD = `UPDATE leases SET owner = $1, epoch = CASE owner WHEN $1 THEN epoch ELSE epoch + 1 END,
    expires_at = clock_timestamp() + make_interval(secs => $2::float8 / 1000),
    state = CASE owner WHEN $1 THEN coalesce($3, state) ELSE state END
  WHERE name = 'ticks' AND (owner = $1 OR expires_at <= clock_timestamp()) RETURNING epoch, state`;
/** Statement timeout, short enough that a failed renewal can be retried before the lease expires. */
const LEASE_LIMIT_MS = 500;

/**
 * Acquires the lease if it has expired. If the node owns the lease, extends it, and stores `state` unless it is null. Returns
 * undefined if another node owns the lease.
 */
export async function holdLease(
  query: Query,
  owner: string,
  durationMs: number,
  state: string | null,
): Promise<LeaseRow | undefined> {
  return (await query<LeaseRow>(HOLD, [owner, durationMs, state], LEASE_LIMIT_MS))[0];
}

export async function leaseState(query: Query): Promise<string | null> {
  return (await query<LeaseRow>("SELECT epoch, state FROM leases WHERE name = 'ticks'"))[0]?.state ?? null;
}

import { PostgresClient, type Query, reasonOf } from './database.ts';

export interface DirectOptions {
  /** Statement timeout. */
  timeLimitMs: number;
  onNotification: (payload: string) => void;
  /** Called, perhaps twice, when the connection ends. */
  onLost: (reason: string) => void;
}

/**
 * Opens a connection outside of the pool, which can receive notifications. The server must be reached directly, because a
 * pooler in transaction mode gives each transaction another connection.
 *
 * @throws {Error} if the server cannot be reached
 */
export async function connectDirectly(
  url: string,
  { timeLimitMs, onNotification, onLost }: DirectOptions,
): Promise<PostgresClient> {
  const client = new PostgresClient({ connectionString: url, statement_timeout: timeLimitMs });
  client.on('error', (error) => onLost(reasonOf(error)));
  client.on('end', () => onLost('the server has closed the connection'));
  client.on('notification', ({ payload }) => onNotification(payload ?? ''));
  await client.connect();
  return client;
}

/** Channel of the current schema. Channels belong to a database, whose schemas may be different deployments. */
export const CHANNEL = "'ticker_and_tasks_' || left(md5(current_schema()), 16)";

export async function listen(query: Query): Promise<void> {
  await query(`DO $$ BEGIN EXECUTE 'LISTEN ' || ${CHANNEL}; END $$`);
}

// A transaction that notifies holds up the commits of the others, so it does not wait for the disk.
const NOTIFY = `SELECT pg_notify(${CHANNEL}, payload)
    FROM set_config('synchronous_commit', 'off', true), unnest($1::text[]) AS payload`;

/** Sends notifications in one transaction. Each payload has less than 8,000 bytes. */
export async function notify(query: Query, payloads: readonly string[]): Promise<void> {
  await query(NOTIFY, [payloads]);
}

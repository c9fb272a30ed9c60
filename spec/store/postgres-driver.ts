import { randomUUID } from 'node:crypto';
import { PostgresDatabase } from '../../db/postgres/database.ts';
import { PostgresStore, WRITE_CONNECTIONS } from '../../db/postgres/store.ts';
import type { TaskStore } from '../../db/task-store.ts';
import { migratedSchemaForSuite } from '../support/servers.ts';
import { columnsOf, type Driver, type OpenOptions } from './stage.ts';

/** Opens a store as one node, which has not yet recovered the messages of others. */
export async function openNode(url: string, owner: string, options: OpenOptions, timeLimitMs = 20_000) {
  const writes = new PostgresDatabase(url, { connections: WRITE_CONNECTIONS, timeLimitMs });
  const reads = new PostgresDatabase(url, { connections: 2, timeLimitMs });
  const store = new PostgresStore({ writes, reads }, { ...options, owner });
  await store.start();
  return store;
}

/** Returns the driver that keeps the queue in PostgreSQL. Each node recovers the messages of the one before. */
export function postgresDriver(): Driver {
  const schema = migratedSchemaForSuite();
  const nodes = new WeakMap<TaskStore, { url: string; owner: string }>();
  const open = async (url: string, options: OpenOptions) => {
    const owner = randomUUID();
    const store = await openNode(url, owner, options);
    nodes.set(store, { url, owner });
    return store;
  };
  return {
    isDurable: true,
    open: (options) => open(schema().url, options),
    reopen: async (former, options) => {
      const { url, owner } = nodes.get(former) as { url: string; owner: string };
      const store = await open(url, options);
      await store.recover(owner);
      return store;
    },
    async insertRows(_, rows) {
      const columns = rows.map(columnsOf);
      const values = [0, 1, 2, 3, 4, 5, 6].map((index) => columns.map((row) => row[index]));
      await schema().sql(
        `INSERT INTO tasks (arrival, id, payload, status, result, created_at, processed_at)
          SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])`,
        values,
      );
    },
    read: (_, sql) => schema().sql(sql),
  };
}

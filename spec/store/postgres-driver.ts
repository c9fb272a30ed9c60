import { randomUUID } from 'node:crypto';
import { PostgresDatabase } from '../../db/postgres/database.ts';
import { PostgresStore, WRITE_CONNECTIONS } from '../../db/postgres/store.ts';
import type { TaskStore } from '../../db/task-store.ts';
import { afterTest } from '../support/cleanup.ts';
import { migratedSchemaForSuite } from '../support/servers.ts';
import type { Driver, OpenOptions } from './stage.ts';

/** Opens a store as one node, which has not yet recovered the messages of others. */
export async function openNode(url: string, owner: string, options: OpenOptions): Promise<PostgresStore> {
  const limits = { timeLimitMs: 20_000 };
  const writes = new PostgresDatabase(url, { connections: WRITE_CONNECTIONS, ...limits });
  const reads = new PostgresDatabase(url, { connections: 2, ...limits });
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
    async insertRow(store, ...row) {
      const { url } = nodes.get(store) as { url: string };
      const beside = new PostgresDatabase(url, { connections: 1, timeLimitMs: 20_000 });
      afterTest(() => beside.close());
      await beside.query("INSERT INTO tasks (id, payload, status, created_at) VALUES ($1, '{}', $2, $3)", row);
    },
  };
}

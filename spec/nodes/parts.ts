import { PostgresDatabase } from '../../db/postgres/database.ts';
import { Bus, type BusMessage } from '../../main/nodes/bus.ts';
import { type Clock, systemClock, systemRandom } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { type Severable, severable } from '../support/severable.ts';

/** Opens a node's bus, and records the messages that the bus receives. */
export async function openBus(databaseUrl: string, clock: Clock = systemClock, database = openDatabase(databaseUrl)) {
  const captured = captureLog();
  const bus = new Bus({
    databaseUrl,
    database,
    clock,
    random: systemRandom,
    log: captured.log,
  });
  afterTest(() => bus.close());
  const received: BusMessage[] = [];
  const counts = { missed: 0, lost: 0 };
  bus.on('message', ({ from: _, ...message }: BusMessage & { from?: string }) => received.push(message as BusMessage));
  bus.on('missed', () => {
    counts.missed += 1;
  });
  bus.receiving.on('lost', () => {
    counts.lost += 1;
  });
  await bus.open();
  return { ...captured, bus, received, counts };
}

export function openDatabase(databaseUrl: string): PostgresDatabase {
  const database = new PostgresDatabase(databaseUrl, { connections: 2, timeLimitMs: 2000 });
  afterTest(() => database.close());
  return database;
}

/** Returns the URL of a database through a proxy whose connections can be cut. */
export async function through(databaseUrl: string, host?: string): Promise<{ url: string; way: Severable }> {
  const url = new URL(databaseUrl.replace(/^\w+:/, 'http:'));
  const way = await severable(url.origin, host);
  url.host = new URL(way.url).host;
  return { url: url.href.replace(/^http:/, 'postgres:'), way };
}

/** Returns the error that a call throws, or undefined. */
export async function failure(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
}

import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { startServices } from '../../support/program.ts';
import { type Figure, median } from '../figure.ts';
import { cpuOf } from '../server.ts';

/** Requests by name, for a table with a number of rows. Each page has 100 rows. */
const REQUESTS: Readonly<Record<string, (rows: number) => string>> = {
  'the newest page': () => '/tasks',
  'a page in the middle': (rows) => `/tasks?before=${idOf(rows / 2)}`,
  'the last page': () => `/tasks?before=${idOf(101)}`,
  'a page of a status': () => '/tasks?status=completed',
  'a page of an action': (rows) => `/tasks?action=sum&before=${idOf(rows / 2)}`,
  'a status without rows': () => '/tasks?status=failed',
  'an action without rows': () => '/tasks?action=none',
  'an action without rows of a status': () => '/tasks?action=sum&status=failed',
  'a row': (rows) => `/tasks/${idOf(rows / 3)}`,
  'the counts of the queue': () => '/queue',
  'the next queued tasks': () => '/queue/tasks?state=queued',
  'the first retries, of none': () => '/queue/tasks?state=retrying',
  'a queued task': (rows) => `/tasks/${idOf(rows + queuedBeside(rows) / 2)}`,
};

const PASSES = 5;

/** Length of the paused queue beside a table of this many rows. */
const queuedBeside = (rows: number) => rows / 5;

/** Whether reads of stored and queued tasks cost the same with many as with few. The first size is that of the comparison. */
export function listing(sizes: readonly [number, ...number[]], requests: number): Figure {
  const nameOf = (rows: number) => (rows === sizes[0] ? 'product' : `product, ${rows} rows`);
  const folders = new Map<number, Promise<string>>();
  const filled = (rows: number) => folders.get(rows) ?? folders.set(rows, fill(rows)).get(rows);
  return {
    name: `reads with ${sizes.slice(1).join(', ')} rows, and a fifth as many queued tasks, beside ${sizes[0]} rows`,
    contenders: Object.fromEntries(
      sizes.map((rows) => [nameOf(rows), async () => measure((await filled(rows)) as string, rows, requests)]),
    ),
    readings: sizes.slice(1).flatMap((rows) => {
      const common = { of: nameOf(rows), beside: 'product' };
      return Object.keys(REQUESTS).flatMap((key) => [
        { key, name: `CPU, ${key}, ${rows} rows`, unit: 'µs', ...common, target: { atMost: 1.1 } },
        { key: `${key}, p99`, name: `p99, ${key}, ${rows} rows`, unit: 'ms', ...common, target: { atMost: 1.5 } },
      ]);
    }),
  };
}

async function measure(DATA_DIR: string, rows: number, requests: number): Promise<Record<string, number>> {
  const bounds = { QUEUE_MAX_LENGTH: '10000000', QUEUE_MAX_BYTES: '10000000000' };
  const services = await startServices({ env: { DATA_DIR, QUEUE_DRIVER: 'sqlite', ...bounds } });
  const measured = Object.entries(REQUESTS).map(([name, path]) => {
    return { name, url: services.tasks + path(rows), cpus: [] as number[], times: [] as number[] };
  });
  // Passes take turns. Only the first one runs code that is not optimized yet.
  for (let pass = 0; pass <= PASSES; pass++) {
    for (const { url, cpus, times } of measured) {
      const cpu = cpuOf(services);
      const took = await timed(url, requests / PASSES);
      if (pass === 0) continue;
      cpus.push(((cpuOf(services) - cpu) / took.length) * 1e6);
      times.push(...took);
    }
  }
  return Object.fromEntries(
    measured.flatMap(({ name, cpus, times }) => {
      const sorted = times.sort((one, other) => one - other);
      return [
        [name, median(cpus)],
        [`${name}, p99`, sorted[Math.floor(sorted.length * 0.99)] as number],
      ];
    }),
  );
}

/** Returns a temporary `DATA_DIR` with rows as the product stores them, a hundred of each second, and a paused queue. */
async function fill(rows: number): Promise<string> {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'bench-rows-'));
  process.once('exit', () => rmSync(DATA_DIR, { recursive: true, force: true }));
  migrate(DATA_DIR);
  const database = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
  // A cache of 1 GiB, because ids in random order would otherwise evict the pages of their index.
  database.exec(`
    PRAGMA synchronous = OFF; PRAGMA cache_size = -1048576; PRAGMA wal_autocheckpoint = 0;
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${rows}),
      tasks_of(n, id, action, second) AS (
        SELECT n, ${SQL_ID}, iif(n % 2, 'sum', 'uppercase'), 1700000000 + n / 100 FROM numbers
      )
    INSERT INTO tasks (rowid, id, payload, status, result, created_at, processed_at)
    SELECT n, id, '{"id":"' || id || '","action":"' || action || '","data":{"text":"hello world"},"created_at":' || second || '}',
      'completed', '{"output":"HELLO WORLD"}', second, second + 1
    FROM tasks_of;
    WITH RECURSIVE numbers(n) AS (SELECT ${rows + 1} UNION ALL SELECT n + 1 FROM numbers WHERE n < ${rows + queuedBeside(rows)}),
      tasks_of(n, id) AS (SELECT n, ${SQL_ID} FROM numbers)
    INSERT INTO messages (arrival, id, action, run_at, accepted_at, body)
    SELECT n, id, 'sum', 1700000000000 + n, 1700000000000 + n, '{"id":"' || id || '","action":"sum","data":{"numbers":[1,2,3]},"created_at":1700000000}'
    FROM tasks_of;
    INSERT INTO queue_state (paused) VALUES (1);
    PRAGMA wal_checkpoint(TRUNCATE)`);
  database.close();
  return DATA_DIR;
}

/** Id of the row with this number, in an order that looks random, like that of the product's ids. */
const SQL_ID = `printf('%08x-0000-4000-8000-%012x', n * 1103515245 % 4294967296, n)`;

function idOf(row: number): string {
  const number = Math.floor(row);
  const hex = (value: number, digits: number) => value.toString(16).padStart(digits, '0');
  return `${hex((number * 1_103_515_245) % 4_294_967_296, 8)}-0000-4000-8000-${hex(number, 12)}`;
}

/** @returns the times of as many requests, one after the other, in milliseconds */
async function timed(url: string, requests: number): Promise<number[]> {
  const times: number[] = [];
  for (let request = 0; request < requests; request++) {
    const begun = performance.now();
    const response = await fetch(url);
    if (response.status !== 200) throw new Error(`${url} answers ${response.status}`);
    await response.arrayBuffer();
    times.push(performance.now() - begun);
  }
  return times;
}

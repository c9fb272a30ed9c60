import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import type { Figure } from '../figure.ts';
import { project, startProduct } from '../server.ts';

/** Whether `GET /tasks` takes as long with many rows as with few. */
export function listing(few: number, many: number, requests: number): Figure {
  const large = `product, ${many} rows`;
  const common = { unit: 'ms', of: large, beside: 'product', target: { atMost: 1.5 } } as const;
  return {
    name: `GET /tasks with ${many} rows beside ${few} rows`,
    contenders: { product: () => measure(few, requests), [large]: () => measure(many, requests) },
    readings: [
      { key: 'all', name: `GET /tasks, p99`, ...common },
      { key: 'completed', name: 'GET /tasks?status=completed, p99', ...common },
    ],
  };
}

async function measure(rows: number, requests: number): Promise<Record<string, number>> {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'bench-rows-'));
  try {
    await promisify(execFile)(process.execPath, [join(project, 'dist/main/index.js'), 'migrate'], {
      env: { ...process.env, DATA_DIR },
    });
    fill(join(DATA_DIR, 'tasks.db'), rows);
    const { server, tasks } = await startProduct({ DATA_DIR });
    try {
      const url = `http://${tasks.host}:${tasks.port}/tasks`;
      return { all: await timed(url, requests), completed: await timed(`${url}?status=completed`, requests) };
    } finally {
      await server.stop();
    }
  } finally {
    await rm(DATA_DIR, { recursive: true, force: true });
  }
}

/** Rows as the product stores them, a hundred of each second. */
function fill(path: string, rows: number): void {
  const database = new DatabaseSync(path);
  database.exec(`
    WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${rows})
    INSERT INTO tasks (rowid, id, payload, status, result, created_at, processed_at)
    SELECT n, lower(hex(randomblob(16))), '{"action":"uppercase","data":{"text":"hello world"}}', 'completed',
      '{"output":"HELLO WORLD"}', 1700000000 + n / 100, 1700000001 + n / 100
    FROM numbers`);
  database.close();
}

/** @returns the 99th percentile of as many requests, one after the other, in milliseconds */
async function timed(url: string, requests: number): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const times: number[] = [];
  for (let request = -50; request < requests; request++) {
    const begun = performance.now();
    const [response] = await once(get(url, { agent }), 'response');
    await once(response.resume(), 'end');
    // The first ones are still being compiled.
    if (request >= 0) times.push(performance.now() - begun);
  }
  agent.destroy();
  return times.toSorted((one, other) => one - other)[Math.floor(requests * 0.99)] as number;
}

import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { temporaryFolder } from '../../support/cleanup.ts';
import { type Program, startServices } from '../../support/program.ts';
import type { Figure } from '../bench.ts';
import { cpuOf, startPeer } from '../server.ts';

const run = promisify(execFile);
const TASK = { action: 'uppercase', data: { text: 'hello world' } };
const BATCH = 1000;
const BATCHES = 'product, batches';

const single = { path: '/tasks', body: JSON.stringify(TASK), tasks: 1 };
const batch = { path: '/tasks/batch', body: JSON.stringify({ tasks: Array(BATCH).fill(TASK) }), tasks: BATCH };

/** How many submissions a second are accepted over HTTP. */
export function submissions(connections: number, seconds: number): Figure {
  const measurePeer = async (name: string) => {
    const { server, port } = await startPeer(name);
    return measure(server, `http://127.0.0.1:${port}`, connections, seconds);
  };
  return {
    name: `POST /tasks over ${connections} connections, ${seconds} s`,
    contenders: {
      product: () => measureProduct(connections, seconds),
      'node:http': () => measurePeer('node-http'),
      Fastify: () => measurePeer('fastify'),
    },
    readings: [
      { key: 'requests', name: 'requests', unit: '/s', beside: 'node:http', target: { atLeast: 0.65 } },
      { key: 'cpu', name: 'server CPU a request, working it off included', unit: 'µs', beside: 'node:http' },
      { key: 'refused', name: 'refused', unit: '%' },
    ],
  };
}

/** Number of tasks a second that are accepted in batches. */
export function batches(connections: number, seconds: number): Figure {
  return {
    name: `POST /tasks/batch with ${BATCH} tasks over ${connections} connections, ${seconds} s`,
    contenders: {
      product: () => measureProduct(connections, seconds),
      [BATCHES]: () => measureProduct(connections, seconds, batch),
    },
    readings: [
      { key: 'tasks', name: 'tasks of single requests', unit: '/s' },
      { key: 'tasks', name: 'of batches', unit: '/s', of: BATCHES, beside: 'product', target: { atLeast: 8 } },
      { key: 'refused', name: 'refused batches', unit: '%', of: BATCHES },
    ],
  };
}

async function measureProduct(connections: number, seconds: number, request = single) {
  const env = { QUEUE_MAX_LENGTH: '10000000', QUEUE_MAX_BYTES: '1000000000' };
  const services = await startServices({ env });
  return measure(services, services.tasks, connections, seconds, request);
}

async function measure(server: Program, origin: string, connections: number, seconds: number, request = single) {
  await flood(origin, connections, 2, request);
  const cpu = cpuOf(server);
  const { requests, refused } = await flood(origin, connections, seconds, request);
  return {
    requests: requests / seconds,
    tasks: ((requests - refused) / seconds) * request.tasks,
    cpu: ((cpuOf(server) - cpu) / requests) * 1e6,
    refused: (refused / requests) * 100,
  };
}

/** Submits with `wrk`, which costs less than what it measures. */
export async function flood(origin: string, connections: number, seconds: number, { path, body } = single) {
  const script = join(await temporaryFolder(), 'post.lua');
  const headers = 'wrk.headers["Content-Type"] = "application/json"';
  await writeFile(script, `wrk.method = "POST"\n${headers}\nwrk.body = '${body}'\n`);
  const { stdout } = await run('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, origin + path]);
  const count = (what: RegExp) => Number(what.exec(stdout)?.[1] ?? 0);
  return { requests: count(/(\d+) requests in/), refused: count(/Non-2xx or 3xx responses: (\d+)/) };
}

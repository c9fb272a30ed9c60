import { setTimeout } from 'node:timers/promises';
import { temporaryFile } from '../../support/cleanup.ts';
import { execute } from '../../support/command.ts';
import { residentBytes } from '../../support/proc.ts';
import { type Program, request, startServices } from '../../support/program.ts';
import type { Figure } from '../bench.ts';
import { cpuOf, gatherCrowd, startPeer, startRedis, streamOf } from '../server.ts';

const TASK = { action: 'uppercase', data: { text: 'hello world' } };
const BATCH = 1000;
const BATCHES = 'product, batches';

const single = { path: '/tasks', body: JSON.stringify(TASK), tasks: 1 };
const batch = { path: '/tasks/batch', body: JSON.stringify({ tasks: Array(BATCH).fill(TASK) }), tasks: BATCH };

/** Number of submissions a second that are accepted over HTTP, and in batches over a quarter of the connections. */
export function submissions(connections: number, seconds: number): Figure {
  return {
    name: `POST /tasks over ${connections} connections, ${seconds} s`,
    contenders: {
      product: () => measureProduct(connections, seconds),
      [BATCHES]: () => measureProduct(connections / 4, seconds, batch),
      'node:http': async () => {
        const { server, port } = await startPeer('node-http');
        return measure(server, `http://127.0.0.1:${port}`, connections, seconds);
      },
    },
    readings: [
      { key: 'requests', name: 'requests', unit: '/s', beside: 'node:http', target: { atLeast: 0.65 } },
      { key: 'cpu', name: 'server CPU a request, working it off included', unit: 'µs', beside: 'node:http' },
      { key: 'refused', name: 'refused', unit: '%' },
      { key: 'tasks', name: 'tasks in batches', unit: '/s', of: BATCHES, beside: 'product', target: { atLeast: 8 } },
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
  await submit(origin, connections, 2, request);
  const cpu = cpuOf(server);
  const { requests, refused } = await submit(origin, connections, seconds, request);
  return {
    requests: requests / seconds,
    tasks: ((requests - refused) / seconds) * request.tasks,
    cpu: ((cpuOf(server) - cpu) / requests) * 1e6,
    refused: (refused / requests) * 100,
  };
}

/** Submits with `wrk`, which costs less than what it measures. */
async function submit(origin: string, connections: number, seconds: number, { path, body } = single) {
  const headers = 'wrk.headers["Content-Type"] = "application/json"';
  const script = await temporaryFile('post.lua', `wrk.method = "POST"\n${headers}\nwrk.body = '${body}'\n`);
  const { stdout } = await execute('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, origin + path]);
  const count = (what: RegExp) => Number(what.exec(stdout)?.[1] ?? 0);
  return { requests: count(/(\d+) requests in/), refused: count(/Non-2xx or 3xx responses: (\d+)/) };
}

const CONNECTIONS = 32;
const SAMPLE_MS = 500;
/** It is full before a third of the flood is over. */
const QUEUE_MAX_LENGTH = 30_000;

const DEFAULTS = 'product, default settings';
const PEER = 'Fastify, BullMQ, SQLite';

export function flood(clients: number, seconds: number): Figure {
  return {
    name: `POST /tasks flooded over ${CONNECTIONS} connections, ${seconds} s, with ${clients} clients of the stream`,
    contenders: {
      product: () => measureFlood(clients, seconds),
      [DEFAULTS]: async () => measureRates(await startServices(), seconds),
      [PEER]: async () => {
        const { server, port } = await startPeer('fastify-bullmq', await startRedis());
        return measureRates({ ...server, tasks: `http://127.0.0.1:${port}` }, seconds);
      },
    },
    readings: [
      { key: 'lateness', name: 'from tick to client, p99', unit: 'ms', target: { atMost: 50 } },
      { key: 'missed', name: 'frames missed', target: { atMost: 0 } },
      { key: 'accepted', name: 'accepted', unit: '/s' },
      { key: 'flooded', name: 'worked off during the flood', unit: '/s' },
      { key: 'unflooded', name: 'worked off after it, from the backlog', unit: '/s' },
      { key: 'share', name: 'the one by the other', target: { atLeast: 0.5 } },
      { key: 'longest', name: 'longest queue by its bound', target: { atMost: 1 } },
      { key: 'growth', name: 'memory at the end by that after a third', target: { atMost: 1.1 } },
      { key: 'accepted', name: 'accepted, no stream, default settings', unit: '/s', of: DEFAULTS, beside: PEER },
      { key: 'flooded', name: 'processed during that flood', unit: '/s', of: DEFAULTS, beside: PEER },
      { key: 'keptUp', name: 'processed by accepted in that flood', of: DEFAULTS, target: { atLeast: 0.8 } },
      { key: 'keptUp', name: 'the same of Fastify with BullMQ and SQLite', of: PEER },
    ],
  };
}

type Service = Pick<Program, 'child'> & { tasks: string };

type QueueSample = Awaited<ReturnType<typeof look>>;

async function measureFlood(clients: number, seconds: number) {
  const product = await startServices({ env: { QUEUE_MAX_LENGTH: `${QUEUE_MAX_LENGTH}` } });
  const crowd = await gatherCrowd({ target: await streamOf(product), connections: clients, concurrency: 100 });
  const during = await sampleFlood(product, seconds, () => crowd.startOver());
  const lacking = await crowd.catchUp(2000);
  const { missed, lateness } = crowd.record.report();
  const from = await look(product);
  let to = from;
  // The end of the backlog may come before the next look.
  while (to === from || (to.held > from.held / 2 && to.at - from.at < 3000)) {
    await setTimeout(50);
    to = await look(product);
  }
  const { first, last, accepted, flooded } = ratesOf(during);
  // Where no backlog is left, the tasks have kept up with the flood.
  const unflooded = to.completed > from.completed ? rate(from, to, 'completed') : flooded;
  const third = during[Math.floor(during.length / 3)] ?? first;
  return {
    lateness: lateness.p99,
    missed: missed + lacking + crowd.lost,
    ...{ accepted, flooded, unflooded, share: flooded / unflooded },
    longest: Math.max(...during.map(({ held }) => held)) / QUEUE_MAX_LENGTH,
    growth: last.memory / third.memory,
  };
}

async function measureRates(service: Service, seconds: number) {
  const { accepted, flooded } = ratesOf(await sampleFlood(service, seconds));
  return { accepted, flooded, keptUp: flooded / accepted };
}

/** Submits as fast as it can, and samples the counts from a second into the flood until its end. */
async function sampleFlood(service: Service, seconds: number, begun = () => {}): Promise<QueueSample[]> {
  let over = false;
  const submitting = submit(service.tasks, CONNECTIONS, seconds).finally(() => {
    over = true;
  });
  await setTimeout(1000);
  begun();
  const samples: QueueSample[] = [];
  // Rates need two samples, however slow the machine is, besides the last one.
  while (!over || samples.length < 3) {
    samples.push(await look(service));
    await setTimeout(SAMPLE_MS);
  }
  await submitting;
  // The last sample may have been taken after the flood.
  return samples.slice(0, -1);
}

async function look({ child, tasks }: Service) {
  const { accepted, completed, waiting = 0, delayed = 0, in_flight = 0 } = (await request(`${tasks}/queue`)).body;
  const memory = residentBytes(child.pid as number);
  return { at: performance.now(), accepted, completed, held: waiting + delayed + in_flight, memory };
}

function ratesOf(samples: QueueSample[]) {
  const [first, last] = [samples[0], samples.at(-1)] as [QueueSample, QueueSample];
  return { first, last, accepted: rate(first, last, 'accepted'), flooded: rate(first, last, 'completed') };
}

function rate(from: QueueSample, to: QueueSample, count: 'accepted' | 'completed'): number {
  return ((to[count] - from[count]) / (to.at - from.at)) * 1000;
}

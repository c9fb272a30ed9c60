import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { embeddedDrivers } from '../../main/config.ts';
import { attack, attacks } from '../support/broken-frames.ts';
import { exchange, sendings } from '../support/broken-requests.ts';
import { gather } from '../support/crowd.ts';
import { type Inspector, inspect, inspectable } from '../support/inspector.ts';
import { Ledger, queueCounts, untilIdle } from '../support/ledger.ts';
import { openDescriptors, residentBytes, threadCount } from '../support/proc.ts';
import { type RunningServices, request, startServices } from '../support/program.ts';
import { type Random, randomFrom, seed, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { inTime, until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

const MIB = 1024 * 1024;
/** Largest growth of a heap from the first round to the last: ten minutes reveal a leak of ten bytes a task. */
const HEAP_GROWTH = 6 * MIB;
/** Largest growth of the resident memory beyond the heap. Allocators do not return all freed memory. */
const RESIDENT_GROWTH = 96 * MIB;

/** Number of silent clients, and number of clients that ping. None of them ever reads. */
const NEVER_READ = 5;

/** Settings low enough for every bound to be reached and every lifetime to expire, except the rate of key exchanges. */
const SETTINGS = {
  ...{ TOKEN_LIFETIME_SECONDS: '10', IDEMPOTENCY_MAX_KEYS: '100', QUEUE_MAX_LENGTH: '5000' },
  TOKEN_REQUESTS_PER_MINUTE: '100000',
};

interface Target {
  services: RunningServices;
  ledger: Ledger;
  random: Random;
}

/** One step of a client, which repeats it until the end of the round. */
type Client = (target: Target) => Promise<void>;

const submits: Client = async ({ services, ledger, random }) => {
  expect(await ledger.submit(services.tasks, random, random.below(1000) === 0 ? 3 : random.below(3))).to.equal(202);
};

const repeats: Client = async ({ services: { tasks }, random }) => {
  const headers = { 'Idempotency-Key': `key-${random.below(2 ** 31)}` };
  const once = () => request(`${tasks}/tasks`, { method: 'POST', body: '{"action":"sum"}', headers });
  const first = await once();
  expect(first.status).to.equal(202);
  const second = await once();
  expect([second.status, second.body.id]).to.deep.equal([202, first.body.id]);
};

const looks: Client = async ({ services: { tasks }, random }) => {
  await queueCounts(tasks);
  const { body } = await request(`${tasks}/tasks${random.pick(['', '?status=completed'])}`);
  for (const { id } of body.tasks.slice(0, 3))
    expect((await request(`${tasks}/tasks/${id}`)).body).to.include({ id, status: 'completed' });
  expect((await request(`${tasks}/dead-letters`)).status).to.equal(200);
  expect((await request(`${tasks}/tasks/none`)).status).to.equal(404);
  await setTimeout(20);
};

const comesAndGoes: Client = async ({ services, random }) => {
  const client = await connect(services.stream, { token: await services.token() });
  for (let message = random.below(3); message >= 0; message--) await client.nextOf('ticker');
  if (random.below(2) === 0) client.socket.close();
  else client.socket.terminate();
  await client.closed;
  await setTimeout(200);
};

const revokes: Client = async (target) => {
  const token = await target.services.token();
  const client = await connect(target.services.stream, { token });
  const headers = { Authorization: `Bearer ${token}` };
  expect((await request(`${target.services.ticker}/auth/token`, { method: 'DELETE', headers })).status).to.equal(204);
  expect((await client.closed).code).to.equal(4001);
  await setTimeout(200);
};

/** Sends malformed frames to the stream and malformed HTTP to both services, each on up to eight connections at once. */
const attacksBoth: Client = async ({ services, random }) => {
  const samples = <Sample>(from: fc.Arbitrary<Sample>) =>
    fc.sample(from, { seed: seed + random.below(2 ** 20), numRuns: 1 + random.below(8) });
  const token = await services.token();
  const [ticker, tasks] = [services.ticker, services.tasks].map((url) => Number(new URL(url).port)) as [number, number];
  await Promise.all(samples(attacks).map((each) => attack(ticker, token, each)));
  for (const port of [ticker, tasks]) await Promise.all(samples(sendings).map((pieces) => exchange(port, pieces)));
};

const clients = [submits, submits, submits, repeats, looks, comesAndGoes, comesAndGoes, revokes, attacksBoth];

/** Steps of {@link attacksBoth} in each round, however slow the machine is. */
const MIN_ATTACKS = 20;

type Footprint = Awaited<ReturnType<typeof measure>>;

async function measure({ services, ledger, random }: Target, inspector: Inspector) {
  const pid = services.child.pid as number;
  // The thread that parses large submissions ends when it is idle.
  await inspector.alive(/^submissions /, 0);
  let threads: [number, number][] | undefined;
  const asked = inspector
    .values('[gc(), process.memoryUsage().heapUsed, process.getActiveResourcesInfo().length].slice(1)')
    .then((values) => {
      threads = values as [number, number][];
    });
  // An idle pool thread sleeps and cannot respond to the inspector, so tasks wake it up.
  while (threads === undefined) {
    for (let task = 0; task < 4; task++) void (await ledger.submit(services.tasks, random, 0));
    await Promise.race([asked, setTimeout(100)]);
  }
  return {
    /** Heap bytes in use by thread, the main thread first. */
    heaps: threads.map(([heap]) => heap),
    /** Number of timers, sockets and other handles of all threads. */
    handles: threads.reduce((sum, [, handles]) => sum + handles, 0),
    descriptors: openDescriptors(pid),
    threads: threadCount(pid),
    resident: residentBytes(pid),
  };
}

/** Longest time for one step. Longer than the timeouts of the services. */
const STEP_MS = 75_000;

const ends = <T>(name: string, step: Promise<T>) => inTime(STEP_MS, `${name} did not end`, step);

const minutes = Number(process.env.SOAK_MINUTES ?? 10);
/** Number of rounds that the minutes are divided into. After each round, the idle process is measured. */
const ROUNDS = 6;
const READERS = 200;

describe(`a mixed load of valid and invalid requests for ${minutes} minutes`, () => {
  for (const QUEUE_DRIVER of embeddedDrivers) {
    it(`leaves no memory, handle, descriptor or thread behind with the ${QUEUE_DRIVER} queue, and loses no task and no tick ${seedNote}`, async function () {
      if (process.platform !== 'linux') this.skip();
      const env = { ...SETTINGS, QUEUE_DRIVER };
      const services = await startServices({ env, nodeOptions: [...inspectable, '--expose-gc'] });
      const inspector = await inspect(services);
      const pid = services.child.pid as number;
      const { port } = new URL(services.ticker);
      const steady = await watchSteadily(services);
      const numbers = { readers: READERS, silent: NEVER_READ, chatty: NEVER_READ };
      const crowd = await gather({ port: Number(port), token: await services.token(), ...numbers });
      const ledger = new Ledger();
      const random = randomFrom(QUEUE_DRIVER.length);
      const others = openDescriptors(pid);
      const areClosed = () => openDescriptors(pid) <= others + 5;

      const footprints: Footprint[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const end = performance.now() + (minutes * 60_000) / ROUNDS;
        const run = async (client: Client) => {
          const least = client === attacksBoth ? MIN_ATTACKS : 1;
          for (let step = 0; step < least || performance.now() < end; step++)
            await ends(client.name, client({ services, ledger, random }));
        };
        await Promise.all(clients.map(run));
        await ends('the load', untilIdle(services.tasks));
        await ends('the connections', until(areClosed));
        footprints.push(await ends('the measurement', measure({ services, ledger, random }, inspector)));
      }

      for (const { heaps, resident, ...counts } of footprints) {
        const mib = [...heaps, resident].map((bytes) => (bytes / MIB).toFixed(1)).join(' ');
        console.log(`    heaps and resident memory in MiB: ${mib}, ${JSON.stringify(counts)}`);
      }
      const [first, last] = [footprints[0], footprints.at(-1)] as [Footprint, Footprint];
      for (const [thread, heap] of last.heaps.entries())
        expect(heap - (first.heaps[thread] ?? heap), `growth of heap ${thread}`).to.be.at.most(HEAP_GROWTH);
      expect(last.resident - first.resident, 'growth of memory').to.be.at.most(RESIDENT_GROWTH);
      // Clients that never read are disconnected after a minute.
      const fewer = 5 + 2 * NEVER_READ;
      expect(last.handles, 'handles').to.be.within(first.handles - fewer, first.handles + 5);
      // A large submission of the measurement itself may have started the thread that parses it, which has up to six.
      expect(last.descriptors, 'descriptors').to.be.within(first.descriptors - fewer, first.descriptors + 11);
      expect(last.threads, 'threads').to.be.within(first.threads - 1, first.threads + 1);

      steady.check();
      expect(await crowd.report()).to.deep.include({ lacking: 0, missed: 0, closed: {} });
      const { body } = await request(`${services.admin}/metrics`);
      const connections = Number(/^ticker_websocket_connections (\d+)$/m.exec(body)?.[1]);
      expect(connections, 'streams').to.be.within(READERS + 1, READERS + 1 + 2 * NEVER_READ);
      console.log(`    ${ledger.size} tasks, ${steady.ticks()} ticks`);
      await ledger.settled(services, QUEUE_DRIVER === 'sqlite');
      expect(services.lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
      services.child.kill('SIGTERM');
      // After `stopped` the process only waits for the inspector to disconnect.
      expect(await services.logged(({ msg }) => msg === 'stopped')).to.include({ unfinished: 0 });
    }).timeout(120_000 + minutes * 120_000);
  }
});

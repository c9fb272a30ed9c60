import { setTimeout } from 'node:timers/promises';
import { startChild } from '../support/child.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { queueCounts } from '../support/ledger.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { openDescriptors, peakResidentBytes, resetPeak } from '../support/proc.ts';
import { post, startServices } from '../support/program.ts';
import { STREAMS, startNeighbours, TICK_INTERVAL_MS } from './neighbours.ts';
import type { ListedScenario } from './scenarios/all.ts';
import { type Bounds, broken, effectiveBounds, type Footprint, leftOf, MIB, usualBounds } from './verdict.ts';

/** Longest wait until the memory and descriptors are back within the bounds, on a loaded machine. */
const SETTLE_MS = 45_000;
const REST_MS = 100;
const NEIGHBOUR_KEY = 'n'.repeat(32);
const ATTACKER_KEY = 'a'.repeat(32);

/** Collects garbage, returns memory to the system as V8 does after some idle time, and measures the main thread's memory. */
const MEASURE = `gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  (({ rss, heapUsed, external }) => ({ resident: rss, live: heapUsed + external }))(process.memoryUsage())`;

const QUIET: ListedScenario = { name: 'no attack', group: 'baseline' };
/** Shortest measurement window: one health probe and ten ticks. */
const WARM_UP_MS = 1000;

export type Result = ReturnType<typeof attackAll> extends AsyncGenerator<infer Yielded> ? Yielded : never;

async function startTarget(env: Record<string, string>) {
  const settings = { TICK_INTERVAL_MS: `${TICK_INTERVAL_MS}`, ...env };
  const services = await startServices({ env: settings, nodeOptions: [...inspectable, '--expose-gc'] });
  const inspector = await inspect(services);
  using database = openBeside(services.env.DATA_DIR, 'auth.db');
  const insert = database.prepare('INSERT INTO api_keys (api_key, user_id, created_at) VALUES (?, ?, 1)');
  for (const key of [NEIGHBOUR_KEY, ATTACKER_KEY]) insert.run(key, `user ${key.charAt(0)}`);

  const { ticker, tasks, admin } = services;
  const pid = services.child.pid as number;
  const port = (url: string) => Number(new URL(url).port);
  const measure = async (): Promise<Footprint> => {
    const memory = (await inspector.valueOfMain(MEASURE)) as Omit<Footprint, 'descriptors'>;
    return { ...memory, descriptors: openDescriptors(pid) };
  };
  return {
    ...{ env, tasks, admin },
    mark: { ports: { ticker: port(ticker), tasks: port(tasks), admin: port(admin) }, apiKey: ATTACKER_KEY },
    kill: () => services.end('SIGKILL'),
    token: async (): Promise<string> => (await post(`${ticker}/auth/token`, { api_key: NEIGHBOUR_KEY })).body.token,
    async measure(): Promise<Footprint> {
      const footprint = await measure();
      resetPeak(pid);
      // A process that listens still starts threads.
      for (let before = -1; before !== footprint.descriptors; footprint.descriptors = openDescriptors(pid)) {
        before = footprint.descriptors;
        await setTimeout(REST_MS);
      }
      return footprint;
    },
    peakMib: ({ resident }: Footprint) => Math.max(0, peakResidentBytes(pid) - resident) / MIB,
    async settle(before: Footprint, bounds: Bounds): Promise<Footprint> {
      const deadline = performance.now() + SETTLE_MS;
      for (;;) {
        const after = await measure();
        const left = leftOf({ start: before, before, after }, bounds);
        const isBack = left.memory <= left.allowedMemory && left.descriptors === 0;
        if (isBack || performance.now() > deadline) return after;
        await setTimeout(250);
      }
    },
  };
}

/** Runs scenarios in turn. The first result, without an attack, measures the machine's latencies. */
export async function* attackAll(chosen: readonly ListedScenario[], seed: number, seconds: number) {
  const neighbours = startNeighbours();
  const attacks = startChild<typeof import('./attacks.ts')>(new URL('attacks.ts', import.meta.url).href);
  let running: Awaited<ReturnType<typeof start>> | undefined;
  let baseline = { tickMs: 0, healthMs: 0 };

  async function start(env: Record<string, string>) {
    const target = await startTarget(env);
    await neighbours.join(target.mark.ports.ticker, await target.token());
    // Warm-up: a new process grows with its first requests.
    await neighbours.begin(target, seed);
    await setTimeout(WARM_UP_MS);
    await neighbours.end();
    await neighbours.account(target.tasks);
    return { target, start: await target.measure() };
  }
  async function end(): Promise<void> {
    await neighbours.leave();
    await running?.target.kill();
    running = undefined;
  }

  for (const scenario of [QUIET, ...chosen]) {
    const { name, env = {} } = scenario;
    const began = performance.now();
    if (running !== undefined && JSON.stringify(running.target.env) !== JSON.stringify(env)) await end();
    running ??= await start(env);
    const { target, start: atStart } = running;
    const stated = { ...usualBounds, ...scenario.bounds };
    const before = await target.measure();
    await neighbours.begin(target, seed);
    // An attack may exceed the time of the scenario.
    const attacked = scenario.attack && attacks.attack(name, target.mark, seed, seconds);
    await setTimeout(seconds * 1000);
    const { actions = 0, outcomes = {}, errors = [] } = (await attacked) ?? {};
    const sight = await neighbours.end();
    const peakMib = target.peakMib(before);
    await neighbours.account(target.tasks).catch(({ message }) => errors.push(message));
    const after = await target.settle(before, stated);
    // Fails if the counts do not add up.
    await queueCounts(target.tasks);
    const observed = { sight, peakMib, start: atStart, before, after, actions, outcomes, errors };
    const bounds = effectiveBounds(stated, baseline, sight);
    if (scenario === QUIET) baseline = sight;
    if (sight.open < STREAMS) await end();
    yield {
      ...{ name, observed, bounds },
      /** Wall time of the scenario, including the start of the process. */
      seconds: (performance.now() - began) / 1000,
      broken: scenario === QUIET ? [] : broken(observed, bounds, scenario.outcomes),
    };
  }
}

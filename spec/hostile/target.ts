import { setTimeout } from 'node:timers/promises';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { openDescriptors, peakResidentBytes, resetPeak } from '../support/proc.ts';
import { post, startServices } from '../support/program.ts';
import type { Mark } from './attacker.ts';
import { TICK_INTERVAL_MS } from './neighbours.ts';
import { type Bounds, type Footprint, leftOf, MIB } from './verdict.ts';

/**
 * Longest wait until the memory and descriptors are back within the bounds. The services close connections without a
 * reader within ten seconds, but a loaded machine takes longer to read an attack's data.
 */
const SETTLE_MS = 45_000;
const REST_MS = 100;
const NEIGHBOUR_KEY = 'n'.repeat(32);
const ATTACKER_KEY = 'a'.repeat(32);

/** Collects garbage, returns memory to the system as V8 does after some idle time, and measures the main thread's memory. */
const MEASURE = `gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  (({ rss, heapUsed, external }) => ({ resident: rss, live: heapUsed + external }))(process.memoryUsage())`;

export type Target = Awaited<ReturnType<typeof startTarget>>;

/** Starts the services under attack, with API keys of the neighbours and the attacker. */
export async function startTarget(env: Record<string, string>) {
  const DATA_DIR = await temporaryFolder();
  const settings = { TICK_INTERVAL_MS: `${TICK_INTERVAL_MS}`, DATA_DIR, ...env };
  const services = await startServices({ env: settings, nodeOptions: [...inspectable, '--expose-gc'] });
  const inspector = await inspect(services);
  using database = openBeside(DATA_DIR, 'auth.db');
  const insert = database.prepare('INSERT INTO api_keys (api_key, user_id, created_at) VALUES (?, ?, 1)');
  for (const key of [NEIGHBOUR_KEY, ATTACKER_KEY]) insert.run(key, `user ${key.charAt(0)}`);

  const { ticker, tasks, admin } = services;
  const pid = services.child.pid as number;
  const port = (url: string) => Number(new URL(url).port);
  const ports = { ticker: port(ticker), tasks: port(tasks), admin: port(admin) };
  const measureNow = async (): Promise<Footprint> => {
    const memory = (await inspector.valueOfMain(MEASURE)) as Omit<Footprint, 'descriptors'>;
    return { ...memory, descriptors: openDescriptors(pid) };
  };
  return {
    ...{ env, tasks, admin },
    mark: { ports, apiKey: ATTACKER_KEY } satisfies Mark,
    kill: () => services.end('SIGKILL'),
    token: async (): Promise<string> => (await post(`${ticker}/auth/token`, { api_key: NEIGHBOUR_KEY })).body.token,
    /** Measures the process at rest and resets its peak memory. */
    async measure(): Promise<Footprint> {
      const footprint = await measureNow();
      resetPeak(pid);
      // A process that listens still starts threads.
      for (let before = -1; before !== footprint.descriptors; footprint.descriptors = openDescriptors(pid)) {
        before = footprint.descriptors;
        await setTimeout(REST_MS);
      }
      return footprint;
    },
    /** Returns the growth of the peak memory since `measure`, in MiB. */
    peakMib: ({ resident }: Footprint) => Math.max(0, peakResidentBytes(pid) - resident) / MIB,
    /** Waits until the process is back within the bounds, or until the timeout, and measures it. */
    async settle(before: Footprint, bounds: Bounds): Promise<Footprint> {
      const deadline = performance.now() + SETTLE_MS;
      for (;;) {
        const after = await measureNow();
        const left = leftOf({ start: before, before, after }, bounds);
        const isBack = left.memory <= left.allowedMemory && left.descriptors === 0;
        if (isBack || performance.now() > deadline) return after;
        await setTimeout(250);
      }
    },
  };
}

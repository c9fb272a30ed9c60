import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { temporaryFolder } from '../support/cleanup.ts';
import { type Inspector, inspect, inspectable } from '../support/inspector.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { openDescriptors, peakResidentBytes, resetPeak } from '../support/proc.ts';
import { post, type RunningServices, startServices } from '../support/program.ts';
import { until } from '../support/until.ts';
import type { Mark } from './attacker.ts';
import { TICK_INTERVAL_MS } from './neighbours.ts';
import type { Setup } from './scenario.ts';
import { type Bounds, type Footprint, leftOf } from './verdict.ts';

const MIB = 1024 * 1024;
/**
 * Longest wait until the memory and descriptors are back within the bounds. The services close connections without a
 * reader within ten seconds, but a loaded machine takes longer to read an attack's data.
 */
const SETTLE_MS = 45_000;
const REST_MS = 100;
const NEIGHBOUR_KEY = 'n'.repeat(32);
const ATTACKER_KEY = 'a'.repeat(32);

export class Target {
  readonly setup: Setup;
  readonly #services: RunningServices;
  /** File to which the process writes its memory use. */
  readonly #probeFile: string;
  /** Access to the threads, if the setup asks for it. */
  readonly inspector: Inspector | undefined;

  private constructor(setup: Setup, services: RunningServices, probeFile: string, inspector: Inspector | undefined) {
    this.setup = setup;
    this.#services = services;
    this.#probeFile = probeFile;
    this.inspector = inspector;
  }

  /** Starts the services and adds API keys for the neighbours and the attacker. */
  static async start(setup: Setup): Promise<Target> {
    const [DATA_DIR, folder] = [await temporaryFolder(), await temporaryFolder()];
    const probeFile = join(folder, 'memory');
    const env = {
      TICK_INTERVAL_MS: `${TICK_INTERVAL_MS}`,
      DATA_DIR,
      MEMORY_PROBE_FILE: probeFile,
      NODE_OPTIONS: `--import=${new URL('memory-probe.ts', import.meta.url)}`,
      ...setup.env,
    };
    const services = await startServices({ env, ...(setup.inspected && { nodeOptions: inspectable }) });
    const inspector = setup.inspected ? await inspect(services) : undefined;
    using database = openBeside(DATA_DIR, 'auth.db');
    const insert = database.prepare('INSERT INTO api_keys (api_key, user_id, created_at) VALUES (?, ?, 1)');
    for (const key of [NEIGHBOUR_KEY, ATTACKER_KEY]) insert.run(key, `user ${key.charAt(0)}`);
    return new Target(setup, services, probeFile, inspector);
  }

  get pid(): number {
    return this.#services.child.pid as number;
  }

  get tasks(): string {
    return this.#services.tasks;
  }

  get admin(): string {
    return this.#services.admin;
  }

  get mark(): Mark {
    const { ticker, tasks, admin } = this.#services;
    const port = (url: string) => Number(new URL(url).port);
    return { ports: { ticker: port(ticker), tasks: port(tasks), admin: port(admin) }, apiKey: ATTACKER_KEY };
  }

  async token(): Promise<string> {
    return (await post(`${this.#services.ticker}/auth/token`, { api_key: NEIGHBOUR_KEY })).body.token;
  }

  async kill(): Promise<void> {
    await this.#services.end('SIGKILL');
  }

  /** Measures the process at rest and resets its peak memory. */
  async measure(): Promise<Footprint> {
    const footprint = await this.#footprint();
    resetPeak(this.pid);
    let { descriptors } = footprint;
    let before: number;
    // A process that listens still starts threads.
    do {
      before = descriptors;
      await setTimeout(REST_MS);
      descriptors = openDescriptors(this.pid);
    } while (descriptors !== before);
    return { ...footprint, descriptors };
  }

  /** Returns the growth of the peak memory since {@link measure}, in MiB. */
  peakMib({ resident }: Footprint): number {
    return Math.max(0, peakResidentBytes(this.pid) - resident) / MIB;
  }

  /** Waits until the process is back within the bounds, or until the timeout, and measures it. */
  async settle(before: Footprint, bounds: Bounds): Promise<Footprint> {
    const deadline = performance.now() + SETTLE_MS;
    for (;;) {
      const after = await this.#footprint();
      const left = leftOf({ start: before, before, after }, bounds);
      const isBack = left.memory <= left.allowedMemory && left.descriptors === 0;
      if (isBack || performance.now() > deadline) return after;
      await setTimeout(250);
    }
  }

  /** Makes the process collect garbage. Returns the resources that it has left. */
  async #footprint(): Promise<Footprint> {
    rmSync(this.#probeFile, { force: true });
    process.kill(this.pid, 'SIGUSR2');
    await until(() => existsSync(this.#probeFile));
    return { ...JSON.parse(readFileSync(this.#probeFile, 'utf8')), descriptors: openDescriptors(this.pid) };
  }
}

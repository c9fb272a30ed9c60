import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { temporaryFolder } from '../support/cleanup.ts';
import { type Inspector, inspect, inspectable } from '../support/inspector.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { fullPipe } from '../support/named-pipe.ts';
import { openDescriptors, peakResidentBytes, resetPeak } from '../support/proc.ts';
import { limitedTo, post, type RunningServices, startServices } from '../support/program.ts';
import { startRedirected } from '../support/redirected-services.ts';
import { lackingMounts, mountSmallDisk, type SmallDisk } from '../support/small-disk.ts';
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

/** Returns what this machine lacks for a setup, or undefined. */
export function lackingFor({ diskMb }: Setup): string | undefined {
  return diskMb === undefined ? undefined : lackingMounts();
}

export class Target {
  readonly setup: Setup;
  readonly dataDir: string;
  readonly disk: SmallDisk | undefined;
  /** Access to the threads, if the setup asks for it. */
  inspector: Inspector | undefined;
  #services!: Pick<RunningServices, 'end' | 'ticker' | 'tasks' | 'admin'> & { child: { pid?: number | undefined } };
  #probeFile = '';

  private constructor(setup: Setup, dataDir: string, disk: SmallDisk | undefined) {
    this.setup = setup;
    this.dataDir = dataDir;
    this.disk = disk;
  }

  /** Starts the services and adds API keys for the neighbours and the attacker. */
  static async start(setup: Setup): Promise<Target> {
    const disk = setup.diskMb === undefined ? undefined : await mountSmallDisk(setup.diskMb);
    const target = new Target(setup, disk?.path ?? (await temporaryFolder()), disk);
    await target.start();
    const insert = 'INSERT INTO api_keys (api_key, user_id, created_at) VALUES (?, ?, 1)';
    using database = openBeside(target.dataDir, 'auth.db');
    for (const key of [NEIGHBOUR_KEY, ATTACKER_KEY]) database.prepare(insert).run(key, `user ${key.charAt(0)}`);
    return target;
  }

  /** Starts the services in the same folder, on different ports. */
  async start(): Promise<void> {
    const { openFiles, inspected = false, output = 'read' } = this.setup;
    this.#probeFile = join(await temporaryFolder(), 'memory');
    const env = {
      TICK_INTERVAL_MS: `${TICK_INTERVAL_MS}`,
      DATA_DIR: this.dataDir,
      MEMORY_PROBE_FILE: this.#probeFile,
      NODE_OPTIONS: `--import=${new URL('memory-probe.ts', import.meta.url)}`,
      ...this.setup.env,
    };
    if (output !== 'read') {
      const redirect = output === 'full' ? '>/dev/full' : `>${await fullPipe()}`;
      this.#services = await startRedirected({ redirect, env });
      return;
    }
    const services = await startServices({
      env,
      ...(openFiles !== undefined && limitedTo(openFiles)),
      ...(inspected && { nodeOptions: inspectable }),
    });
    if (inspected) this.inspector = await inspect(services);
    this.#services = services;
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

  /** Sends a signal and returns the exit code, or the signal that ended the process. */
  async end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals | null> {
    const { code, signal: by } = await this.#services.end(signal);
    return by ?? code;
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

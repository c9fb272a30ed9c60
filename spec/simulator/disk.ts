import fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setImmediate as turn } from 'node:timers/promises';
import { migrate } from '../../db/sqlite/migrate.ts';
import { SqliteStore } from '../../db/sqlite/store.ts';
import type { MessageState, SearchPage } from '../../db/task-rows.ts';
import { startRetention } from '../../main/tasks/maintenance.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { SeededRandom } from '../support/random.ts';
import type { Tables } from './history.ts';
import type { Backend, Process } from './process.ts';
import { SimulatedTime } from './time.ts';
import { type FaultSet, type SimulationOptions, type Site, type Steps, settingOf, World } from './world.ts';

const SAVED = 'A stop saves the queue.';

export function simulateFile(options: SimulationOptions) {
  const random = new SeededRandom(String(options.seed));
  const drawn = settingOf(random.fork('setting'), options.seed);
  // Callbacks in memory are lost with the process, and retention deletes their rows.
  const setting = { ...drawn, callbacks: options.seed % 3 === 1 && drawn.driver === 'sqlite' && drawn.rows === 0 };
  const world = new World({ ...options, time: new SimulatedTime(), random, setting });
  const { driver, threads, prefetch, bounds } = setting;
  world.note(`${driver}, ${threads} threads, prefetch ${prefetch}, at most ${bounds.maxLength} tasks`);
  return world.run(fileSite(world, options.faults), options);
}

function fileSite(world: World, faultSet: FaultSet): Site {
  const { driver, bounds, rows, schedules, callbacks } = world.setting;
  const disk = new Disk(world.random.fork('disk'));
  world.hidden = disk.root;
  let store!: SqliteStore;
  const repair = () => Object.assign(disk, { fault: undefined, failsSyncs: false, syncMs: 2 });

  function openBackend(process: Process): Backend {
    const { clock } = process;
    let isKept = true;
    const opened = new SqliteStore({
      ...{ dataDir: disk.folder, driver, bounds },
      now: () => clock.now(),
      newId: process.random.uuid,
      onSaveFailed: () => {
        isKept = driver === 'sqlite';
      },
      excessRows: async (kept) => disk.read(`SELECT 1 FROM tasks LIMIT -1 OFFSET ${kept}`).length,
      syncFile: async () => {
        try {
          await disk.sync(clock);
          world.history.failingSyncs = undefined;
        } catch (error) {
          world.history.failingSyncs ??= {};
          throw error;
        }
      },
    });
    store = opened;
    process.onKill = () => opened.close();
    let retention: ReturnType<typeof startRetention> | undefined;
    return {
      store: opened,
      stateOf(id) {
        const found =
          driver === 'memory' ? opened.reads.read([id], 1) : disk.read('SELECT state FROM messages WHERE id = ?', id);
        return (found as readonly StoredState[])[0]?.state;
      },
      start() {
        retention = startRetention({ store: opened, rows, days: 0, clock, log: world.log });
      },
      async stop() {
        await retention?.stop();
        disk.stopReading();
        await opened.close();
        return isKept;
      },
    };
  }

  function ended(process: Process, isKept?: boolean): void {
    if (isKept === undefined) disk.loseProcess(() => process.kill());
    else {
      process.kill();
      disk.emptied();
      if (!isKept && disk.fault === undefined) world.broken(SAVED, 'the stop did not save the queue');
    }
    world.history.processEnded(isKept);
  }

  async function checkpoint(random: SeededRandom): Promise<void> {
    const held = store;
    held.holdWrites();
    for (let turns = random.below(4); turns > 0; turns -= 1) await turn();
    if (random.chance(0.5)) await world.pass(random.below(100));
    // A process that was killed meanwhile has another successor.
    if (held !== store) return;
    disk.checkpoint();
    held.resumeWrites();
    await turn();
  }

  function steps(): Steps {
    const has = (set: FaultSet) => faultSet === set || faultSet === 'all';
    /** Restarts the process, perhaps after times of schedules at which none runs. */
    const restart = (random: SeededRandom, end: (process: Process) => unknown) =>
      world.restart(0, end, () => (schedules.length > 0 ? random.pick([0, 0, 5000, 100_000, 10_000_000]) : 0));
    const losePower = (process: Process, random: SeededRandom) => {
      world.kill(process);
      disk.losePower(random);
      world.note('    the power is lost');
      world.history.powerLost();
    };
    const waitDay = async () => {
      // In a day of faults, each second would be another attempt to write the same.
      if (disk.fault !== undefined) await world.pass(60_000);
      disk.fault = undefined;
      await world.pass(25 * 60 * 60 * 1000);
    };
    const failDisk = (random: SeededRandom) => {
      disk.fault = random.pick<DiskFault>(['full', 'broken', 'unreliable', 'locked']);
      world.note(`    the disk is ${disk.fault}`);
    };
    const crash: Steps = {
      kill: [0.5, (random) => restart(random, world.kill)],
      losePower: [0.7, (random) => restart(random, (process) => losePower(process, random))],
      stop: [0.4, (random) => restart(random, world.stop)],
    };
    const failing: Steps = {
      ...{ failDisk: [1.5, failDisk], repairDisk: [4, repair] },
      failSyncs: [1, () => Object.assign(disk, { failsSyncs: true })],
      slowSyncs: [2, (random) => Object.assign(disk, { syncMs: random.pick([0, 20, 300, 3000]) })],
    };
    return {
      checkpoint: [1, checkpoint],
      // Retention wakes up each second.
      ...(rows === 0 && schedules.length === 0 && { waitDay: [0.2, waitDay] as const }),
      ...{ ...(has('crash') && crash), ...(has('disk') && failing) },
    };
  }

  return {
    ...{ size: 1, steps, openBackend, ended, repair },
    read: () => ({ ...disk.readTables(store), ...(callbacks && { callbacks: disk.read(CALLBACKS) }) }),
    store: () => store,
    hasFault: () => disk.fault !== undefined || disk.failsSyncs,
    close: () => disk.remove(),
  };
}

/** SQLite's primary result code and message for each state of the disk: `unreliable` fails some writes, `locked` is another program. */
const FAULTS = {
  full: [13, 'database or disk is full'],
  broken: [10, 'disk I/O error'],
  unreliable: [10, 'disk I/O error'],
  locked: [5, 'database is locked'],
} as const;

export type DiskFault = keyof typeof FAULTS;

/** In memory if the system has such a folder, because no simulation syncs a file. */
const PARENT = fs.existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

using template = fs.mkdtempDisposableSync(join(PARENT, 'simulator-template-'));
migrate(template.path);
const MIGRATED = fs.readFileSync(join(template.path, 'tasks.db'));

const STATES = ['scheduled', 'retrying', 'limited', 'waiting', 'running', 'failed'] as const;

type StoredState = Tables['messages'][number];

const CALLBACKS = `SELECT payload AS body FROM tasks WHERE payload LIKE '%"action":"callback"%'
  UNION ALL SELECT body FROM messages WHERE callback_of IS NOT NULL`;

/** The disk whose statements are being run, because a statement does not know its disk. */
let current: Disk | undefined;

/**
 * Disk of one process at a time. Everything written survives the death of the process. A power loss takes the
 * part of the log after the last sync, or some of that part.
 */
export class Disk {
  fault: DiskFault | undefined;
  failsSyncs = false;
  /** Longest duration of a sync in milliseconds. */
  syncMs = 2;
  readonly root = fs.mkdtempSync(join(PARENT, 'simulator-'));
  /** Folder of the present process. Each process has its own, so that a process that was killed finds no files. */
  folder = join(this.root, '0');
  readonly #random: SeededRandom;
  #folders = 0;
  #reader: DatabaseSync | undefined;
  /** Length of the log that survives a power loss. Another object once the log was emptied. */
  #synced = { length: 0 };

  constructor(random: SeededRandom) {
    this.#random = random;
    fs.mkdirSync(this.folder);
    fs.writeFileSync(this.file, MIGRATED);
    current = this;
  }

  remove(): void {
    current = undefined;
    this.stopReading();
    fs.rmSync(this.root, { recursive: true, force: true });
  }

  async sync(clock: Clock): Promise<void> {
    const [length, synced] = [this.#logLength(), this.#synced];
    await clock.sleep(this.#random.below(this.syncMs + 1));
    if (this.failsSyncs) throw new Error('the log cannot be synced');
    synced.length = Math.max(synced.length, length);
  }

  /** Moves the whole log to the database file, and empties the log, as the maintenance thread does. */
  checkpoint(): void {
    using database = new DatabaseSync(this.file);
    database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
    this.emptied();
  }

  /** Called when the log is synced, and empty if the process was the last that closed the file. */
  emptied(): void {
    this.#synced = { length: this.#logLength() };
  }

  read<Row>(sql: string, ...values: string[]): Row[] {
    this.#reader ??= new DatabaseSync(this.file, { readOnly: true });
    return this.#reader.prepare(sql).all(...values) as Row[];
  }

  /** Reads the tables of tasks. A queue in memory lists its messages itself. */
  readTables({ isDurable, reads }: SqliteStore): Tables {
    const list = (state: MessageState) =>
      (reads.search({ state }, undefined, 10_000) as SearchPage).found.map(({ id }) => ({ id, state }));
    const messages = isDurable ? this.read<StoredState>('SELECT id, state FROM messages') : STATES.flatMap(list);
    // Results may be large.
    return { rows: this.read('SELECT id, substr(result, 1, 100) AS result FROM tasks'), messages };
  }

  /** Lets the process be the last that closes the file, which empties the log. */
  stopReading(): void {
    this.#reader?.close();
    this.#reader = undefined;
  }

  /** Gives copies of the files to the next process, so that the present one finds none while it is killed. */
  loseProcess(kill: () => void): void {
    const former = this.folder;
    this.#folders += 1;
    this.folder = join(this.root, String(this.#folders));
    fs.cpSync(former, this.folder, { recursive: true, filter: (path) => !path.endsWith('-shm') });
    fs.rmSync(former, { recursive: true });
    kill();
    this.stopReading();
    this.fault = undefined;
  }

  /** Loses some of the bytes that are not synced. SQLite ignores a part of a commit. */
  losePower(random: SeededRandom): void {
    const length = this.#logLength();
    if (length === 0) return;
    fs.truncateSync(`${this.file}-wal`, random.between(Math.min(this.#synced.length, length), length));
    this.checkpoint();
  }

  /** Fails a write to the file, or the commit or begin of a transaction on it, which fails only if the file is locked. */
  mayFail(isBegin: boolean): void {
    if (this.fault === undefined || (isBegin && this.fault !== 'locked')) return;
    if (this.fault === 'unreliable' && !this.#random.chance(0.15)) return;
    const [errcode, message] = FAULTS[this.fault];
    throw Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode });
  }

  #logLength(): number {
    return fs.statSync(`${this.file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  }

  get file(): string {
    return join(this.folder, 'tasks.db');
  }
}

/** Whether a statement is one of a transaction on the file, or writes to it. */
function isInFile(sql: string, connection: DatabaseSync): boolean {
  if (connection.location() !== null) return true;
  // The queue in memory attaches the file to save itself.
  return /^(BEGIN|COMMIT)|(INTO|FROM) file\./.test(sql) && connection.location('file') !== null;
}

const { prepare } = DatabaseSync.prototype;
// The product's statements of transactions and writes may fail. The simulator itself runs none.
DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string, ...options: []) {
  const statement = prepare.call(this, sql, ...options);
  if (!/^\s*(BEGIN|COMMIT|INSERT|UPDATE|DELETE)/.test(sql)) return statement;
  // `get` and `all` run statements with RETURNING.
  for (const method of ['run', 'get', 'all'] as const) {
    const original = statement[method].bind(statement) as (...values: unknown[]) => never;
    statement[method] = (...values: unknown[]) => {
      if (current?.fault !== undefined && isInFile(sql, this)) current.mayFail(sql.startsWith('BEGIN'));
      return original(...values);
    };
  }
  return statement;
};

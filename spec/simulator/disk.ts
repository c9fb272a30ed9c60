import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { migrate } from '../../db/sqlite/migrate.ts';
import type { SqliteStore } from '../../db/sqlite/store.ts';
import type { QueueCounts } from '../../db/task-store.ts';
import type { Tables } from './history.ts';
import type { SeededRandom } from './random.ts';

/** State of the disk: `full` and `broken` fail each write, `unreliable` some of them, `locked` because of another program. */
export type DiskFault = 'full' | 'broken' | 'unreliable' | 'locked';

/** SQLite's primary result codes. */
const CODES = { full: 13, broken: 10, unreliable: 10, locked: 5 };

/** Bytes of a page in the log, with its header. */
const FRAME_BYTES = 4096 + 24;

/** In memory if the system has such a folder, because no simulation syncs a file. */
const PARENT = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** A folder with a migrated file, which each simulation of this thread copies. */
let template: string | undefined;

/** The disk whose statements are being run, because a statement does not know its disk. */
let current: Disk | undefined;

/**
 * Disk of one process at a time. Everything written survives the death of the process. A power loss takes the
 * part of the log after the last sync, or some of that part.
 *
 * Faults are injected where the product runs statements. The simulator itself runs none by `run`.
 */
export class Disk {
  /** Folder of the present process. Each process has its own, so that a process that was killed finds no files. */
  folder = '';
  fault: DiskFault | undefined;
  /** Whether syncs of the log fail. */
  failsSyncs = false;
  /** Longest duration of a sync in milliseconds. */
  syncMs = 2;
  /** Length of the log after the last commit. */
  length = 0;
  /** Called after each commit. */
  onCommit = () => {};
  /** Set while a process that was killed closes its connections. */
  isDetached = false;
  readonly #random: SeededRandom;
  readonly #root = mkdtempSync(join(PARENT, 'simulator-'));
  #folders = 0;
  #reader: DatabaseSync | undefined;
  /** Length of the log that survives a power loss. */
  #synced = 0;
  /** Lengths of the log after each commit since it was emptied. */
  #ends: number[] = [0];
  /** Number of times that the log was emptied. */
  #generation = 0;
  /** Whether the open transaction has written to the file. */
  #hasWritten = false;
  /** Whether a transaction in memory is open, which contains the one of the file. */
  #isInMemory = false;
  /** Whether the log may end with a part of a commit, which the next process ignores. */
  #isTorn = false;

  constructor(random: SeededRandom) {
    this.#random = random;
    template ??= createTemplate();
    this.#nextFolder();
    mkdirSync(this.folder);
    copyFileSync(join(template, 'tasks.db'), this.#file());
    current = this;
  }

  /** Removes all files. */
  remove(): void {
    current = undefined;
    this.stopReading();
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** Lengths of the log at which it may end after a power loss: the synced one, and those of later commits. */
  get ends(): readonly number[] {
    return this.#ends.filter((end) => end >= this.#synced);
  }

  /** Begins a sync of the log. Returns its duration, and a function that ends it. @throws {Error} from that function */
  sync(): { ms: number; end: () => void } {
    const [length, generation] = [this.length, this.#generation];
    return {
      ms: this.#random.below(this.syncMs + 1),
      end: () => {
        if (this.failsSyncs) throw new Error('the log cannot be synced');
        // An emptied log was synced before it was emptied.
        if (generation === this.#generation) this.#synced = Math.max(this.#synced, length);
      },
    };
  }

  /** Moves the whole log to the database file, and empties the log, as the maintenance thread does. */
  checkpoint(): void {
    using database = new DatabaseSync(this.#file());
    database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
  }

  /** Called when the log is empty and synced: after a checkpoint, and after the last connection was closed. */
  emptied(): void {
    this.#generation += 1;
    this.length = this.#logLength();
    this.#synced = this.length;
    this.#ends = [this.length];
  }

  /** Reads from the file while a process has it open. */
  read(sql: string): Record<string, unknown>[] {
    return this.#openReader().prepare(sql).all();
  }

  #openReader(): DatabaseSync {
    this.#reader ??= new DatabaseSync(this.#file(), { readOnly: true });
    return this.#reader;
  }

  /** Lets the process be the last that closes the file, which empties the log. */
  stopReading(): void {
    this.#reader?.close();
    this.#reader = undefined;
  }

  /**
   * Moves the files to the next process after the death of the present one, whose connections no longer find them.
   *
   * @param close closes the connections. Without it, they stay open, because a start has failed, and the files are copied.
   */
  loseProcess(close?: () => void): void {
    // While it is open, no other connection is the last one, which would write the log to the file when it is closed.
    this.#openReader();
    const former = this.folder;
    this.#nextFolder();
    if (close === undefined) cpSync(former, this.folder, { recursive: true });
    else renameSync(former, this.folder);
    close?.();
    this.stopReading();
    rmSync(`${this.#file()}-shm`, { force: true });
    this.fault = undefined;
    this.#hasWritten = false;
  }

  /** Loses what follows the commit at which the log has the length `end`, except for a part of the next commit. */
  losePower(end: number): void {
    const next = this.#ends.find((length) => length > end) ?? this.length;
    const rest = Math.max(0, next - end - 1);
    const torn = this.#random.chance(0.5) ? 0 : this.#random.below(rest + 1);
    const log = `${this.#file()}-wal`;
    if (existsSync(log)) {
      truncateSync(log, Math.min(end + torn, statSync(log).size));
      // Blocks of another file. Zeros could complete the commit.
      if (this.#random.chance(0.3))
        writeFileSync(log, Buffer.alloc(this.#random.below(FRAME_BYTES), 0xaa), { flag: 'a' });
    }
    this.#isTorn = true;
    this.length = end;
    this.#synced = end;
    this.#ends = this.#ends.filter((length) => length <= end);
  }

  /** Runs a statement of the product, or fails it. Only statements on the file can fail. */
  around<T>({ step, place }: Statement, run: () => T): T {
    const isInFile = place !== 'memory';
    if (step === 'begin') this.#hasWritten = false;
    if (isInFile && step === 'begin') {
      // The connection has recovered the log. Without the rest, its size tells its length.
      if (this.#isTorn) truncateSync(`${this.#file()}-wal`, this.length);
      this.#isTorn = false;
    }
    this.#hasWritten ||= isInFile && step === 'write';
    const isAtRisk = step === 'commit' ? this.#hasWritten : isInFile && step !== 'other';
    if (isAtRisk && this.fault !== undefined) this.#mayFail(this.fault, { step, place });
    const result = run();
    if (!isInFile && (step === 'begin' || step === 'commit')) this.#isInMemory = step === 'begin';
    if (step === 'commit') {
      if (this.#hasWritten) this.length = this.#logLength();
      this.#hasWritten = false;
      if (this.length !== this.#ends.at(-1)) this.#ends.push(this.length);
      if (!this.#isInMemory) this.onCommit();
    }
    return result;
  }

  #mayFail(fault: DiskFault, { step, place }: Statement): void {
    // Only a lock is noticed before the first write.
    const noticesLock = step === 'begin' || (step === 'write' && place === 'attached');
    if (fault === 'locked' ? !noticesLock : step === 'begin') return;
    if (fault === 'unreliable' && !this.#random.chance(0.15)) return;
    const message =
      fault === 'full' ? 'database or disk is full' : fault === 'locked' ? 'database is locked' : 'disk I/O error';
    throw Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode: CODES[fault] });
  }

  #nextFolder(): void {
    this.#folders += 1;
    this.folder = join(this.#root, String(this.#folders));
  }

  #file(): string {
    return join(this.folder, 'tasks.db');
  }

  #logLength(): number {
    return statSync(`${this.#file()}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  }
}

interface Statement {
  step: 'begin' | 'commit' | 'write' | 'other';
  /** Where the statement runs: on the connection of the file, in memory, or on the file that is attached to the memory. */
  place: 'file' | 'memory' | 'attached';
}

const statements = new WeakMap<StatementSync, Statement>();

const prepare = DatabaseSync.prototype.prepare;
DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string, ...options: []) {
  const statement = prepare.call(this, sql, ...options);
  const isWrite = /^\s*(INSERT|UPDATE|DELETE|PRAGMA \w+\.application_id)/.test(sql);
  const step = sql.startsWith('BEGIN') ? 'begin' : sql === 'COMMIT' ? 'commit' : isWrite ? 'write' : 'other';
  const isAttached = /(INTO|FROM) file\.\w/.test(sql);
  const place = this.location() !== null ? 'file' : isWrite && isAttached ? 'attached' : 'memory';
  statements.set(statement, { step, place });
  return statement;
};

// `get` and `all` run statements with RETURNING.
for (const method of ['run', 'get', 'all'] as const) {
  const original = StatementSync.prototype[method] as StatementSync['run'];
  StatementSync.prototype[method] = function (this: StatementSync, ...values: Parameters<StatementSync['run']>) {
    const statement = statements.get(this);
    return current === undefined || current.isDetached || statement === undefined
      ? original.apply(this, values)
      : current.around(statement, () => original.apply(this, values));
  } as StatementSync['run'] & StatementSync['get'] & StatementSync['all'];
}

function createTemplate(): string {
  const folder = mkdtempSync(join(PARENT, 'simulator-template-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  migrate(folder);
  return folder;
}

/** Number of characters of a row's result that are compared. */
const COMPARED_LENGTH = 100;

/** Returns the number of messages that are no dead letters. */
export function unfinished({ waiting, limited, scheduled, retrying, inFlight }: QueueCounts): number {
  return waiting + limited + scheduled + retrying + inFlight;
}

/** Reads the tables of tasks: the rows from the file, and the messages as the store lists them. */
export function readTables(store: SqliteStore, disk: Disk): Tables {
  const rows = disk.read(`SELECT id, substr(result, 1, ${COMPARED_LENGTH}) AS result FROM tasks`);
  const messages = STATES.flatMap((state) => store.locate({ state }, 10_000).map(({ id }) => ({ id, state })));
  return { rows: rows as unknown as Tables['rows'], messages };
}

const STATES = ['scheduled', 'retrying', 'limited', 'waiting', 'running', 'failed'] as const;

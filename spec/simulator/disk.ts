import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
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

/** SQLite's primary result code and message for each fault. */
const ERRORS = {
  full: [13, 'database or disk is full'],
  broken: [10, 'disk I/O error'],
  unreliable: [10, 'disk I/O error'],
  locked: [5, 'database is locked'],
} as const;

/** Bytes of the log's header, and of a frame with its page. */
const [LOG_HEADER_BYTES, FRAME_BYTES] = [32, 24 + 4096];

/** In memory if the system has such a folder, because no simulation syncs a file. */
const PARENT = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** A migrated file, with which each simulation of this thread begins. */
let template: Buffer | undefined;

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
  readonly #random: SeededRandom;
  readonly #root = mkdtempSync(join(PARENT, 'simulator-'));
  #folders = 0;
  #reader: DatabaseSync | undefined;
  /** Length of the log that survives a power loss. */
  #synced = 0;
  /** Number of times that the log was emptied. */
  #generation = 0;
  /** Whether the open transaction has written to the file. */
  #hasWritten = false;
  constructor(random: SeededRandom) {
    this.#random = random;
    template ??= migratedFile();
    this.folder = join(this.#root, '0');
    mkdirSync(this.folder);
    writeFileSync(this.#file, template);
    current = this;
  }

  /** Removes all files. */
  remove(): void {
    current = undefined;
    this.stopReading();
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** Returns a text without the folders of this and of former processes, which each run names otherwise. */
  hide(text: string): string {
    return text.trim().replaceAll(this.#root, '.');
  }

  /** Begins a sync of the log. Returns its duration, and a function that ends it. @throws {Error} from that function */
  sync(): { ms: number; end: () => void } {
    const [length, generation] = [this.#logLength(), this.#generation];
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
    using database = new DatabaseSync(this.#file);
    database.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
    this.emptied();
  }

  /** Called when the log is synced, and empty if the process was the last that closed the file. */
  emptied(): void {
    this.#generation += 1;
    this.#synced = this.#logLength();
  }

  /** Reads from the file while a process has it open. */
  read<Row>(sql: string): Row[] {
    this.#reader ??= new DatabaseSync(this.#file, { readOnly: true });
    return this.#reader.prepare(sql).all() as Row[];
  }

  /** Lets the process be the last that closes the file, which empties the log. */
  stopReading(): void {
    this.#reader?.close();
    this.#reader = undefined;
  }

  /**
   * Gives the files to the next process after the death of the present one, which no longer finds them.
   *
   * @param close closes the connections. Without it, they stay open, because a start has failed, and the files are copied.
   */
  loseProcess(close?: () => void): void {
    const former = this.folder;
    this.#folders += 1;
    this.folder = join(this.#root, String(this.#folders));
    if (close === undefined) cpSync(former, this.folder, { recursive: true });
    else {
      // While it reads, no other connection is the last one, which would write the log to the file when it is closed.
      this.#reader ??= new DatabaseSync(join(former, 'tasks.db'), { readOnly: true });
      renameSync(former, this.folder);
      close();
    }
    this.stopReading();
    rmSync(`${this.#file}-shm`, { force: true });
    this.fault = undefined;
    this.#hasWritten = false;
  }

  /** Loses what follows one of the commits that are not synced. SQLite ignores a part of the next commit. */
  losePower(random: SeededRandom): void {
    const ends = existsSync(this.#log) ? commitEnds(readFileSync(this.#log)) : [0];
    this.#synced = random.pick(ends.filter((end) => end >= this.#synced));
    if (existsSync(this.#log)) truncateSync(this.#log, this.#synced);
  }

  /** Runs a statement of the product, or fails it. Only statements on the file can fail. */
  around<T>({ step, isInFile, isAttached }: Statement, run: () => T): T {
    if (step === 'begin') this.#hasWritten = false;
    if (step === 'write') this.#hasWritten ||= isInFile;
    // A lock is noticed before the first write.
    const noticesLock = isInFile && (step === 'begin' || (step === 'write' && isAttached));
    const isWrite = step === 'commit' ? this.#hasWritten : isInFile && step === 'write';
    if (this.fault === 'locked' ? noticesLock : isWrite) this.#mayFail();
    const result = run();
    if (step === 'commit') this.#hasWritten = false;
    return result;
  }

  #mayFail(): void {
    if (this.fault === undefined || (this.fault === 'unreliable' && !this.#random.chance(0.15))) return;
    const [errcode, message] = ERRORS[this.fault];
    throw Object.assign(new Error(message), { code: 'ERR_SQLITE_ERROR', errcode });
  }

  #logLength(): number {
    return statSync(this.#log, { throwIfNoEntry: false })?.size ?? 0;
  }

  get #file(): string {
    return join(this.folder, 'tasks.db');
  }

  get #log(): string {
    return join(this.folder, 'tasks.db-wal');
  }
}

/** Returns the lengths at which a log (`-wal`) ends with a whole commit, from 0 up. */
function commitEnds(log: Buffer): number[] {
  const ends = [0];
  for (let at = LOG_HEADER_BYTES; at + FRAME_BYTES <= log.length; at += FRAME_BYTES) {
    // The last frame of a commit has the number of the database's pages.
    if (log.readUInt32BE(at + 4) > 0) ends.push(at + FRAME_BYTES);
  }
  return ends;
}

interface Statement {
  step: 'begin' | 'commit' | 'write' | 'other';
  isInFile: boolean;
  /** Whether the file is attached to the queue in memory. */
  isAttached: boolean;
}

const statements = new WeakMap<StatementSync, Statement>();

const prepare = DatabaseSync.prototype.prepare;
DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string, ...options: []) {
  const statement = prepare.call(this, sql, ...options);
  const isWrite = /^\s*(INSERT|UPDATE|DELETE|PRAGMA \w+\.application_id)/.test(sql);
  const step = sql.startsWith('BEGIN') ? 'begin' : sql === 'COMMIT' ? 'commit' : isWrite ? 'write' : 'other';
  const isAttached = isWrite && /(INTO|FROM) file\.\w/.test(sql);
  statements.set(statement, { step, isInFile: this.location() !== null || isAttached, isAttached });
  return statement;
};

// `get` and `all` run statements with RETURNING.
for (const method of ['run', 'get', 'all'] as const) {
  const original = StatementSync.prototype[method] as StatementSync['run'];
  StatementSync.prototype[method] = function (this: StatementSync, ...values: Parameters<StatementSync['run']>) {
    const statement = statements.get(this);
    return current === undefined || statement === undefined
      ? original.apply(this, values)
      : current.around(statement, () => original.apply(this, values));
  } as StatementSync['run'] & StatementSync['get'] & StatementSync['all'];
}

function migratedFile(): Buffer {
  const folder = mkdtempSync(join(PARENT, 'simulator-template-'));
  migrate(folder);
  const file = readFileSync(join(folder, 'tasks.db'));
  rmSync(folder, { recursive: true });
  return file;
}

/** Number of characters of a row's result that are compared. */
const COMPARED_LENGTH = 100;

/** Returns the number of messages that are no dead letters. */
export function unfinished({ waiting, limited, scheduled, retrying, inFlight }: QueueCounts): number {
  return waiting + limited + scheduled + retrying + inFlight;
}

/** Reads the tables of tasks: the rows from the file, and the messages as the store lists them. */
export function readTables(store: SqliteStore, disk: Disk): Tables {
  const rows = disk.read<Tables['rows'][number]>(
    `SELECT id, substr(result, 1, ${COMPARED_LENGTH}) AS result FROM tasks`,
  );
  const messages = STATES.flatMap((state) =>
    store.search({ state }, undefined, 10_000).found.map(({ id }) => ({ id, state })),
  );
  return { rows, messages };
}

const STATES = ['scheduled', 'retrying', 'limited', 'waiting', 'running', 'failed'] as const;

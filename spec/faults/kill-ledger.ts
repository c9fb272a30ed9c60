import { copyFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** A submission, and how its task may end. */
export interface Kind {
  action: string;
  data: object;
  /** Output of the completed task; undefined if every run fails. */
  output?: unknown;
  /** Reason of the dead letter of a task whose runs fail. */
  reason?: string;
}

type State = 'accepted' | 'waiting' | 'running' | 'failed' | 'completed' | 'gone';

export interface Accepted {
  readonly id: string;
  readonly kind: Kind;
  /** History of the task, for the message of a failure. */
  readonly history: string[];
  /** State after the last kill. */
  state: State;
  /** Time of the failure if the task is a dead letter. It distinguishes the dead letters of one task. */
  failedAt: number | undefined;
  failure: string | undefined;
  /** Its result row if the task is completed. */
  row: string | undefined;
  /** Kills since the task was accepted or redriven. */
  kills: number;
  failures: number;
  runs: number;
  /** Operations whose requests were sent, so they may have taken effect without an answer. */
  readonly sent: Set<Operation>;
  /** Answered operations, with the time of the answer in microseconds of the monotonic clock, and the round. */
  readonly answered: Map<Operation | 'cancelling', { micros: number; round: number }>;
}

export type Operation = 'cancel' | 'redrive' | 'purge';

/** A redrive or purge of all dead letters with one reason, or of all. */
export interface Bulk {
  operation: 'redrive' | 'purge';
  reason: string | undefined;
}

/** Deaths of its process after which a task becomes a dead letter. */
const MAX_DEATHS = 3;
const DIED = /process died/;

/** Microseconds of the clock that the handlers of every process share. */
export function micros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** Records the answers to clients, and checks after each kill that the database agrees with them. */
export class KillLedger {
  readonly #files: { dataDir: string; runs: string; copy: string };
  readonly #tasks = new Map<string, Accepted>();
  readonly #problems: { task: Pick<Accepted, 'id' | 'history'>; what: string }[] = [];
  /** Operations that are not of one task, for the message of a failure. */
  readonly #history: string[] = [];
  #bulks: Bulk[] = [];
  #readRuns = 0;
  #round = 0;
  /** State of the pause by the last answer. Undefined after a request without an answer. */
  paused: boolean | undefined = false;
  /** Whether the process of this round started paused, and was not asked to resume. */
  idle = false;
  /** Task ids of idempotency keys, with the submissions that used them. */
  readonly keys = new Map<string, Accepted>();

  constructor(files: { dataDir: string; runs: string; copy: string }) {
    this.#files = files;
  }

  get size(): number {
    return this.#tasks.size;
  }

  get round(): number {
    return this.#round;
  }

  /** Returns the tasks in one of the given states after the last kill, in the order of acceptance. */
  in(...states: State[]): Accepted[] {
    return [...this.#tasks.values()].filter(({ state }) => states.includes(state));
  }

  summary(): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { state } of this.#tasks.values()) counts[state] = (counts[state] ?? 0) + 1;
    return counts;
  }

  accept(id: string, kind: Kind): Accepted {
    const known = this.#tasks.get(id);
    if (known !== undefined) this.problem(known, 'the id of another submission was answered again');
    const task: Accepted = {
      ...{ id, kind, history: [], state: 'accepted', sent: new Set(), answered: new Map() },
      ...{ failedAt: undefined, failure: undefined, row: undefined, kills: 0, failures: 0, runs: 0 },
    };
    this.#tasks.set(id, task);
    this.note(task, `accepted ${JSON.stringify(kind)}`);
    return task;
  }

  note(task: Accepted, what: string): void {
    task.history.push(`${micros()} round ${this.#round}: ${what}`);
  }

  send(task: Accepted, operation: Operation): void {
    task.sent.add(operation);
    this.note(task, `${operation} sent`);
  }

  /** Records an answer that must hold from now on. */
  answer(task: Accepted, operation: Operation | 'cancelling'): void {
    task.answered.set(operation, { micros: micros(), round: this.#round });
    this.note(task, `${operation} answered`);
  }

  /** Records that an operation was refused, so it had no effect. */
  refuse(task: Accepted, operation: Operation, status: number): void {
    task.sent.delete(operation);
    this.note(task, `${operation} refused with ${status}`);
  }

  sendBulk(bulk: Bulk): void {
    this.#bulks.push(bulk);
    this.noteAll(`${bulk.operation} of ${bulk.reason ?? 'all'} sent`);
  }

  /** Records an operation that is not of one task. */
  noteAll(what: string): void {
    this.#history.push(`${micros()} round ${this.#round}: ${what}`);
  }

  problem(task: Pick<Accepted, 'id' | 'history'>, what: string): void {
    this.#problems.push({ task, what });
  }

  /** Begins a round, in which one process runs. */
  begin(): number {
    this.idle = false;
    return ++this.#round;
  }

  /**
   * Compares the database of a killed process with the answers to clients.
   *
   * @param wasUp whether the process listened, so the deaths of earlier processes were processed
   * @throws {Error} with the history of each task that has no end, two ends, or an end that contradicts an answer
   */
  check(wasUp: boolean): void {
    this.#checkRuns();
    const { rows, messages } = this.#snapshot();
    for (const id of rows.keys()) {
      if (messages.has(id) && !this.#tasks.has(id)) this.problem({ id, history: ['never answered'] }, 'two ends');
    }
    for (const task of this.#tasks.values()) this.#checkTask(task, rows.get(task.id), messages.get(task.id), wasUp);
    this.#bulks = [];
    this.throwProblems();
  }

  throwProblems(): void {
    if (this.#problems.length === 0) return;
    const shown = this.#problems
      .slice(0, 3)
      .map(({ task: { id, history }, what }) => [`task ${id}: ${what}`, ...history]);
    const lines = [...shown, ['the whole queue:', ...this.#history.slice(-10)]].map((each) => each.join('\n  '));
    throw new Error(`${this.#problems.length} problems\n${lines.join('\n')}`);
  }

  #checkTask(task: Accepted, row: string | undefined, message: StoredState | undefined, wasUp: boolean): void {
    const { state: before, failedAt } = task;
    const now: State = row !== undefined ? 'completed' : (message?.state ?? 'gone');
    if (before !== now || failedAt !== message?.failedAt) this.note(task, `found ${now} ${message?.reason ?? ''}`);
    if (row !== undefined && message !== undefined)
      this.problem(task, `two ends: a row and a ${message.state} message`);
    if (before === 'completed' && row !== task.row) this.problem(task, `its row changed: ${task.row} to ${row}`);
    if (before === 'gone' && now !== 'gone') this.problem(task, `was gone, is ${now}`);
    const revived = before === 'failed' && (now !== 'failed' || message?.failedAt !== failedAt);
    if (revived && now !== 'gone' && !this.wasAsked(task, 'redrive')) this.problem(task, 'redriven by nobody');
    // A request to cancel concerns the attempts before the failure, and a redrive may follow in the same round.
    if (revived || now === 'failed' || this.wasAsked(task, 'redrive')) task.answered.delete('cancelling');
    const isAsked = this.wasAsked(task, 'cancel') || this.wasAsked(task, 'purge');
    if (now !== 'gone') this.#checkAnswers(task, now, message, wasUp);
    else if (before !== 'gone' && !isAsked) this.problem(task, 'lost');
    if (row !== undefined) this.#checkRow(task, row);
    if (now === 'failed') this.#checkReason(task, message?.reason ?? '');
    task.state = now;
    task.row = row;
    task.failedAt = message?.failedAt;
    task.failure = now === 'failed' ? (message?.reason ?? undefined) : undefined;
    task.kills = revived ? 1 : task.kills + 1;
    // A redrive or purge that left no trace never happens, but a recorded cancellation may still take effect.
    task.sent.delete('redrive');
    task.sent.delete('purge');
    task.answered.delete('redrive');
  }

  #checkAnswers(task: Accepted, now: State, message: StoredState | undefined, wasUp: boolean): void {
    for (const operation of ['cancel', 'purge'] as const) {
      if (task.answered.has(operation)) this.problem(task, `${now} although its ${operation} was answered`);
    }
    const cancelling = task.answered.get('cancelling');
    const isUnfinished = now === 'waiting' || now === 'running';
    if (isUnfinished && wasUp && cancelling !== undefined && cancelling.round < this.#round) {
      this.problem(task, `${now} although its cancellation was answered and its process died`);
    }
    if (now === 'failed' && task.answered.has('redrive') && message?.failedAt === task.failedAt) {
      this.problem(task, 'the same dead letter although its redrive was answered');
    }
  }

  #checkRow(task: Accepted, row: string): void {
    const { output } = JSON.parse(JSON.parse(row).result);
    if (task.kind.output === undefined || output !== task.kind.output) this.problem(task, `completed with ${output}`);
  }

  #checkReason(task: Accepted, reason: string): void {
    const { kind, kills, runs } = task;
    if (reason === kind.reason && (kind.output === undefined || runs > 1)) return;
    if (!DIED.test(reason) || kills < MAX_DEATHS) this.problem(task, `failed after ${kills} kills: ${reason}`);
  }

  /** Whether an operation on a task was asked for, so it may have taken effect. */
  wasAsked(task: Accepted, operation: Operation): boolean {
    const covers = ({ reason }: Bulk) => reason === undefined || reason === task.kind.reason;
    return task.sent.has(operation) || this.#bulks.some((bulk) => bulk.operation === operation && covers(bulk));
  }

  /** Checks the runs of this round: none of an ended task, none while the queue was paused. */
  #checkRuns(): void {
    const { runs } = this.#files;
    const text = existsSync(runs) ? readFileSync(runs, 'utf8') : '';
    const lines = text.slice(this.#readRuns, text.lastIndexOf('\n') + 1);
    this.#readRuns += lines.length;
    for (const line of lines.split('\n').slice(0, -1)) {
      const [round, id = '', what, attempt, at] = line.split(' ');
      const task = this.#tasks.get(id);
      if (task === undefined) continue;
      task.history.push(`${at} round ${round}: ${what}, attempt ${attempt}`);
      if (what === 'fail') task.failures++;
      else this.#checkRun(task, Number(round), Number(attempt), Number(at));
    }
  }

  #checkRun(task: Accepted, round: number, attempt: number, at: number): void {
    task.runs++;
    // The death of a process charges no attempt.
    if (attempt > 1 + task.failures) this.problem(task, `attempt ${attempt} after ${task.failures} failures`);
    if (this.idle && round === this.#round) this.problem(task, 'ran while the queue was paused');
    if (task.state === 'completed' || task.state === 'gone') this.problem(task, `ran although it was ${task.state}`);
    const { cancel, purge, cancelling } = Object.fromEntries(task.answered);
    for (const answer of [cancel, purge]) {
      if (answer !== undefined && at > answer.micros) this.problem(task, 'ran although its end was answered');
    }
    if (cancelling !== undefined && cancelling.round < round) {
      this.problem(task, 'ran in a later process than the one that answered its cancellation');
    }
  }

  #snapshot(): { rows: Map<string, string>; messages: Map<string, StoredState> } {
    const { dataDir, copy } = this.#files;
    // A copy, so that the next start finds the files as the kill left them.
    for (const suffix of ['', '-wal']) {
      const from = join(dataDir, `tasks.db${suffix}`);
      if (existsSync(from)) copyFileSync(from, `${copy}${suffix}`);
    }
    const database = new DatabaseSync(copy);
    try {
      const rows = database.prepare('SELECT * FROM tasks').all();
      const messages = database
        .prepare('SELECT id, state, failed_at AS failedAt, reason FROM messages')
        .all() as unknown as (StoredState & { id: string })[];
      return {
        rows: new Map(rows.map((row) => [row.id as string, JSON.stringify(row)])),
        messages: new Map(
          messages.map(({ id, ...stored }) => [id, { ...stored, failedAt: stored.failedAt ?? undefined }]),
        ),
      };
    } finally {
      // The last connection removes the copied log.
      database.close();
    }
  }
}

interface StoredState {
  state: 'waiting' | 'running' | 'failed';
  failedAt: number | undefined;
  reason: string | null;
}

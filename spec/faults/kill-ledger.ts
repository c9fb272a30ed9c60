import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { runOn } from '../support/migrated-folder.ts';

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

export type Operation = 'cancel' | 'redrive' | 'purge';

export interface Accepted {
  readonly id: string;
  readonly kind: Kind;
  /** History of the task, for the message of a failure. */
  readonly history: string[];
  /** State after the last kill. */
  state: State;
  /** Time of the failure if the task is a dead letter. It distinguishes the dead letters of one task. */
  failedAt: number | undefined;
  /** Its result row if the task is completed. */
  row: string | undefined;
  /** Kills since the task was accepted or redriven. */
  kills: number;
  /** Operations whose requests were sent, so they may have taken effect without an answer. */
  readonly sent: Set<Operation>;
  /** Answered operations, with the round of the answer. */
  readonly answered: Map<Operation | 'cancelling', number>;
}

/** Deaths of its process after which a task becomes a dead letter. */
const MAX_DEATHS = 3;

/**
 * Records the answers to clients, and checks after each kill that the database agrees with them. The simulator also
 * checks the runs of the handlers.
 */
export class KillLedger {
  readonly #dataDir: string;
  /** Folder for a copy of the database. */
  readonly #copy: string;
  readonly #tasks = new Map<string, Accepted>();
  readonly #problems: string[] = [];
  /** Number of the round. In each round, one process runs. */
  round = 0;
  /** State of the pause by the last answer. Undefined after a request without an answer. */
  paused: boolean | undefined = false;
  /** Tasks by their idempotency keys. */
  readonly keys = new Map<string, Accepted>();

  constructor(dataDir: string, copy: string) {
    this.#dataDir = dataDir;
    this.#copy = copy;
  }

  /** Returns the tasks in one of the given states after the last kill, in the order of acceptance. */
  in(...states: State[]): Accepted[] {
    return [...this.#tasks.values()].filter(({ state }) => states.includes(state));
  }

  summary(): Record<string, number> {
    const states = Object.groupBy(this.#tasks.values(), ({ state }) => state);
    return Object.fromEntries(Object.entries(states).map(([state, { length }]) => [state, length]));
  }

  accept(id: string, kind: Kind): Accepted {
    const known = this.#tasks.get(id);
    if (known !== undefined) this.problem(known, 'the id of another submission was answered again');
    const task: Accepted = {
      ...{ id, kind, history: [], state: 'accepted', sent: new Set(), answered: new Map() },
      ...{ failedAt: undefined, row: undefined, kills: 0 },
    };
    this.#tasks.set(id, task);
    this.#note(task, `accepted ${JSON.stringify(kind)}`);
    return task;
  }

  #note(task: Accepted, what: string): void {
    task.history.push(`round ${this.round}: ${what}`);
  }

  send(task: Accepted, operation: Operation): void {
    task.sent.add(operation);
    this.#note(task, `${operation} sent`);
  }

  /** Records an answer that must hold from now on. */
  answer(task: Accepted, operation: Operation | 'cancelling'): void {
    task.answered.set(operation, this.round);
    this.#note(task, `${operation} answered`);
  }

  /** Records that an operation was refused, so it had no effect. */
  refuse(task: Accepted, operation: Operation, status: number): void {
    task.sent.delete(operation);
    this.#note(task, `${operation} refused with ${status}`);
  }

  problem({ id, history }: Accepted, what: string): void {
    this.#problems.push([`task ${id}: ${what}`, ...history].join('\n  '));
  }

  /**
   * Compares the database of a killed process with the answers to clients.
   *
   * @param wasUp whether the process listened, so the deaths of earlier processes were processed
   * @throws {Error} with the history of each task that has no end, two ends, or an end that contradicts an answer
   */
  check(wasUp: boolean): void {
    const { rows, messages } = this.#snapshot();
    for (const id of rows.keys())
      if (messages.has(id) && !this.#tasks.has(id)) this.#problems.push(`task ${id}, never answered: two ends`);
    for (const task of this.#tasks.values()) this.#checkTask(task, rows.get(task.id), messages.get(task.id), wasUp);
    if (this.#problems.length > 0) throw new Error(`${this.#problems.length} problems\n${this.#problems.join('\n')}`);
  }

  #checkTask(task: Accepted, row: string | undefined, message: StoredState | undefined, wasUp: boolean): void {
    const { state: before, failedAt } = task;
    const now: State = row !== undefined ? 'completed' : (message?.state ?? 'gone');
    if (before !== now || failedAt !== message?.failedAt) this.#note(task, `found ${now} ${message?.reason ?? ''}`);
    if (row !== undefined && message !== undefined)
      this.problem(task, `two ends: a row and a ${message.state} message`);
    if (before === 'completed' && row !== task.row) this.problem(task, `its row changed: ${task.row} to ${row}`);
    if (before === 'gone' && now !== 'gone') this.problem(task, `was gone, is ${now}`);
    const isRedriven = before === 'failed' && (now !== 'failed' || message?.failedAt !== failedAt);
    if (isRedriven && now !== 'gone' && !task.sent.has('redrive')) this.problem(task, 'redriven by nobody');
    // A request to cancel concerns the attempts before the failure, and a redrive may follow in the same round.
    if (isRedriven || now === 'failed' || task.sent.has('redrive')) task.answered.delete('cancelling');
    if (now !== 'gone') this.#checkAnswers(task, now, message, wasUp);
    else if (before !== 'gone' && !task.sent.has('cancel') && !task.sent.has('purge')) this.problem(task, 'lost');
    if (row !== undefined && JSON.parse(JSON.parse(row).result).output !== task.kind.output)
      this.problem(task, `completed with ${row}`);
    const reason = message?.reason ?? '';
    const isReason = reason === task.kind.reason || (/process died/.test(reason) && task.kills >= MAX_DEATHS);
    if (now === 'failed' && !isReason) this.problem(task, `failed after ${task.kills} kills: ${reason}`);
    const kills = isRedriven ? 1 : task.kills + 1;
    Object.assign(task, { state: now, row, failedAt: message?.failedAt, kills });
    // A redrive or purge that left no trace never happens, but a recorded cancellation may still take effect.
    task.sent.delete('redrive');
    task.sent.delete('purge');
    task.answered.delete('redrive');
  }

  #checkAnswers(task: Accepted, now: State, message: StoredState | undefined, wasUp: boolean): void {
    for (const operation of ['cancel', 'purge'] as const)
      if (task.answered.has(operation)) this.problem(task, `${now} although its ${operation} was answered`);
    const isUnfinished = now === 'waiting' || now === 'running';
    if (isUnfinished && wasUp && (task.answered.get('cancelling') ?? this.round) < this.round)
      this.problem(task, `${now} although its cancellation was answered and its process died`);
    if (now === 'failed' && task.answered.has('redrive') && message?.failedAt === task.failedAt)
      this.problem(task, 'the same dead letter although its redrive was answered');
  }

  /** Reads a copy, so that the next start finds the files as the kill left them. */
  #snapshot() {
    const copy = this.#copy;
    for (const file of ['tasks.db', 'tasks.db-wal'])
      if (existsSync(join(this.#dataDir, file))) copyFileSync(join(this.#dataDir, file), join(copy, file));
    const rows = runOn(copy, 'SELECT * FROM tasks').map((row): [string, string] => [`${row.id}`, JSON.stringify(row)]);
    const messages = runOn(copy, 'SELECT id, state, failed_at AS failedAt, reason FROM messages').map(
      ({ id, failedAt, ...stored }) =>
        [`${id}`, { ...stored, failedAt: failedAt ?? undefined } as StoredState] as const,
    );
    return { rows: new Map(rows), messages: new Map(messages) };
  }
}

interface StoredState {
  state: 'waiting' | 'running' | 'failed';
  failedAt: number | undefined;
  reason: string | null;
}

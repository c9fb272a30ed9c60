import type { Grant } from './credentials.ts';
import { type BulkResult, changeAll, type DeadLetters, deadLetters, type TaskFilter } from './dead-letters.ts';
import { type Abortable, type ClientOptions, HttpClient } from './http-client.ts';
import { type Limits, limits } from './limits.ts';
import { type ListedTask, type QueueApi, queueApi } from './queue-api.ts';
import type { Status } from './reconnection.ts';
import { type Schedules, schedules } from './schedules.ts';
import { createToken, Task, type TaskTokenOptions } from './task.ts';
import { type StreamEvents, TaskFollower } from './task-follower.ts';
import type { DeadLetter, TaskRow } from './task-state.ts';

/** Built-in actions, which a handlers module may replace. */
interface BuiltInActions {
  uppercase: (data: { text?: string }) => string;
  sum: (data: { numbers?: number[] }) => number;
}

// biome-ignore lint/suspicious/noExplicitAny: data and output are unknown without a handlers module.
export type AnyActions = Record<string, (data: any) => any>;

/** `Own` is the type of a handlers module's default export. */
type Actions<Own> = Omit<BuiltInActions, keyof Own> & Own;

type HandlerOf<Own, Name extends keyof Actions<Own>> = Actions<Own>[Name] extends { handler: infer Handler }
  ? Handler
  : Actions<Own>[Name];

export type ActionName<Own> = keyof Actions<Own> & string;

/** Data of an action: the first parameter of its handler. */
export type DataOf<Own, Name extends ActionName<Own>> =
  HandlerOf<Own, Name> extends (data: infer Data, ...others: never[]) => unknown
    ? unknown extends Data
      ? Record<string, unknown>
      : Data
    : never;

/** Output of an action: what its handler returns, as JSON. */
export type OutputOf<Own, Name extends ActionName<Own>> =
  HandlerOf<Own, Name> extends (...all: never[]) => infer Output ? Json<Awaited<Output>> : never;

/** A value after `JSON.parse(JSON.stringify(value))`. */
type Json<Value> = unknown extends Value
  ? Value
  : Value extends { toJSON(): infer Plain }
    ? Plain
    : Value extends object
      ? { [Key in keyof Value]: Json<Value[Key]> }
      : Value;

/** Fields of a submission beside action and data. */
export interface SubmissionOptions {
  /** Seconds until the task is due. */
  delay?: number | undefined;
  /** When the task is due: ISO 8601 with an offset, or Unix seconds. */
  run_at?: string | number | Date | undefined;
  /** From 1, the first, to 5. The default is 3. */
  priority?: 1 | 2 | 3 | 4 | 5 | undefined;
  limit_key?: string | undefined;
  callback_url?: string | undefined;
  /** By default a random one, so that a submission whose answer was lost can be repeated. */
  idempotency_key?: string | undefined;
}

export interface SubmitOptions extends SubmissionOptions, Abortable {
  /** Header `traceparent` (W3C Trace Context). */
  traceparent?: string | undefined;
}

/** Submission of a batch. */
export type Submission<Own, Name extends ActionName<Own> = ActionName<Own>> =
  Name extends ActionName<Own> ? { action: Name; data: DataOf<Own, Name> } & SubmissionOptions : never;

/** Tasks to cancel: by id, all, or the tasks that match all of the other fields. */
export type CancelSelection =
  | { ids: string[] }
  | { all: true }
  | (TaskFilter & { state?: 'queued' | 'limited' | 'scheduled' | 'running' | 'retrying' | 'unfinished' });

export interface SearchQuery extends TaskFilter, Abortable {
  state?: 'queued' | 'limited' | 'scheduled' | 'running' | 'retrying' | 'unfinished' | 'failed' | 'completed';
  /** Cause of a dead letter. */
  cause?: string;
  /** From 0, which only counts, to 100. */
  limit?: number;
  /** `next_cursor` of the page before. */
  cursor?: string | undefined;
  /** 0 leaves the total out, which takes longer than a page. */
  total?: 0;
}

/** `total` is in the first page only, unless it is left out, and a lower bound unless `total_is_exact`. */
export interface SearchResult {
  tasks: (ListedTask | DeadLetter | TaskRow)[];
  count: number;
  total?: number;
  total_is_exact?: boolean;
  next_cursor: string | null;
}

export interface ListQuery {
  status?: string | undefined;
  action?: string | undefined;
  /** Id of a task; only older ones are listed. */
  before?: string | undefined;
}

/** Action that has a handler. `schema` is the JSON Schema of its data. */
export interface ActionList {
  actions: { name: string; schema?: object }[];
  unknown_actions: 'process' | 'reject';
}

/** Client of the task queue. `Own` is the type of the handlers module's default export, whose actions it knows then. */
export class TaskClient<Own = AnyActions> {
  readonly queue: QueueApi;
  readonly deadLetters: DeadLetters;
  readonly schedules: Schedules;
  readonly limits: Limits;
  /** HTTP client, also for requests without a method of `TaskClient`. */
  readonly http: HttpClient;
  readonly #follower: TaskFollower;

  constructor(url: string | URL, options: ClientOptions = {}) {
    this.http = new HttpClient(url, options);
    this.#follower = new TaskFollower(this.http);
    this.queue = queueApi(this.http);
    this.deadLetters = deadLetters(this.http);
    this.schedules = schedules(this.http);
    this.limits = limits(this.http);
  }

  /** State of the event stream, which is open while a task is followed or somebody listens to events. */
  get status(): Status {
    return this.#follower.status;
  }

  /** Adds a listener to all events of the service, or to the state of their stream. @returns a function that removes it */
  on<Name extends keyof StreamEvents>(name: Name, listener: (value: StreamEvents[Name]) => void): () => void {
    return this.#follower.on(name, listener);
  }

  /**
   * Submits a task, and again after a lost answer or a transient error, until `giveUpMs` is over. Makes one task nevertheless.
   *
   * @throws {ServiceError | UnreachableError} or the reason of the signal
   */
  async submit<Name extends ActionName<Own>>(
    action: Name,
    data: DataOf<Own, Name>,
    { signal, traceparent, idempotency_key = randomKey(), ...fields }: SubmitOptions = {},
  ): Promise<Task<OutputOf<Own, Name>>> {
    const { id } = await this.http.request<{ id: string }>('tasks', {
      method: 'POST',
      body: { ...fields, action, data },
      headers: { 'Idempotency-Key': idempotency_key, ...(traceparent !== undefined && { traceparent }) },
      isRepeatable: true,
      signal,
    });
    return this.task(id);
  }

  /** Submits up to 1000 tasks, all or none, in the same way as `submit`. */
  async batch<const Names extends readonly ActionName<Own>[]>(
    submissions: { [Index in keyof Names]: Submission<Own, Names[Index]> },
    { signal, traceparent }: Pick<SubmitOptions, 'signal' | 'traceparent'> = {},
  ): Promise<{ [Index in keyof Names]: Task<OutputOf<Own, Names[Index]>> }> {
    const { tasks } = await this.http.request<{ tasks: { id: string }[] }>('tasks/batch', {
      method: 'POST',
      body: {
        tasks: (submissions as readonly SubmitOptions[]).map(({ idempotency_key = randomKey(), ...fields }) => {
          return { ...fields, idempotency_key };
        }),
      },
      headers: traceparent === undefined ? {} : { traceparent },
      isRepeatable: true,
      signal,
    });
    return tasks.map(({ id }) => this.task(id)) as never;
  }

  /** Returns the task with an id, without a request. */
  task<Output = unknown>(id: string): Task<Output> {
    return new Task(id, this.http, this.#follower);
  }

  /**
   * Cancels many tasks. `remaining` is the number of selected tasks that could not be cancelled. More than 1000 ids take
   * several requests, of which earlier ones may have succeeded if it throws.
   */
  cancelAll(selection: CancelSelection, options?: Abortable): Promise<BulkResult> {
    return changeAll(this.http, 'tasks/cancel', selection, options);
  }

  /** Creates a token that can only read, list and follow the tasks of a limit key. */
  limitKeyToken(limitKey: string, options?: TaskTokenOptions): Promise<Grant> {
    return createToken(this.http, `limit-keys/${encodeURIComponent(limitKey)}`, options);
  }

  /** Revokes the token of the client. */
  async revoke(): Promise<void> {
    await this.http.request('auth/token', { method: 'DELETE' });
  }

  /** Requests the newest 100 result rows, newest first. */
  async list({ signal, ...query }: ListQuery & Abortable = {}): Promise<TaskRow[]> {
    const { tasks } = await this.http.request<{ tasks: TaskRow[] }>('tasks', { query, signal });
    return tasks;
  }

  /** Requests tasks in any state that match a filter, with the start of their payloads. */
  search({ signal, ...query }: SearchQuery = {}): Promise<SearchResult> {
    return this.http.request('tasks/search', { query, signal });
  }

  /** Requests the actions that have a handler. */
  actions(options?: Abortable): Promise<ActionList> {
    return this.http.request('actions', options);
  }

  /** Ends everything: requests, results that are waited for, and the event stream. */
  close(): void {
    this.http.close();
    this.#follower.close();
  }
}

/** Returns a random key. Neither Node 18 nor a page over plain HTTP has `crypto.randomUUID`. */
function randomKey(): string {
  return Array.from({ length: 3 }, () => Math.random().toString(36).slice(2)).join('');
}

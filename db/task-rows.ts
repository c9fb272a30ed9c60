/** A value, or a promise of it: SQLite answers at once, PostgreSQL later. */
export type Awaitable<Value> = Value | Promise<Value>;

/** Returns what `next` makes of a value: synchronously unless `value` or the result is a promise. */
export function andThen<Value, Result>(
  value: Awaitable<Value>,
  next: (value: Value) => Awaitable<Result>,
): Awaitable<Result> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Reads rows by a statement with parameters from `$1`. */
export type Read = <Row>(statement: string, values?: readonly unknown[]) => Awaitable<readonly Row[]>;

/** A record as a database returns it: null stands for undefined. */
export type Stored<Value> = {
  [Name in keyof Value]-?: undefined extends Value[Name] ? Exclude<Value[Name], undefined> | null : Value[Name];
};

/** Replaces null by undefined. */
export function defined<Value extends object>(row: Stored<Value>): Value {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value ?? undefined])) as Value;
}

export interface TaskRows {
  /** Returns a part (default: `whole`) of a row. */
  find<Part extends keyof RowParts = 'whole'>(id: string, part?: Part): Awaitable<RowParts[Part] | undefined>;
  /** Like `find`, of the rows with these ids that exist, in this order. */
  read<Part extends keyof RowParts>(ids: readonly string[], part: Part): Awaitable<readonly RowParts[Part][]>;
  /** Returns where a search continues after a row, unless it is by id prefix. */
  position(id: string): Awaitable<Position | undefined>;
  /** Like the method of `TaskStore`, of completed tasks. */
  search(filter: SearchFilter, after: Position | undefined, limit: number): Awaitable<SearchPage>;
}

/** Filter of a search. A task must match all fields that are set. Times are milliseconds since the epoch. */
export interface SearchFilter {
  /** `unfinished` stands for all states but `failed` and `completed`. */
  state?: MessageState | 'completed' | 'unfinished' | undefined;
  /** Status of a row. Only other programs write rows with another one than `completed`. */
  status?: string | undefined;
  action?: string | undefined;
  limitKey?: string | undefined;
  /** The row of a completed task has none. */
  schedule?: string | undefined;
  /** Part of the action, the data, the output, or the reason of the last failed attempt. Case-insensitive for A to Z. */
  text?: string | undefined;
  ids?: readonly string[] | undefined;
  /** First characters of a UUID. */
  idPrefix?: string | undefined;
  reasons?: readonly string[] | undefined;
  /** When a task failed if the state is `failed`, otherwise when it was accepted. */
  since?: number | undefined;
  until?: number | undefined;
  view?: TaskView | undefined;
}

/** Place of a task in the order of a search: the values of the columns that order it. */
export type Position = readonly (number | string)[];

export interface Found extends Located {
  /** Position in the order of acceptance. */
  arrival: number;
  position: Position;
  /** Only of a message, in milliseconds since the epoch. */
  acceptedAt?: number;
}

export interface SearchPage<Each = Found> {
  found: Each[];
  /** Where to continue. Undefined at the end. */
  next: Position | undefined;
}

export interface RowParts {
  whole: TaskRow;
  detailed: DetailedRow;
  summary: TaskSummary;
}

/** Tasks that a user may see: a single task, the tasks of a limit key, or a user's submissions. Exactly one field is set. */
export interface TaskView {
  readonly id?: string;
  readonly limit_key?: string;
  readonly submitter?: string;
}

/** A row of table `tasks`. `payload` and `result` are JSON text. Times are Unix seconds. */
export interface TaskRow {
  id: string;
  payload: string;
  status: string;
  result: string | null;
  created_at: number;
  processed_at: number | null;
}

/** A row with the task's attempts, which rows of older versions lack. Times of attempts are in milliseconds. */
export interface DetailedRow extends TaskRow {
  attempts?: number | null;
  waited_ms?: number | null;
  ran_ms?: number | null;
  /** Start and end of the attempt that completed the task. */
  started_at?: number | null;
  ended_at?: number | null;
  /** Id of the node that completed the task. Null on a single node. */
  node?: string | null;
  /** Failed attempts as a JSON array; null if there were none. */
  history?: string | null;
  /** Escaped as in JSON, because PostgreSQL stores no NUL character. */
  limit_key?: string | null | undefined;
  submitter?: string | null | undefined;
}

export interface Located {
  id: string;
  /** Size of the text: payload and result of a row; body, reason and history of a message. */
  bytes: number;
}

/** A row with `payload` and `result` cut to {@link SUMMARY_LENGTH} characters, and their full sizes. */
export interface TaskSummary extends TaskRow {
  payload_bytes: number;
  result_bytes: number | null;
  /** Null if version 0.1.0 completed the task. */
  ran_ms: number | null;
  /** First {@link HEAD_LENGTH} characters of the payload, which contain the start of the task's action. */
  head: string;
}

/** Maximum number of rows in a response to `GET /tasks`. */
export const LISTING_SIZE = 100;
/** Maximum number of characters of the payload and of the result in a summary. */
export const SUMMARY_LENGTH = 256;
/** Maximum length of `TaskSummary.head`. Must be at least `READ_LENGTH` in workers/submissions/parse-submission.ts. */
export const HEAD_LENGTH = 2048;

const WHOLE = 'id, payload, status, result, created_at, processed_at';

/** Columns of each part of a row, in SQLite and in PostgreSQL. */
export const rowColumns: Record<keyof RowParts, string> = {
  whole: WHOLE,
  detailed: `${WHOLE}, attempts, waited_ms, ran_ms, started_at, ended_at, node, history, limit_key, submitter`,
  summary: `id, substr(payload, 1, ${SUMMARY_LENGTH}) AS payload, octet_length(payload) AS payload_bytes, status,
    substr(result, 1, ${SUMMARY_LENGTH}) AS result, octet_length(result) AS result_bytes, created_at, processed_at, ran_ms,
    substr(payload, 1, ${HEAD_LENGTH}) AS head`,
};

/** Returns the last field of a task message, without parsing the message. */
export function createdAt(body: string): number {
  return Number(body.slice(body.lastIndexOf(':') + 1, -1));
}

/** Maximum number of UTF-16 code units of the {@link actionText} of a filter: the indexes on actions contain these in full. */
export const MAX_ACTION_LENGTH = 256;

/** Returns a text, such as an action, as it appears in a payload: escaped as JSON, without the quotes. */
export function actionText(action: string): string {
  return JSON.stringify(action).slice(1, -1);
}

/** Whether an action is short enough for a filter: rows and messages contain it in full. */
export function isFilterable(action: string): boolean {
  return actionText(action).length <= MAX_ACTION_LENGTH;
}

/** A submitted task. `body` is the JSON text of an object with the fields `id`, `action`, `data` and `created_at`. */
export interface Message {
  readonly id: string;
  /** First characters of the action. */
  readonly action: string | undefined;
  readonly body: string;
  /** From 1, the first, to 5. 3 if undefined. */
  readonly priority?: number | undefined;
  /** When the message is due. Undefined for at once. */
  readonly runAt?: number | undefined;
  /** Messages with different keys take turns. 1 to 255 characters. */
  readonly limitKey?: string | undefined;
  /** Id of the user who submitted the task. Undefined without access control. */
  readonly submitter?: string | undefined;
  /** Name of the schedule that made the task. */
  readonly schedule?: string | undefined;
  /** Header `traceparent` of the submission (W3C Trace Context). */
  readonly traceparent?: string | undefined;
  /** Where the end of the task is reported: a normalised URL. */
  readonly callbackUrl?: string | undefined;
}

/**
 * `scheduled` messages are due later for their first attempt, `retrying` ones for their next, `waiting` ones are due, and
 * `limited` ones would wait if a limit of their action had room.
 */
export type MessageState = 'scheduled' | 'retrying' | 'limited' | 'waiting' | 'running' | 'failed';

import type { Found, MessageState, Position, SearchFilter, SearchPage } from './task-rows.ts';
import { CALLBACK_ACTION } from './task-store.ts';

/** Further columns of a `FoundFailure`. */
export const FAILURE = ', action, reason, failed_at AS "failedAt", permanent';

/** Maximum number of tasks that a call reads, whether they match or not. It then takes a few milliseconds. */
export const SEARCH_SLICE = 5000;
/** Maximum size of the tasks whose texts a call reads, unless the first is larger. */
const TEXT_BYTES = 2 * 1024 * 1024;
/** Clocks of several nodes may differ by this time, so that acceptance times are not strictly in the order of arrival. */
const CLOCK_DIFFERENCE_MS = 60_000;
/** Newer than any time and any arrival number. */
const NEWEST = Number.MAX_SAFE_INTEGER;

/** Differences between SQLite and PostgreSQL. Statements have parameters `$1`, `$2`… */
export interface SearchDialect {
  /** Returns the data in a column with messages, as JSON text. */
  data(column: string): string;
  like: string;
  /** Returns the condition that a list contains the value of a column. */
  among(column: string, list: string): string;
  list(values: readonly (string | number)[]): unknown;
  /** Returns an action or a limit key as a message has it. */
  encodeName(text: string): string;
  /** Reads a text that `encodeName` has returned. */
  decodeName(text: string): string;
  /** Returns another text as the database stores it. */
  plain(text: string): string;
  /** Returns the positions of the running messages, if no index has them. */
  running?: () => readonly number[];
  /** Conditions of the indexes on messages in a state. */
  states: Record<MessageState, string>;
  messageBytes: string;
  /** Further columns of a `StoredMessage`, that only one database has. */
  messageColumns: string;
  /** Columns of the table `tasks`. */
  rowArrival: string;
  rowAction: string;
  /** Whether the planner uses an index only if the order begins with its first column. */
  ordersByFixed: boolean;
}

/** Index and order in which tasks are read. */
interface Order {
  keys: readonly string[];
  /** Position before the first task. */
  start: Position;
  isAscending?: boolean;
  /** Condition of the partial index. */
  where?: string;
  /** First column of the index, with its value. */
  fixed?: readonly [column: string, value: string] | undefined;
  /** Returns whether no further task can match, given the time of the last task that was read. */
  isOver?: ((time: number) => boolean) | undefined;
}

interface Reading {
  table: 'messages' | 'tasks';
  columns: string;
  bytes: string;
  time: string;
  /** Column that a search for a text reads. Undefined for a search without a text. */
  body: string | undefined;
  /** Columns whose combinations of values are counted, instead of returning tasks. */
  counted?: string | undefined;
  order: (bind: Bind) => Order;
  conditions: (bind: Bind) => string[];
}

/** Adds a value. Returns its parameter. */
type Bind = (value: unknown) => string;
/** Yields statements, and receives their rows. */
export type SearchSteps = Generator<readonly [text: string, values: unknown[]], SearchPage, unknown[]>;

/**
 * Searches messages: `waiting` and `limited` ones next to run first, `scheduled` and `retrying` ones next due first,
 * `running` ones first accepted first, failed ones last failed first, and messages of several states last accepted first.
 * With an id prefix, in the order of ids.
 *
 * @param after position of the last task of the page before
 * @param more further columns
 * @param counted columns whose combinations of values are counted, instead of returning tasks
 */
export function searchMessages(
  dialect: SearchDialect,
  filter: SearchFilter,
  after: Position | undefined,
  limit: number,
  more = '',
  counted?: string,
): SearchSteps {
  const { encodeName, plain, states, running, data, messageBytes: bytes } = dialect;
  const { state, action, limitKey, schedule, text, reasons, since, until = NEWEST, view } = filter;
  const isFailed = state === 'failed';
  const time = isFailed ? 'failed_at' : 'accepted_at';
  const order = (bind: Bind): Order => {
    const byId = idOrder(dialect, filter, bind, ['arrival']);
    if (byId !== undefined) return byId;
    const isOver = isOlderThan(since, isFailed ? 0 : CLOCK_DIFFERENCE_MS);
    if (isFailed) return { keys: ['failed_at', 'arrival'], start: [until, NEWEST], where: states.failed, isOver };
    if (state === 'waiting' || state === 'limited')
      return {
        keys: ['priority', 'round', 'run_at', 'arrival'],
        start: [0, 0, 0, 0],
        isAscending: true,
        where: states[state],
      };
    if (state === 'scheduled' || state === 'retrying')
      return { keys: ['run_at', 'arrival'], start: [0, 0], isAscending: true, where: states[state] };
    const newestFirst = { keys: ['arrival'], start: [NEWEST], isOver };
    if (state === 'running') {
      const where = running === undefined ? states.running : dialect.among('arrival', bind(dialect.list(running())));
      return { keys: ['arrival'], start: [0], isAscending: true, where };
    }
    return schedule === undefined ? newestFirst : { ...newestFirst, where: `schedule = ${bind(plain(schedule))}` };
  };
  const conditions = (bind: Bind) => [
    state === 'unfinished' ? "state <> 'failed'" : ifGiven(bind(state), (value) => `state = ${value}`),
    ifGiven(bind(action && encodeName(action)), (value) => `action = ${value}`),
    ifGiven(bind(limitKey && encodeName(limitKey)), (value) => `limit_key = ${value}`),
    ifGiven(bind(schedule && plain(schedule)), (value) => `schedule = ${value}`),
    ifGiven(bind(reasons && ''), () => dialect.among('reason', bind(dialect.list((reasons ?? []).map(plain))))),
    ifGiven(bind(view?.submitter), (value) => `submitter = ${value}`),
    // The limit key of a callback is its host.
    ifGiven(
      bind(view?.limit_key && encodeName(view.limit_key)),
      (value) => `limit_key = ${value} AND action <> '${CALLBACK_ACTION}'`,
    ),
    ...(text === undefined ? [] : [`(${matches(dialect, bind, text, data('body'), 'action', 'reason')})`]),
    `+${time} BETWEEN ${bind(since ?? 0)} AND ${bind(until)}`,
  ];
  const body = text === undefined ? undefined : 'body';
  const columns = `id, arrival, accepted_at AS "acceptedAt", ${bytes} AS bytes${more}`;
  const reading: Reading = { table: 'messages', columns, bytes, time, body, counted, order, conditions };
  return search(dialect, reading, filter, after, limit);
}

/** Searches rows, the last accepted first, or with an id prefix in the order of ids. */
export function searchRows(
  dialect: SearchDialect,
  filter: SearchFilter,
  after: Position | undefined,
  limit: number,
): SearchSteps {
  const { status, action, limitKey, text, since, until = NEWEST, view } = filter;
  const { rowArrival, rowAction, plain, data } = dialect;
  // Nearly all rows are completed, so their indexes have no statuses.
  const rare = status === undefined || status === 'completed' ? undefined : plain(status);
  const fields = [
    ['status', rare],
    ['limit_key', inJson(view?.limit_key)],
    ['submitter', view?.submitter],
    ['limit_key', inJson(limitKey)],
    [rowAction, inJson(action)],
  ] as const;
  const keys = ['created_at', rowArrival];
  const order = (bind: Bind): Order => {
    const byId = idOrder(dialect, filter, bind, keys);
    if (byId !== undefined) return byId;
    const fixed = fields.find((field): field is [string, string] => field[1] !== undefined);
    const where = rare === undefined ? {} : { where: "status <> 'completed'" };
    // Times of rows are in whole seconds.
    const isOver = isOlderThan(since, 999);
    return { keys, start: [Math.floor(until / 1000), NEWEST], fixed, isOver, ...where };
  };
  const conditions = (bind: Bind) => [
    ...(status === 'completed' ? ["status = 'completed'"] : []),
    ...fields.map(([column, value]) => ifGiven(bind(value), (given) => `${column} = ${given}`)),
    ...(text === undefined ? [] : [`(${matches(dialect, bind, text, data('payload'), rowAction, OUTPUT)})`]),
    `+created_at BETWEEN ${bind(Math.floor((since ?? 0) / 1000))} AND ${bind(Math.floor(until / 1000))}`,
  ];
  const bytes = 'octet_length(payload) + coalesce(octet_length(result), 0)';
  const columns = `id, ${rowArrival} AS arrival, ${bytes} AS bytes`;
  const body = text && 'payload';
  const reading: Reading = { table: 'tasks', columns, bytes, time: 'created_at * 1000', body, order, conditions };
  return search(dialect, reading, filter, after, limit);
}

/**
 * First finds out up to where a slice reads, by the index alone, and then what matches in it. The unary `+` before times keeps
 * SQLite from using them, instead of the position, as bounds of the index.
 *
 * @throws {UnknownPosition} if a search with another order returned `after`
 */
function* search(
  { ordersByFixed }: SearchDialect,
  { table, columns, bytes, time, body, counted, order, conditions }: Reading,
  filter: SearchFilter,
  after: Position | undefined,
  limit: number,
): SearchSteps {
  const statement = (build: (bind: Bind, order: Order) => string) => {
    const values: unknown[] = [];
    const bind: Bind = (value) => `$${values.push(value ?? null)}`;
    return [build(bind, order(bind)), values] as const;
  };
  const { keys, start, isAscending = false, isOver } = order(() => '');
  const isPosition = after === undefined || after.length === start.length;
  if (!isPosition || after?.some((value, index) => typeof value !== typeof start[index])) throw new UnknownPosition();
  const bound = (bind: Bind, { fixed }: Order, sign: string, position: Position) => {
    const own = ordersByFixed && fixed !== undefined ? [fixed] : [];
    const columns = [...own.map(([column]) => column), ...keys];
    const values = [...own.map(([, value]) => value), ...position];
    return `(${columns}) ${sign} (${values.map(bind)})`;
  };
  const among = (bind: Bind, given: Order) => {
    const { where, fixed } = given;
    const isFixed = fixed && `${fixed[0]} ${ordersByFixed ? (isAscending ? '<=' : '>=') : '='} ${bind(fixed[1])}`;
    return [where, isFixed, bound(bind, given, isAscending ? '>' : '<', after ?? start)].filter(Boolean).join(' AND ');
  };
  const orderBy = ({ fixed }: Order) => {
    const own = ordersByFixed && fixed !== undefined ? [fixed[0]] : [];
    return [...own, ...keys].map((key) => (isAscending ? key : `${key} DESC`)).join();
  };
  const names = keys.map((_, index) => `k${index}`);
  const named = keys.map((key, index) => `${key} AS k${index}`);
  const last = statement((bind, given) => {
    const sorted = orderBy(given);
    const sizes = body && `, row_number() OVER w AS number, sum(${bytes}) OVER w AS total`;
    const window = body && `WINDOW w AS (ORDER BY ${sorted} ROWS UNBOUNDED PRECEDING)`;
    return `SELECT ${names}, time FROM (
        SELECT ${named}, ${isOver ? time : 0} AS time ${sizes ?? ''} FROM ${table} WHERE ${among(bind, given)} ${window ?? ''}
        ORDER BY ${sorted} LIMIT ${SEARCH_SLICE}
      ) AS slice ${body ? `WHERE number = 1 OR total <= ${TEXT_BYTES}` : ''}
      ORDER BY ${names.map((name) => (isAscending ? `${name} DESC` : name))} LIMIT 1`;
  });
  const [end] = (yield last) as Record<string, number>[];
  if (end === undefined) return { found: [], next: undefined };
  const positionOf = (row: object) => names.map((name) => (row as Record<string, number | string>)[name] ?? 0);
  const page = statement((bind, given) => {
    const slice = bound(bind, given, isAscending ? '<=' : '>=', positionOf(end));
    const all = [
      among(bind, given),
      slice,
      ...conditions(bind),
      ifGiven(bind(filter.idPrefix), (value) => `substr(id, 1, length(CAST(${value} AS text))) = ${value}`),
    ].join(' AND ');
    if (counted !== undefined)
      return `SELECT ${counted}, count(*) AS count FROM ${table} WHERE ${all} GROUP BY ${counted}`;
    return `SELECT ${columns}, ${named} FROM ${table} WHERE ${all} ORDER BY ${orderBy(given)} LIMIT ${bind(limit)}`;
  });
  const rows = (yield page) as Found[];
  if (counted !== undefined) return { found: rows, next: positionOf(end) };
  const found = rows.map((row) => ({ ...row, position: positionOf(row) }));
  if (found.length === limit) return { found, next: found.at(-1)?.position };
  return { found, next: isOver?.(end.time as number) ? undefined : positionOf(end) };
}

function idOrder(
  { among, list, plain }: SearchDialect,
  { ids, idPrefix, view }: SearchFilter,
  bind: Bind,
  keys: readonly string[],
): Order | undefined {
  const given = view?.id === undefined ? ids : [view.id];
  if (given !== undefined) {
    return { keys, start: keys.map(() => NEWEST), where: among('id', bind(list(given.map(plain)))) };
  }
  if (idPrefix === undefined) return undefined;
  // All UUIDs have the same form, so every collation orders them alike.
  const [first, last] = ['0', 'f'].map((digit) => idPrefix + UUID.replaceAll('0', digit).slice(idPrefix.length));
  return { keys: ['id'], start: [''], isAscending: true, where: `id >= ${bind(first)} AND id <= ${bind(last)}` };
}

const UUID = '00000000-0000-0000-0000-000000000000';

/** Returns a condition that holds if the parameter is null. The text of a statement does not depend on the filter then. */
function ifGiven(parameter: string, condition: (parameter: string) => string): string {
  return `(CAST(${parameter} AS text) IS NULL OR ${condition(parameter)})`;
}

/** Returns a text as it is in a JSON string. */
function inJson(text: string | undefined): string | undefined {
  return text === undefined ? undefined : JSON.stringify(text).slice(1, -1);
}

/** Returns the condition that one of these columns contains a text, escaped as in a JSON string or to the letter. */
function matches({ like }: SearchDialect, bind: Bind, text: string, ...columns: readonly string[]): string {
  const patterns = [...new Set([inJson(text) ?? '', text])].map((part) => bind(patternOf(part)));
  const pairs = columns.flatMap((column) => patterns.map((pattern) => `${column} ${like} ${pattern} ESCAPE '\\'`));
  return pairs.join(' OR ');
}

/** Output of a task, in the result `{"output":…}`. */
const OUTPUT = 'substr(result, 11)';

/** Returns a pattern that matches any text with this part. Neither database has patterns with NUL. */
function patternOf(part: string): string {
  return `%${part.replaceAll('\0', '\ufffd').replaceAll(/[\\%_]/g, '\\$&')}%`;
}

function isOlderThan(since: number | undefined, differenceMs: number): Order['isOver'] {
  return since === undefined ? undefined : (time) => time < since - differenceMs;
}

/** Thrown if a search cannot continue at a position. */
export class UnknownPosition extends Error {
  override name = 'UnknownPosition';
}

import type { Found, Position, SearchFilter, SearchPage } from '../../db/task-rows.ts';
import type { TaskReads } from '../../db/task-store.ts';
import { Causes, causeOf } from './causes.ts';

/** Filter of a search, or of a bulk operation. */
export interface Filter extends SearchFilter {
  /** Cause of a dead letter, see {@link causeOf}. */
  cause?: string | undefined;
}

/** A total is exact up to this number. */
export const MAX_TOTAL = 10_000;
/** Maximum number of whole slices that one request reads: 100,000 tasks. */
const MAX_SLICES = 20;
/** Maximum number of tasks that a slice returns, so that it takes a few milliseconds. */
const SLICE_LENGTH = 1000;

/** What {@link select} reads: messages, or rows. */
type Table = Pick<TaskReads, 'search'> & Partial<Pick<TaskReads, 'failures'>>;

async function searchIn(table: Table, { cause, ...filter }: Filter, after: Position | undefined, limit: number) {
  if (cause === undefined || table.failures === undefined) return table.search(filter, after, limit);
  const { found, next } = await table.failures(filter, after, limit);
  return { found: found.filter(({ reason }) => causeOf(reason) === cause), next };
}

/**
 * Returns the tasks that match, in the order of the table's search.
 *
 * @param turn awaited before each slice, so that other requests have their turn
 */
export async function select(
  table: Table,
  filter: Filter,
  turn: () => Promise<unknown>,
  { limit = Number.POSITIVE_INFINITY, after }: { limit?: number; after?: Position | undefined } = {},
): Promise<Found[]> {
  const all: Found[] = [];
  do {
    await turn();
    const rest = Math.min(limit - all.length, SLICE_LENGTH);
    const page: SearchPage = await searchIn(table, filter, after, rest);
    for (const each of page.found) all.push(each);
    after = page.next;
  } while (after !== undefined && all.length < limit);
  return all;
}

/** Groups the dead letters that match by their causes. @param now milliseconds since the epoch */
export async function causesOf(
  reads: TaskReads,
  filter: Filter,
  now: number,
  turn: () => Promise<unknown>,
): Promise<Causes> {
  const causes = new Causes(now);
  let after: Position | undefined;
  do {
    await turn();
    const page = await reads.failures(filter, after, SLICE_LENGTH);
    for (const failure of page.found)
      if (filter.cause === undefined || causeOf(failure.reason) === filter.cause) causes.add(failure);
    after = page.next;
  } while (after !== undefined);
  return causes;
}

/**
 * Counts the messages of each action in each state, up to 100,000 of them.
 *
 * @param actions by name, with further fields. `other` stands for all that are not named
 */
export async function countActions(reads: TaskReads, actions: Map<string, object>, turn: () => Promise<unknown>) {
  const none = { queued: 0, limited: 0, scheduled: 0, retrying: 0, in_flight: 0, failed: 0 };
  const counts = new Map([...actions].map(([action, fields]) => [action, { action, ...none, ...fields }]));
  let after: Position | undefined;
  let slices = 0;
  do {
    await turn();
    const { found, next } = await reads.countActions(after);
    for (const { action, state, count } of found) {
      const counted = counts.get(action ?? 'other') ?? counts.get('other');
      const name = state === 'waiting' ? 'queued' : state === 'running' ? 'in_flight' : state;
      if (counted !== undefined) counted[name] += count;
    }
    after = next;
    slices += 1;
  } while (after !== undefined && slices < MAX_SLICES);
  return { counts: [...counts.values()], isExact: after === undefined };
}

/** Position in each table: empty for the start, null if the table is not read. */
export type Cursor = readonly (Position | null)[];

const START: Cursor = [[], []];

export interface SearchResult {
  found: Found[];
  /** Number of all tasks that match and were read: a lower bound unless `isExact`. */
  count: number;
  isExact: boolean;
  /** Where the next page begins. Undefined if there is none. */
  next: Cursor | undefined;
}

/** A task, or only the position up to which a slice was read. */
interface Read {
  position: Position;
  found?: Found;
}

interface Source {
  /** Position of the last task that was used. */
  position: Position | null;
  reads: AsyncGenerator<Read, undefined>;
  /** First read that was not used. Undefined at the end. */
  head: Read | undefined;
}

/**
 * Returns up to `limit` tasks after a cursor, the last accepted first if they are in several tables. If `isCounted`, it also
 * counts further ones, up to {@link MAX_TOTAL}. The number of tasks that it reads has a bound, so a page may have fewer than `limit` although
 * there is a next one.
 */
export async function search(
  reads: TaskReads,
  filter: Filter,
  { cursor, limit, isCounted }: { cursor: Cursor | undefined; limit: number; isCounted: boolean },
  turn: () => Promise<unknown>,
): Promise<SearchResult> {
  const most = isCounted ? MAX_TOTAL : limit;
  let slices = 0;
  async function* read(table: (after: Position | undefined) => SearchPage | Promise<SearchPage>, start: Position) {
    for (let after = start; ; ) {
      await turn();
      const { found, next } = await table(after.length === 0 ? undefined : after);
      if (found.length < SLICE_LENGTH) slices += 1;
      for (const each of found) yield { position: each.position, found: each };
      if (next === undefined) return undefined;
      yield { position: next };
      after = next;
    }
  }
  const { state, schedule, reasons } = filter;
  const hasRows = (state ?? 'completed') === 'completed' && schedule === undefined && reasons === undefined;
  const tables = [
    state !== 'completed' && ((after?: Position) => searchIn(reads, filter, after, SLICE_LENGTH)),
    hasRows && ((after?: Position) => reads.rows.search(filter, after, SLICE_LENGTH)),
  ];
  const sources = tables.map((table, index): Source => {
    const start = table ? ((cursor ?? START)[index] ?? []) : null;
    return { position: start, reads: read(table as never, start ?? []), head: undefined };
  });
  const [messages, rows] = sources as [Source, Source];
  const advance = async (source: Source) => {
    source.head = (await source.reads.next()).value;
  };
  for (const source of sources) if (source.position !== null) await advance(source);

  const found: Found[] = [];
  /** Ids of the tasks that count, at most `most`, because a message may become a row during the search. */
  const seen = new Set<string>();
  /** Last message that was used. Its row should not be listed again if it is completed before the next page. */
  let message: Found | undefined;
  const positions = (): Cursor => {
    const at = message && rowPosition(message);
    const isBetween = at && rows.position && isAfter(at, rows.position) && isAfter(rows.head?.position ?? [], at);
    return [messages.position, isBetween ? at : rows.position];
  };
  let [count, next] = [0, undefined as Cursor | undefined];
  for (;;) {
    const [first] = sources.filter(({ head }) => head !== undefined).sort(inOrder);
    if (first?.head === undefined)
      return { found, count, isExact: true, next: count > found.length ? next : undefined };
    const isOver = first.head.found === undefined ? slices >= MAX_SLICES : count === most;
    if (isOver) return { found, count, isExact: false, next: found.length < limit ? positions() : next };
    first.position = first.head.position;
    if (first.head.found !== undefined && !seen.has(first.head.found.id)) {
      seen.add(first.head.found.id);
      count += 1;
      if (first === messages) message = first.head.found;
      if (found.length < limit) next = found.push(first.head.found) === limit ? positions() : undefined;
    }
    await advance(first);
  }
}

/** Returns the position of the row that a message may become. */
function rowPosition({ position, arrival, acceptedAt = 0 }: Found): Position {
  return typeof position[0] === 'string' ? position : [Math.floor(acceptedAt / 1000), arrival];
}

/** Whether a position follows another one in the table of rows. An empty position is the end, or the start. */
function isAfter(one: Position, other: Position): boolean {
  const at = one.findIndex((value, index) => value !== other[index]);
  const [first, second] = [one[at], other[at]];
  if (first === undefined || second === undefined) return one.length !== other.length;
  return (typeof first === 'string') === first > second;
}

/** Orders positions by id, or otherwise the last accepted first. */
function inOrder({ head: one }: Source, { head: other }: Source): number {
  const [first, second] = [one?.position.at(-1) ?? 0, other?.position.at(-1) ?? 0];
  return (typeof first === 'string') === first < second ? -1 : 1;
}

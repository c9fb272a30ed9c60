import { readHistory } from './attempt-history.ts';
import { FAILURE, type SearchDialect, type SearchSteps, searchMessages, searchRows } from './search.ts';
import {
  type Awaitable,
  andThen,
  defined,
  type Position,
  type Read,
  type RowParts,
  rowColumns,
  type SearchFilter,
  type SearchPage,
  type Stored,
  type TaskRows,
} from './task-rows.ts';
import type { ActionCount, FoundFailure, FoundTask, StoredMessage, TaskReads } from './task-store.ts';

/**
 * @param readQueue reads the tables of the queue
 * @param readRows reads the other tables
 */
export function taskReads(dialect: SearchDialect, readQueue: Read, readRows: Read = readQueue): TaskReads {
  const { decodeName } = dialect;
  const readMessages = (body: string) =>
    readerById<StoredRow>(dialect, readQueue, 'messages', `${body}, ${MESSAGE} ${dialect.messageColumns}`);
  const readWhole = readMessages('body');
  const readCut = readMessages('substr(body, 1, $2) AS body');
  const actionOf = (action: string | null) => (action === null ? null : decodeName(action));
  const rows = taskRows(dialect, readRows);
  const read = (ids: readonly string[], bodyLength?: number): Awaitable<readonly StoredMessage[]> => {
    const stored = bodyLength === undefined ? readWhole(ids) : readCut(ids, bodyLength);
    return andThen(stored, (found) => found.map((row) => messageOf(row, dialect)));
  };
  const search = (filter: SearchFilter, after: Position | undefined, limit: number, more?: string) =>
    runSearch(readQueue, searchMessages(dialect, filter, after, limit, more));
  return {
    rows,
    search,
    read,
    failures: (filter, after, limit) =>
      andThen(search({ ...filter, state: 'failed' }, after, limit, FAILURE), (page): SearchPage<FoundFailure> => {
        const found = (page.found as FoundFailure[]).map((each) => ({ ...each, action: actionOf(each.action) }));
        return { ...page, found };
      }),
    countActions(after) {
      const steps = searchMessages(dialect, {}, after, 0, '', 'action, state');
      return andThen(runSearch(readQueue, steps), ({ found, next }) => {
        const counts = found as unknown as ActionCount[];
        return { found: counts.map((each) => ({ ...each, action: actionOf(each.action) })), next };
      });
    },
    // The message first, because a row is written when its message is deleted or later.
    find: (id) =>
      andThen(read([id]), ([message]): Awaitable<FoundTask | undefined> => {
        return message ? { message } : andThen(rows.find(id, 'detailed'), (row) => row && { row });
      }),
    pausedAt: () =>
      andThen(
        readQueue<{ at: number | null }>('SELECT paused_at AS at FROM queue_state'),
        ([state]) => state?.at ?? undefined,
      ),
    readHistory: (id) =>
      andThen(
        readRows<{ history: string }>('SELECT history FROM queue_history WHERE id = $1', [id]),
        ([row]) => row?.history,
      ),
  };
}

interface PositionRow {
  id: string;
  created_at: number;
  arrival: number;
}

function taskRows(dialect: SearchDialect, read: Read): TaskRows {
  const readerOf = <Row extends { id: string }>(columns: string) => readerById<Row>(dialect, read, 'tasks', columns);
  const readers: { [Part in keyof RowParts]: Reader<RowParts[Part]> } = {
    whole: readerOf(rowColumns.whole),
    detailed: readerOf(rowColumns.detailed),
    summary: readerOf(rowColumns.summary),
  };
  const readPosition = readerOf<PositionRow>(`id, created_at, ${dialect.rowArrival} AS arrival`);
  return {
    read: (ids, part) => readers[part](ids),
    find: <Part extends keyof RowParts = 'whole'>(id: string, part = 'whole' as Part) =>
      andThen(readers[part]([id]), ([row]) => row),
    position: (id) => andThen(readPosition([id]), ([row]) => row && [row.created_at, row.arrival]),
    search: (filter, after, limit) => runSearch(read, searchRows(dialect, filter, after, limit)),
  };
}

/** Returns the statements that read columns of a table by one id, and by a list of ids. */
export function statementsById({ among }: Pick<SearchDialect, 'among'>, columns: string, table: string) {
  const select = `SELECT ${columns} FROM ${table} WHERE`;
  return { one: `${select} id = $1`, several: `${select} ${among('id', '$1')}` };
}

type Reader<Row> = (ids: readonly string[], ...values: unknown[]) => Awaitable<readonly Row[]>;

/**
 * Returns a function that reads the records with these ids that exist, in this order. Its further arguments are the values
 * of the parameters from `$2` in `columns`.
 */
function readerById<Row extends { id: string }>(
  dialect: SearchDialect,
  read: Read,
  table: 'messages' | 'tasks',
  columns: string,
): Reader<Row> {
  const { list, plain } = dialect;
  const { one, several } = statementsById(dialect, columns, table);
  return (ids, ...values) => {
    const [id] = ids;
    if (id !== undefined && ids.length === 1) return read<Row>(one, [plain(id), ...values]);
    return andThen(read<Row>(several, [list(ids.map(plain)), ...values]), (rows) => {
      const byId = new Map(rows.map((row) => [row.id, row]));
      return ids.flatMap((each) => byId.get(each) ?? []);
    });
  };
}

function runSearch(read: Read, steps: SearchSteps, rows: readonly unknown[] = []): Awaitable<SearchPage> {
  const step = steps.next([...rows]);
  return step.done ? step.value : andThen(read(...step.value), (found) => runSearch(read, steps, found));
}

const MESSAGE = `arrival, id, action, octet_length(body) AS "bodyBytes", state, priority,
  limit_key AS "limitKey", place, run_at AS "runAt", accepted_at AS "acceptedAt", attempts, reason, history,
  permanent AS "isPermanent", failed_at AS "failedAt", submitter, schedule, traceparent, callback_url AS "callbackUrl"`;

type PlainFields = Omit<
  StoredMessage,
  'action' | 'limitKey' | 'reason' | 'history' | 'limitedBy' | 'isPermanent' | 'progress'
>;

interface StoredRow extends Stored<PlainFields> {
  action: string | null;
  limitKey: string | null;
  place: number | null;
  reason: string | null;
  history: string | null;
  isPermanent: boolean | number;
  progress?: string | null;
}

function messageOf(stored: StoredRow, { decodeName }: SearchDialect): StoredMessage {
  const { action, limitKey, place, reason, history, isPermanent, progress, ...row } = stored;
  return {
    ...defined<PlainFields>(row),
    action: action === null ? undefined : decodeName(action),
    limitKey: limitKey ? decodeName(limitKey) : undefined,
    reason,
    limitedBy: row.state === 'limited' ? (place === 1 ? 'action' : 'key') : undefined,
    startedAt: row.startedAt ?? undefined,
    history: readHistory(history),
    isPermanent: Boolean(isPermanent),
    progress: progress ? JSON.parse(progress) : undefined,
  };
}

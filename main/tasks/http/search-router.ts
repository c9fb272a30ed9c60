import { UnknownPosition } from '../../../db/search.ts';
import { LISTING_SIZE, type Position, SUMMARY_LENGTH } from '../../../db/task-rows.ts';
import { serverBusy } from '../../http/errors.ts';
import { invalidParameter, queryParameters } from '../../http/exact-router.ts';
import { replyWithin } from '../../http/json-reply.ts';
import { limitsOf } from '../limits.ts';
import { type Cursor, search } from '../search.ts';
import { LISTING_COST, slicesOf, summaryOf } from './listing.ts';
import { inView, query, type RouterOptions, type Routes } from './routing.ts';
import { FILTERS, filterOf } from './selection.ts';
import { failedTaskSummary, listedTask } from './task-status.ts';

export function searchRoutes(options: RouterOptions): Routes {
  const { queue, turns, responses } = options;
  return {
    '/tasks/search': {
      GET: inView('read', async (ctx, view) => {
        const names = ['cursor', 'limit', 'total', 'state', 'cause', ...FILTERS] as const;
        const { cursor, limit, total, ...fields } = queryParameters(ctx, ...names);
        if (total !== undefined && total !== '0') throw invalidParameter('total', 'must be 0');
        const isCounted = cursor === undefined && total === undefined;
        const page = { cursor: cursorOf(cursor), limit: limitOf(limit), isCounted };
        const turn = () => turns.enter(LISTING_COST, ctx.res);
        const filter = { ...filterOf(fields), view };
        const result = await query(() => search(queue.store.reads, filter, page, turn).catch(refuseCursor));
        const tasks: object[] = [];
        for (const { ids, bytes } of slicesOf(result.found)) {
          await turns.enter(bytes, ctx.res);
          tasks.push(...(await query(() => read(ids, options))));
        }
        const counts = isCounted ? { total: result.count, total_is_exact: result.isExact } : {};
        const next = result.next && Buffer.from(JSON.stringify(result.next)).toString('base64url');
        if (!replyWithin(responses, ctx, { tasks, count: tasks.length, ...counts, next_cursor: next ?? null }))
          throw serverBusy();
      }),
    },
  };
}

/** Returns the tasks with these ids that still exist. One of them may have been completed since it was found. */
async function read(ids: readonly string[], { queue }: RouterOptions): Promise<object[]> {
  const messages = await queue.read(ids, SUMMARY_LENGTH);
  const limited = messages.filter(({ state }) => state === 'limited');
  const limits = await limitsOf(queue.store, limited);
  const listed = messages.map((message) => {
    if (message.state === 'failed') return [message.id, failedTaskSummary(message)] as const;
    return [message.id, listedTask(message, limits[limited.indexOf(message)])] as const;
  });
  const shown = new Map<string, object>(listed);
  const others = ids.filter((id) => !shown.has(id));
  for (const row of await queue.store.reads.rows.read(others, 'summary')) shown.set(row.id, summaryOf(row));
  return ids.flatMap((id) => shown.get(id) ?? []);
}

function limitOf(limit = `${LISTING_SIZE}`): number {
  if (!/^\d{1,3}$/.test(limit) || Number(limit) > LISTING_SIZE)
    throw invalidParameter('limit', `must be a whole number from 0 to ${LISTING_SIZE}`);
  return Number(limit);
}

function cursorOf(text: string | undefined): Cursor | undefined {
  if (text === undefined) return undefined;
  try {
    const cursor: unknown = JSON.parse(Buffer.from(text, 'base64url').toString());
    if (Array.isArray(cursor) && cursor.length === 2 && cursor.every(isPosition)) return cursor;
  } catch {
    // Refused below.
  }
  return refuseCursor(new UnknownPosition());
}

function refuseCursor(error: unknown): never {
  if (!(error instanceof UnknownPosition)) throw error;
  throw invalidParameter('cursor', 'must be the next_cursor of the same search');
}

function isPosition(position: unknown): position is Position | null {
  const isKey = (key: unknown) => Number.isSafeInteger(key) || typeof key === 'string';
  return position === null || (Array.isArray(position) && position.every(isKey));
}

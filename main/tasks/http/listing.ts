import type { ParameterizedContext } from 'koa';
import { isFilterable, LISTING_SIZE, type TaskRow, type TaskSummary, type TaskView } from '../../../db/task-rows.ts';
import type { Located } from '../../../db/task-store.ts';
import { actionStart } from '../../../workers/submissions/parse-submission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { isSummary, queryParameters } from '../../http/exact-router.ts';
import { replyListing, replyWithin } from '../../http/json-reply.ts';
import { TURN_BYTES } from '../../http/turn-limit.ts';
import { select } from '../search.ts';
import { seesFound } from './access.ts';
import { query, type RouterOptions } from './routing.ts';

/** Cost that allows one listing per event loop turn, because a listing can read many rows or messages. */
export const LISTING_COST = TURN_BYTES;

/** Estimated maximum size of a shortened item. */
const SUMMARY_BYTES = 8 * 1024;

/** Size of a listing above which its items are read one at a time, to limit the memory in use. */
const READ_SINGLY_FROM_BYTES = 1024 * 1024;

export interface Listing {
  name: string;
  located: readonly Located[];
  isShort: boolean;
  /** Returns the items with these ids that still exist. */
  read(ids: readonly string[]): Promise<readonly object[]>;
}

/** Responds to `GET /tasks` with the newest rows that match the query parameters. */
export async function replyTasks(ctx: ParameterizedContext, options: RouterOptions, view?: TaskView): Promise<void> {
  const { rows } = options.queue.store.reads;
  const { status, action, before: id, summary } = queryParameters(ctx, 'status', 'action', 'before', 'summary');
  const isShort = isSummary(summary);
  if (action !== undefined && !isFilterable(action)) throw new HttpError('actionTooLong');
  // No index has the actions of a view.
  if (view !== undefined && action !== undefined) throw new HttpError('actionNotAllowed');
  const after = id === undefined ? undefined : await query(() => rows.position(id));
  // A task outside of the view must not differ from one that does not exist.
  const row = after && view && (await query(() => rows.find(id ?? '', 'detailed')));
  const isInView = view === undefined || (row && seesFound(view, { row }));
  if (id !== undefined && !(after && isInView)) throw new HttpError('beforeUnknown');
  const turn = () => options.turns.enter(LISTING_COST, ctx.res);
  const page = { limit: LISTING_SIZE, after };
  const part = isShort ? 'summary' : 'whole';
  const shown = (row: TaskRow | TaskSummary) => ('head' in row ? summaryOf(row) : row);
  const read = async (ids: readonly string[]) => (await query(() => rows.read(ids, part))).map(shown);
  // A failed task has no row.
  if (status === 'failed') ctx.set('Link', '</dead-letters>; rel="related"');
  const located = await query(() => select(rows, { status, action, view }, turn, page));
  await replyLocated(ctx, { name: 'tasks', located, isShort, read }, options);
}

export function summaryOf({ id, head, ...row }: TaskSummary): object {
  return { id, action: actionStart(head) ?? null, ...row };
}

/** Responds with a listing: at once if its items are small, and otherwise one item at a time. */
export async function replyLocated(ctx: ParameterizedContext, listing: Listing, { turns, responses }: RouterOptions) {
  const { name, located, isShort, read } = listing;
  if (located.reduce((sum, { bytes }) => sum + bytes, 0) <= READ_SINGLY_FROM_BYTES) {
    const items = await read(located.map(({ id }) => id));
    if (!replyWithin(responses, ctx, { [name]: items, count: items.length })) throw serverBusy();
    return;
  }
  // The cost is the size of the whole item, because a database reads the whole item even to return its start.
  const most = isShort ? SUMMARY_BYTES : Number.POSITIVE_INFINITY;
  const items = located.map(({ id, bytes }) => ({ id, cost: bytes, bytes: Math.min(bytes, most) }));
  await replyListing(ctx, name, items, responses, async ({ id, cost }) => {
    await turns.enter(cost);
    return (await read([id]))[0];
  });
}

/** Splits a listing into slices that can each be read in one event loop turn. */
export function* slicesOf(located: readonly Located[]): Generator<{ ids: string[]; bytes: number }> {
  let slice = { ids: [] as string[], bytes: 0 };
  for (const { id, bytes } of located) {
    if (slice.ids.length > 0 && slice.bytes + bytes > TURN_BYTES) {
      yield slice;
      slice = { ids: [], bytes: 0 };
    }
    slice.ids.push(id);
    slice.bytes += bytes;
  }
  if (slice.ids.length > 0) yield slice;
}

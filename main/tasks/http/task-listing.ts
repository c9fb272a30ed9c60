import type { ParameterizedContext } from 'koa';
import { DatabaseUnavailable } from '../../../db/sqlite/database.ts';
import type { TaskSummary } from '../../../db/sqlite/tasks.ts';
import { isFilterable, type TaskFilter } from '../../../db/task-filter.ts';
import { actionStart } from '../../../workers/parse-submission.ts';
import type { Awaitable } from '../../awaitable.ts';
import { TURN_BYTES } from '../../http/admission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { replyListing, replyWithin } from '../../http/json-reply.ts';
import type { TasksRouterOptions } from './app.ts';

/** Size of a listing above which its rows are read one at a time, to limit the memory in use. */
const READ_SINGLY_FROM_BYTES = 1024 * 1024;

const LISTING_COST = TURN_BYTES;

const ESTIMATED_SUMMARY_BYTES = 6 * 1024;

type ListingOptions = Pick<TasksRouterOptions, 'tasks' | 'admission' | 'responses'>;

/** Responds to `GET /tasks` with the newest rows that match the query parameters. */
export async function replyTasks(ctx: ParameterizedContext, options: ListingOptions): Promise<void> {
  const { tasks, admission } = options;
  const isSummary = once(ctx, 'summary', 'summaryGivenTwice') === '1';
  const status = once(ctx, 'status', 'statusGivenTwice');
  const action = once(ctx, 'action', 'actionGivenTwice');
  if (action !== undefined && !isFilterable(action)) throw new HttpError('actionTooLong');
  const id = once(ctx, 'before', 'beforeGivenTwice');
  await admission.enter(LISTING_COST);
  const before = id === undefined ? undefined : await query(() => tasks.position(id));
  if (id !== undefined && before === undefined) throw new HttpError('beforeUnknown');
  await (isSummary ? replySummaries : replyRows)(ctx, { status, action, before }, options);
}

async function replyRows(ctx: ParameterizedContext, filter: TaskFilter, options: ListingOptions): Promise<void> {
  const { tasks, admission, responses } = options;
  const located = await query(() => tasks.locate(filter));
  if (located.reduce((sum, { bytes }) => sum + bytes, 0) > READ_SINGLY_FROM_BYTES) {
    await replyListing(ctx, 'tasks', located, {
      budget: responses,
      bytes: ({ bytes }) => bytes,
      admit: (bytes) => admission.enter(bytes),
      read: ({ id }) => query(() => tasks.find(id)),
    });
  } else {
    const rows = await query(() => tasks.list(filter));
    if (!replyWithin(responses, ctx, { tasks: rows, count: rows.length })) throw serverBusy();
  }
}

async function replySummaries(ctx: ParameterizedContext, filter: TaskFilter, options: ListingOptions): Promise<void> {
  const { tasks, admission, responses } = options;
  const located = await query(() => tasks.locate(filter));
  if (located.reduce((sum, { bytes }) => sum + bytes, 0) > READ_SINGLY_FROM_BYTES) {
    await replyListing(ctx, 'tasks', located, {
      budget: responses,
      bytes: () => ESTIMATED_SUMMARY_BYTES,
      admit: () => Promise.resolve(),
      // Admits the size of the whole row, because SQLite reads the whole row even to return the start of its columns.
      read: async ({ id, bytes }) => {
        await admission.enter(bytes);
        const summary = await query(() => tasks.findSummary(id));
        return summary && summaryOf(summary);
      },
    });
  } else {
    const rows = (await query(() => tasks.summarize(filter))).map(summaryOf);
    if (!replyWithin(responses, ctx, { tasks: rows, count: rows.length })) throw serverBusy();
  }
}

function summaryOf({ head, ...row }: TaskSummary): object {
  const { id, status, payload, payload_bytes, result, result_bytes, created_at, processed_at } = row;
  const action = actionStart(head) ?? null;
  return { id, action, status, payload, payload_bytes, result, result_bytes, created_at, processed_at };
}

function once(
  ctx: ParameterizedContext,
  name: string,
  repeated: 'statusGivenTwice' | 'actionGivenTwice' | 'beforeGivenTwice' | 'summaryGivenTwice',
): string | undefined {
  const value = ctx.query[name];
  if (Array.isArray(value)) throw new HttpError(repeated);
  return value;
}

/** Runs a query on the task rows. @throws {HttpError} `database unavailable` or `query failed` */
export async function query<T>(run: () => Awaitable<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'queryFailed', { cause });
  }
}

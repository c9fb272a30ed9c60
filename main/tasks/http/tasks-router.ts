import type { ServerResponse } from 'node:http';
import type { TaskView } from '../../../db/task-rows.ts';
import type { FoundTask, Published } from '../../../db/task-store.ts';
import { builtInActions } from '../../../workers/tasks/actions.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import { withBody } from '../../http/request-body.ts';
import { TURN_BYTES } from '../../http/turn-limit.ts';
import { limitsOf } from '../limits.ts';
import { sees, seesFound } from './access.ts';
import { replyTasks } from './listing.ts';
import { invalidBatch, preferredWait, prepare, prepareBatch } from './prepare-submission.ts';
import { ask, authorized, failedToQueue, inView, query, type RouterOptions, type Routes } from './routing.ts';
import { FILTERS, readSelection } from './selection.ts';
import { completedTask, replyQueued, unfinishedTask } from './task-status.ts';

/** Cost that allows four submissions per event loop turn, so that the processing of tasks nearly keeps up. */
const SUBMISSION_COST = Math.ceil(TURN_BYTES / 4);
/** Factor from the size of a submission to its cost, because parsing deep nesting or many keys is slow. */
const PARSING_COST = 4;
const KEY_REUSED = 'idempotencyKeyReused' as const;

/** Cost of reading a task. Fixed, because the size of the task is not known in advance. */
const TASK_COST = TURN_BYTES / 8;
/** Interval at which the wait for a task of a shared queue reads it, because an event of another node may be missed. */
const LOOK_MS = 1000;

export function tasksRoutes(options: RouterOptions): Routes {
  const { queue, bodies, turns, responses, rules, log } = options;
  // No minimum for a durable queue, because it stores all submissions of one event loop turn in a single transaction.
  const minCost = queue.store.isDurable ? 0 : SUBMISSION_COST;
  return {
    '/tasks': {
      GET: inView('read', (ctx, view) => replyTasks(ctx, options, view)),
      POST: inView('create', async (ctx, view) => {
        const { message, key } = await withBody(ctx.req, bodies, async (body) => {
          await turns.enter(Math.max(body.length * PARSING_COST, minCost));
          return prepare(body, ctx.req.headers, ctx.state.actor?.userId, options);
        });
        if (!sees(view, message)) throw new HttpError('actionNotAllowed');
        const { id } = await queue.publish(message, key).catch((cause) => failedToQueue(cause, queue));
        const waitSeconds = preferredWait(ctx.req.headers);
        if (waitSeconds > 0) await untilEnd(options, id, waitSeconds, ctx.res);
        const found = waitSeconds > 0 ? await find(options, id, ctx.res).catch(() => undefined) : undefined;
        const task = found && hasEnded(found) ? await shown(found, options) : undefined;
        const headers = { Location: `/tasks/${id}`, 'Preference-Applied': `wait=${waitSeconds}` };
        if (task === undefined || !replyWithin(responses, ctx, task, headers)) replyQueued(ctx, id);
      }),
    },
    '/tasks/batch': {
      POST: inView('create', async (ctx, view) => {
        const submissions = await withBody(ctx.req, bodies, async (body) => {
          await turns.enter(Math.max(body.length * PARSING_COST, TURN_BYTES));
          return prepareBatch(body, ctx.req.headers, ctx.state.actor?.userId, options);
        });
        if (!submissions.every(({ message }) => sees(view, message))) throw new HttpError('actionNotAllowed');
        const results = await queue.publishAll(submissions).catch((cause) => failedToQueue(cause, queue));
        const reused = results.flatMap((each, index) => (each instanceof Error ? { index, error: KEY_REUSED } : []));
        if (reused.length > 0) throw invalidBatch(reused);
        const tasks = results.map((each) => ({ id: (each as Published).id, status: 'queued' }));
        replyJson(ctx, 202, { tasks });
      }),
    },
    '/tasks/cancel': {
      POST: authorized('delete', 'task', async (ctx) => {
        const { selected } = await readSelection(ctx.req, options, 'state', ...FILTERS);
        const { cause, ...counts } = await ask(() => queue.cancelAll(selected));
        if (cause !== undefined) log.error({ err: cause, ...counts }, 'a bulk cancellation stopped on the way');
        replyJson(ctx, 200, counts);
      }),
    },
    '/tasks/:id': {
      GET: inView('read', async (ctx, view) => {
        const { id = '' } = ctx.params;
        const waitSeconds = preferredWait(ctx.req.headers);
        let found = await findInView(options, id, ctx.res, view);
        if (waitSeconds > 0 && !hasEnded(found)) {
          await untilEnd(options, id, waitSeconds, ctx.res);
          found = await findInView(options, id, ctx.res, view);
        }
        const headers = waitSeconds > 0 ? { 'Preference-Applied': `wait=${waitSeconds}` } : {};
        if (!replyWithin(responses, ctx, await shown(found, options), headers)) throw serverBusy();
      }),
      DELETE: inView('delete', async (ctx, view) => {
        const { id = '' } = ctx.params;
        if (view !== undefined) await findInView(options, id, ctx.res, view);
        const cancelled = await ask(() => queue.cancel(id));
        if (cancelled === 'requested') return replyJson(ctx, 202, { id, status: 'cancelling' });
        if (cancelled === 'ended') throw new HttpError('taskFinished');
        if (cancelled === undefined) throw new HttpError('taskNotFound');
        ctx.status = 204;
      }),
    },
    '/tasks/:id/run': {
      POST: authorized('create', 'task', async (ctx) => {
        const { id = '' } = ctx.params;
        const outcome = await ask(() => queue.runNow(id));
        if (outcome === 'ended') throw new HttpError('taskFinished');
        if (outcome === undefined) throw new HttpError('taskNotFound');
        replyQueued(ctx, id, outcome === 'running' ? 'running' : 'queued');
      }),
    },
    '/actions': {
      GET: authorized('read', 'action', (ctx) => {
        const { actions, rejectUnknown } = rules;
        const names = new Set([...builtInActions, ...actions.keys()]);
        const listed = [...names].map((name) => ({ name, schema: actions.get(name)?.schema }));
        replyJson(ctx, 200, { actions: listed, unknown_actions: rejectUnknown ? 'reject' : 'process' });
      }),
    },
  };
}

/** Reads a task's row, or its message. @throws {HttpError} if the task cannot be read */
async function find({ queue, turns }: RouterOptions, id: string, response: ServerResponse) {
  await turns.enter(TASK_COST, response);
  return query(() => queue.find(id));
}

/** Like `find`. @throws {HttpError} 404 if the task is unknown or not in the view */
export async function findInView(options: RouterOptions, id = '', response: ServerResponse, view?: TaskView) {
  const found = await find(options, id, response);
  if (found === undefined || !seesFound(view, found)) throw new HttpError('taskNotFound');
  return found;
}

async function shown(found: FoundTask, { queue }: RouterOptions): Promise<object> {
  if ('row' in found) return completedTask(found.row);
  const { message } = found;
  const [limit] = message.state === 'limited' ? await query(() => limitsOf(queue.store, [message])) : [];
  return { ...unfinishedTask(message), limit };
}

function hasEnded(found: FoundTask): boolean {
  return 'row' in found || found.message.state === 'failed';
}

/** Waits until a task ends, `seconds` pass, the client disconnects or the task cannot be read. */
async function untilEnd(options: RouterOptions, id: string, seconds: number, response: ServerResponse): Promise<void> {
  const { queue, events, turns, clock } = options;
  const waitMs = seconds * 1000;
  const over = new AbortController();
  const end = () => over.abort();
  response.once('close', end);
  const removeListener = events.onEnd(id, end);
  const cancelTimer = clock.timer(waitMs, end);
  const isOver = async () => {
    await turns.enter(TASK_COST);
    return queue.read([id], 1).then(
      ([message]) => message === undefined || message.state === 'failed',
      () => false,
    );
  };
  // The first look is for a task that ended before its event was listened to, or a client that has left already.
  while (!over.signal.aborted && !response.closed && !(await isOver())) {
    await clock.sleep(queue.store.isShared ? LOOK_MS : waitMs, over.signal);
  }
  cancelTimer();
  removeListener();
  response.off('close', end);
}

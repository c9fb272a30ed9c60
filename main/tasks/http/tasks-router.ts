import type { ServerResponse } from 'node:http';
import type Router from '@koa/router';
import { DatabaseUnavailable } from '../../../db/sqlite/database.ts';
import type { TaskRecord } from '../../../db/sqlite/tasks.ts';
import type { Awaitable } from '../../awaitable.ts';
import { TURN_BYTES } from '../../http/admission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { exactRouter, refuseOtherMethods } from '../../http/exact-router.ts';
import { withBody } from '../../http/json-body.ts';
import { replyListing, replyWithin } from '../../http/json-reply.ts';
import type { Progress } from '../queue/queue.ts';
import { type AccessState, authorize } from './access.ts';
import type { TasksRouterOptions } from './app.ts';
import { failedToQueue, replyQueued } from './queue-router.ts';
import { preferredWait, prepare } from './submission.ts';
import { unfinishedTask } from './task-status.ts';

/** Size of the rows of a listing above which the rows are streamed one by one instead of loaded together. */
const STREAM_FROM_BYTES = 1024 * 1024;

/** Minimum admission cost of a submission to a memory queue. Admits five per event loop turn, as many as tasks complete in a turn. */
const SUBMISSION_COST = Math.ceil(TURN_BYTES / 5);
/** Admission cost per byte of a submission. Bodies with many keys or levels take 0.2 ms per KiB to parse, ten times the usual. */
const PARSING_COST = 4;
const LISTING_COST = TURN_BYTES;
/** Admission cost of reading a row, whose size is unknown until it is read. */
const ROW_COST = TURN_BYTES / 8;

/** Routes `POST /tasks` and `GET /tasks` of the specification, and `GET /tasks/:id`. */
export function tasksRouter(options: TasksRouterOptions): Router<AccessState> {
  const { queue, tasks, events, bodies, submissions, admission, responses } = options;
  const router = exactRouter<AccessState>();
  // A durable queue writes all submissions of an event loop turn in one transaction, so as many as possible share a turn.
  const minCost = queue.durable ? 0 : SUBMISSION_COST;

  router.post('/tasks', async (ctx) => {
    authorize(ctx.state, 'create', 'task');
    const { message, key } = await withBody(ctx.req, bodies, async (body) => {
      await admission.enter(Math.max(body.length * PARSING_COST, minCost));
      return prepare(body, ctx.req.headers, ctx.state.actor?.userId, (large) => submissions.parse(large));
    });
    const id = await queue.publish(message, key).catch(failedToQueue);
    const waitSeconds = preferredWait(ctx.req.headers);
    const row = waitSeconds > 0 ? await rowWithin(id, waitSeconds, ctx.res) : undefined;
    const headers = { Location: `/tasks/${id}`, 'Preference-Applied': `wait=${waitSeconds}` };
    if (row === undefined || !replyWithin(responses, ctx, row, headers)) replyQueued(ctx, id);
  });

  router.get('/tasks', async (ctx) => {
    authorize(ctx.state, 'read', 'task');
    const { status } = ctx.query;
    if (Array.isArray(status)) throw new HttpError('statusGivenTwice');
    await admission.enter(LISTING_COST);
    const located = await query(() => tasks.locate(status));
    if (located.reduce((sum, { bytes }) => sum + bytes, 0) > STREAM_FROM_BYTES) {
      await replyListing(ctx, 'tasks', located, {
        budget: responses,
        bytes: ({ bytes }) => bytes,
        admit: (bytes) => admission.enter(bytes),
        read: ({ id }) => query(() => tasks.find(id)),
      });
    } else {
      const rows = await query(() => tasks.list(status));
      if (!replyWithin(responses, ctx, { tasks: rows, count: rows.length })) throw serverBusy();
    }
  });

  router.get('/tasks/:id', async (ctx) => {
    authorize(ctx.state, 'read', 'task');
    const { id = '' } = ctx.params;
    // Searches the queue before the rows. A task's row is stored before the task leaves the queue, so one of the two finds it.
    const progress = await queue.find(id).catch((cause: unknown) => new HttpError('queueUnavailable', { cause }));
    const row = await (progress === undefined ? query(() => findRow(id)) : storedRow(id));
    if (row === undefined && progress instanceof HttpError) throw progress;
    const task = row ?? (progress && unfinishedTask(id, progress as Progress));
    if (task === undefined) throw new HttpError('taskNotFound');
    if (!replyWithin(responses, ctx, task)) throw serverBusy();
  });

  /** Waits until a task has finished, `seconds` have passed or the client disconnects. @returns the task's row, if stored */
  async function rowWithin(id: string, seconds: number, response: ServerResponse): Promise<TaskRecord | undefined> {
    const controller = new AbortController();
    const cancel = () => controller.abort();
    response.once('close', cancel);
    const ended = events.ended(id, seconds * 1000, controller.signal);
    // The task of a reused idempotency key may have ended already. Searched after the call of `ended`, so that no event is missed.
    const hasEnded = await queue.find(id).then(
      (progress) => progress === undefined || progress.state === 'failed',
      () => false,
    );
    if (!hasEnded) await ended;
    response.off('close', cancel);
    controller.abort();
    return storedRow(id);
  }

  /** Returns a task's row, or undefined if rows cannot be read. The response then has the task's state in the queue. */
  function storedRow(id: string): Promise<TaskRecord | undefined> {
    return findRow(id).catch(() => undefined);
  }

  async function findRow(id: string): Promise<TaskRecord | undefined> {
    await admission.enter(ROW_COST);
    return tasks.find(id);
  }

  router.all('/tasks', refuseOtherMethods('GET', 'HEAD', 'POST'));
  router.all('/tasks/:id', refuseOtherMethods('GET', 'HEAD'));

  return router;
}

async function query<T>(run: () => Awaitable<T>): Promise<T> {
  try {
    return await run();
  } catch (cause) {
    throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'queryFailed', { cause });
  }
}

import type { ServerResponse } from 'node:http';
import type Router from '@koa/router';
import type { TaskRecord } from '../../../db/sqlite/tasks.ts';
import { TURN_BYTES } from '../../http/admission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { answerOtherMethods, exactRouter } from '../../http/exact-router.ts';
import { withBody } from '../../http/json-body.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import type { Progress } from '../queue/queue.ts';
import { type AccessState, authorize } from './access.ts';
import type { TasksRouterOptions } from './app.ts';
import { preferredWait, prepare } from './prepare-submission.ts';
import { failedToQueue, replyQueued, unavailable } from './queue-router.ts';
import { query, replyTasks } from './task-listing.ts';
import { unfinishedTask } from './task-status.ts';

/** Admission cost that allows four submissions per event loop turn, so that the processing of tasks nearly keeps up. */
const SUBMISSION_COST = Math.ceil(TURN_BYTES / 4);
/** Factor from the size of a submission to its admission cost, because parsing deep nesting or many keys is slow. */
const PARSING_COST = 4;
/** Admission cost of reading a task row. Fixed, because the size of the row is not known in advance. */
const ROW_COST = TURN_BYTES / 8;

/** Routes `GET` and `POST` for `/tasks`, and `GET` and `DELETE` for `/tasks/:id`. */
export function tasksRouter(options: TasksRouterOptions): Router<AccessState> {
  const { queue, tasks, events, bodies, submissions, admission, responses, check } = options;
  const router = exactRouter<AccessState>();
  // No minimum for a durable queue, because it stores all submissions of one event loop turn in a single transaction.
  const minAdmissionCost = queue.durable ? 0 : SUBMISSION_COST;

  router.post('/tasks', async (ctx) => {
    authorize(ctx.state, 'create', 'task');
    const { message, key } = await withBody(ctx.req, bodies, async (body) => {
      await admission.enter(Math.max(body.length * PARSING_COST, minAdmissionCost));
      return prepare(body, ctx.req.headers, ctx.state.actor?.userId, (own) => submissions.parse(own), check);
    });
    const id = await queue.publish(message, key).catch(failedToQueue);
    const waitSeconds = preferredWait(ctx.req.headers);
    const task = waitSeconds > 0 ? await endWithin(id, waitSeconds, ctx.res) : undefined;
    const headers = { Location: `/tasks/${id}`, 'Preference-Applied': `wait=${waitSeconds}` };
    if (task === undefined || !replyWithin(responses, ctx, task, headers)) replyQueued(ctx, id);
  });

  router.get('/tasks', async (ctx) => {
    authorize(ctx.state, 'read', 'task');
    await replyTasks(ctx, options);
  });

  router.get('/tasks/:id', async (ctx) => {
    authorize(ctx.state, 'read', 'task');
    const { id = '' } = ctx.params;
    // Searches the queue before the rows. A task leaves the queue only after its row is stored, so no task is missed.
    const progress = await queue.find(id).catch((cause: unknown) => new HttpError('queueUnavailable', { cause }));
    const row = await (progress === undefined ? query(() => findRow(id)) : storedRow(id));
    if (row === undefined && progress instanceof HttpError) throw progress;
    const task = row ?? (progress && unfinishedTask(id, progress as Progress));
    if (task === undefined) throw new HttpError('taskNotFound');
    if (!replyWithin(responses, ctx, task)) throw serverBusy();
  });

  router.delete('/tasks/:id', async (ctx) => {
    authorize(ctx.state, 'delete', 'task');
    const { id = '' } = ctx.params;
    // Looks up the row first, because a finished task can be in the queue again after a crash of the process.
    if ((await query(() => findRow(id))) !== undefined) throw new HttpError('taskFinished');
    const cancelled = await queue.cancel(id).catch(unavailable);
    if (cancelled === 'running') return replyJson(ctx, 202, { id, status: 'cancelling' });
    if (cancelled === undefined) throw new HttpError((await isFinished(id)) ? 'taskFinished' : 'taskNotFound');
    ctx.status = 204;
  });

  async function isFinished(id: string): Promise<boolean> {
    return (await query(() => findRow(id))) !== undefined || (await queue.find(id).catch(unavailable)) !== undefined;
  }

  /** Waits until the task ends, `seconds` pass or the client disconnects. Returns the task's row or dead letter. */
  async function endWithin(id: string, seconds: number, response: ServerResponse): Promise<object | undefined> {
    const { ended, cancel } = events.waitForEnd(id, seconds * 1000);
    response.once('close', cancel);
    // A repeated submission with an idempotency key returns the id of the earlier task, which may already have ended.
    const hasEnded = await queue.find(id).then(
      (progress) => progress === undefined || progress.state === 'failed',
      () => false,
    );
    if (hasEnded) cancel();
    await ended;
    response.off('close', cancel);
    const row = await storedRow(id);
    if (row !== undefined) return row;
    const progress = await queue.find(id).catch(() => undefined);
    return progress?.state === 'failed' ? unfinishedTask(id, progress) : undefined;
  }

  function storedRow(id: string): Promise<TaskRecord | undefined> {
    return findRow(id).catch(() => undefined);
  }

  async function findRow(id: string): Promise<TaskRecord | undefined> {
    await admission.enter(ROW_COST);
    return tasks.find(id);
  }

  router.all('/tasks', answerOtherMethods('GET', 'HEAD', 'POST'));
  router.all('/tasks/:id', answerOtherMethods('GET', 'HEAD', 'DELETE'));

  return router;
}

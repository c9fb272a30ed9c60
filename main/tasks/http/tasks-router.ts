import type Router from '@koa/router';
import { TURN_BYTES } from '../../http/admission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { answerOtherMethods, exactRouter } from '../../http/exact-router.ts';
import { withBody } from '../../http/json-body.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import { type AccessState, authorize } from './access.ts';
import type { TasksRouterOptions } from './app.ts';
import { preferredWait, prepare } from './prepare-submission.ts';
import { failedToQueue, replyQueued, unavailable } from './queue-router.ts';
import { replyTasks } from './task-listing.ts';
import { TaskLookup } from './task-lookup.ts';

/** Admission cost that allows four submissions per event loop turn, so that the processing of tasks nearly keeps up. */
const SUBMISSION_COST = Math.ceil(TURN_BYTES / 4);
/** Factor from the size of a submission to its admission cost, because parsing deep nesting or many keys is slow. */
const PARSING_COST = 4;

/** Routes `GET` and `POST` for `/tasks`, and `GET` and `DELETE` for `/tasks/:id`. */
export function tasksRouter(options: TasksRouterOptions): Router<AccessState> {
  const { queue, bodies, submissions, admission, responses, check } = options;
  const lookup = new TaskLookup(options);
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
    const task = waitSeconds > 0 ? await lookup.endWithin(id, waitSeconds, ctx.res) : undefined;
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
    const task = await lookup.find(id);
    if (task === undefined) throw new HttpError('taskNotFound');
    if (!replyWithin(responses, ctx, task)) throw serverBusy();
  });

  router.delete('/tasks/:id', async (ctx) => {
    authorize(ctx.state, 'delete', 'task');
    const { id = '' } = ctx.params;
    // Looks up the row first, because a finished task can be in the queue again after a crash of the process.
    if (await lookup.hasRow(id)) throw new HttpError('taskFinished');
    const cancelled = await queue.cancel(id).catch(unavailable);
    if (cancelled === 'running') return replyJson(ctx, 202, { id, status: 'cancelling' });
    if (cancelled === undefined) throw new HttpError((await lookup.isFinished(id)) ? 'taskFinished' : 'taskNotFound');
    ctx.status = 204;
  });

  router.all('/tasks', answerOtherMethods('GET', 'HEAD', 'POST'));
  router.all('/tasks/:id', answerOtherMethods('GET', 'HEAD', 'DELETE'));

  return router;
}

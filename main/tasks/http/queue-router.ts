import type Router from '@koa/router';
import type { ParameterizedContext } from 'koa';
import { HttpError } from '../../http/errors.ts';
import { exactRouter, refuseOtherMethods } from '../../http/exact-router.ts';
import { replyJson, replyListing } from '../../http/json-reply.ts';
import { KeyInUse, KeyReused, QueueFull } from '../queue/queue.ts';
import { type AccessState, authorize } from './access.ts';
import type { TasksRouterOptions } from './app.ts';
import { failedTask } from './task-status.ts';

/** Maximum number of dead letters in a listing, the same as for rows in `GET /tasks`. */
const LISTING_SIZE = 100;

/** Header that tells the client to retry after one second, sent if the queue is full or the idempotency key is in use. */
const RETRY_AFTER = { 'Retry-After': '1' };

/** Routes for the queue's pause (`/queue/pause`, `/queue/resume`) and dead letters (`/dead-letters`). */
export function queueRouter({ queue, admission, responses }: TasksRouterOptions): Router<AccessState> {
  const router = exactRouter<AccessState>();

  router.post('/queue/pause', async (ctx) => {
    authorize(ctx.state, 'update', 'queue');
    await queue.pause().catch(unavailable);
    replyJson(ctx, 200, { paused: true });
  });

  router.post('/queue/resume', async (ctx) => {
    authorize(ctx.state, 'update', 'queue');
    await queue.resume().catch(unavailable);
    replyJson(ctx, 200, { paused: false });
  });

  router.get('/dead-letters', async (ctx) => {
    authorize(ctx.state, 'read', 'dead_letter');
    const letters = await queue.newestDeadLetters(LISTING_SIZE).catch(unavailable);
    await replyListing(ctx, 'dead_letters', letters, {
      budget: responses,
      bytes: ({ bytes }) => bytes,
      admit: (bytes) => admission.enter(bytes),
      read: async (listed) => {
        const letter = await listed.read().catch(unavailable);
        return letter && failedTask(letter);
      },
    });
  });

  router.post('/dead-letters/:id/retry', async (ctx) => {
    authorize(ctx.state, 'create', 'task');
    const { id = '' } = ctx.params;
    if (!(await queue.redrive(id).catch(failedToQueue))) throw new HttpError('deadLetterNotFound');
    replyQueued(ctx, id);
  });

  router.delete('/dead-letters/:id', async (ctx) => {
    authorize(ctx.state, 'delete', 'dead_letter');
    if (!(await queue.purge(ctx.params.id ?? '').catch(unavailable))) throw new HttpError('deadLetterNotFound');
    ctx.status = 204;
  });

  router.all('/queue/pause', refuseOtherMethods('POST'));
  router.all('/queue/resume', refuseOtherMethods('POST'));
  router.all('/dead-letters', refuseOtherMethods('GET', 'HEAD'));
  router.all('/dead-letters/:id', refuseOtherMethods('DELETE'));
  router.all('/dead-letters/:id/retry', refuseOtherMethods('POST'));

  return router;
}

/** Converts an error from `Queue.publish` or `Queue.redrive` to an HttpError and throws it. */
export function failedToQueue(cause: unknown): never {
  if (cause instanceof KeyReused) throw new HttpError('idempotencyKeyReused', { cause });
  if (cause instanceof KeyInUse) throw new HttpError('idempotencyKeyInUse', { cause, headers: RETRY_AFTER });
  const overload = cause instanceof QueueFull;
  throw new HttpError('failedToQueueTask', { cause, overload, headers: overload ? RETRY_AFTER : {} });
}

/** Wraps an error from the queue in the HttpError `queue unavailable` and throws it. */
export function unavailable(cause: unknown): never {
  throw new HttpError('queueUnavailable', { cause });
}

/** Responds with 202, the queued task's id and its `Location`. */
export function replyQueued(ctx: ParameterizedContext, id: string): void {
  replyJson(ctx, 202, { id, status: 'queued' }, { Location: `/tasks/${id}` });
}

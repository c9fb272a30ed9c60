import type Router from '@koa/router';
import type { ParameterizedContext } from 'koa';
import { HttpError } from '../../http/errors.ts';
import { answerOtherMethods, exactRouter } from '../../http/exact-router.ts';
import { replyJson } from '../../http/json-reply.ts';
import { KeyInUse, KeyReused, QueueFull } from '../queue/queue.ts';
import { type AccessState, authorize } from './access.ts';
import type { TasksRouterOptions } from './app.ts';

const RETRY_AFTER = { 'Retry-After': '1' };

/** Routes `POST /queue/pause` and `POST /queue/resume`. */
export function queueRouter({ queue }: Pick<TasksRouterOptions, 'queue'>): Router<AccessState> {
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

  router.all('/queue/pause', answerOtherMethods('POST'));
  router.all('/queue/resume', answerOtherMethods('POST'));

  return router;
}

/** Converts an error from `Queue.publish` or `Queue.redrive` to an HttpError and throws it. */
export function failedToQueue(cause: unknown): never {
  if (cause instanceof KeyReused) throw new HttpError('idempotencyKeyReused', { cause });
  if (cause instanceof KeyInUse) throw new HttpError('idempotencyKeyInUse', { cause, headers: RETRY_AFTER });
  const overload = cause instanceof QueueFull;
  throw new HttpError('failedToQueueTask', { cause, overload, headers: overload ? RETRY_AFTER : {} });
}

export function unavailable(cause: unknown): never {
  throw new HttpError('queueUnavailable', { cause });
}

export function replyQueued(ctx: ParameterizedContext, id: string): void {
  replyJson(ctx, 202, { id, status: 'queued' }, { Location: `/tasks/${id}` });
}

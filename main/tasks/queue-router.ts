import Router from '@koa/router';
import { HttpError } from '../http/errors.ts';
import { streamListing } from '../http/json-listing.ts';
import { refuseOtherMethods } from '../http/other-methods.ts';
import type { TasksAppOptions } from './app.ts';
import type { DeadLetter } from './queue/driver.ts';
import { queueError } from './queue-errors.ts';

/** As many as `GET /tasks` lists. */
const LISTING_SIZE = 100;

/** The queue seen from outside: its counts at `/queue`, and the tasks that were given up at `/dead-letters`. */
export function queueRouter({ queue }: Pick<TasksAppOptions, 'queue'>): Router {
  const router = new Router();

  router.get('/queue', (ctx) => {
    const { inFlight: in_flight, ...counts } = queue.counts();
    ctx.body = { ...counts, in_flight };
  });

  router.get('/dead-letters', async (ctx) => {
    const letters = await queue.deadLetters();
    ctx.type = 'json';
    ctx.body = streamListing('dead_letters', letters.slice(-LISTING_SIZE).reverse(), failedTask);
  });

  router.post('/dead-letters/:id/retry', async (ctx) => {
    const { id = '' } = ctx.params;
    const found = await queue.retryDeadLetter(id).catch((cause) => {
      throw queueError(cause);
    });
    if (!found) throw new HttpError('deadLetterNotFound');
    ctx.status = 202;
    ctx.set('Location', `/tasks/${id}`);
    ctx.body = { id, status: 'queued' };
  });

  router.delete('/dead-letters/:id', async (ctx) => {
    if (!(await queue.deleteDeadLetter(ctx.params.id ?? ''))) throw new HttpError('deadLetterNotFound');
    ctx.status = 204;
  });

  router.all('/queue', refuseOtherMethods('GET', 'HEAD'));
  router.all('/dead-letters', refuseOtherMethods('GET', 'HEAD'));
  router.all('/dead-letters/:id', refuseOtherMethods('DELETE'));
  router.all('/dead-letters/:id/retry', refuseOtherMethods('POST'));

  return router;
}

/** A task that was given up, as a client sees it: accepted at `first_at`, given up at `last_at`, in Unix seconds. */
export function failedTask({ id, body, reason, attempts, firstAt, lastAt }: DeadLetter) {
  const [first_at, last_at] = [firstAt, lastAt].map((ms) => Math.floor(ms / 1000));
  return { id, status: 'failed', payload: body, reason, attempts, first_at, last_at };
}

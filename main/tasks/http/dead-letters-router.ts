import type { IncomingMessage } from 'node:http';
import type Router from '@koa/router';
import { TURN_BYTES } from '../../http/admission.ts';
import type { BodyBounds } from '../../http/body-buffer.ts';
import { type ErrorName, HttpError, serverBusy } from '../../http/errors.ts';
import { answerOtherMethods, exactRouter } from '../../http/exact-router.ts';
import { readJsonObject } from '../../http/json-body.ts';
import { replyJson, replyListing, replyWithin } from '../../http/json-reply.ts';
import { type DeadLetterSelection, UnknownDeadLetter } from '../queue/dead-letter-operations.ts';
import { type AccessState, authorize } from './access.ts';
import type { TasksRouterOptions } from './app.ts';
import { failedToQueue, replyQueued, unavailable } from './queue-router.ts';
import { failedTask, failedTaskSummary } from './task-status.ts';

const LISTING_SIZE = 100;
const ESTIMATED_SUMMARY_BYTES = 8 * 1024;
const MAX_SELECTED_IDS = 1000;
/** Maximum size in bytes of the body of a bulk redrive or purge request. A list of 1000 UUIDs takes about 40 kB. */
const MAX_SELECTION_BYTES = 64 * 1024;

export function deadLettersRouter({ queue, admission, responses, bodies }: TasksRouterOptions): Router<AccessState> {
  const router = exactRouter<AccessState>();
  const selectionIn = (request: IncomingMessage) => readSelection(request, bodies, (bytes) => admission.enter(bytes));

  router.get('/dead-letters', async (ctx) => {
    authorize(ctx.state, 'read', 'dead_letter');
    const before = single(ctx.query.before, 'beforeGivenTwice');
    const reason = single(ctx.query.reason, 'reasonGivenTwice');
    const isSummary = single(ctx.query.summary, 'summaryGivenTwice') === '1';
    const letters = await queue.newestDeadLetters(LISTING_SIZE, { before, reason }).catch((cause: unknown) => {
      throw new HttpError(cause instanceof UnknownDeadLetter ? 'beforeUnknown' : 'queueUnavailable', { cause });
    });
    await replyListing(ctx, 'dead_letters', letters, {
      budget: responses,
      bytes: ({ bytes }) => (isSummary ? Math.min(bytes, ESTIMATED_SUMMARY_BYTES) : bytes),
      admit: (bytes) => admission.enter(bytes),
      read: async (listed) => {
        const letter = await listed.read().catch(unavailable);
        return letter && (isSummary ? failedTaskSummary(letter) : failedTask(letter));
      },
    });
  });

  router.get('/dead-letters/reasons', async (ctx) => {
    authorize(ctx.state, 'read', 'dead_letter');
    await admission.enter(TURN_BYTES);
    const reasons = await queue.deadLetterReasons().catch(unavailable);
    if (!replyWithin(responses, ctx, reasons)) throw serverBusy();
  });

  router.post('/dead-letters/redrive', async (ctx) => {
    authorize(ctx.state, 'create', 'task');
    const selection = await selectionIn(ctx.req);
    replyJson(ctx, 200, await queue.redriveAll(selection).catch(failedToQueue));
  });

  router.post('/dead-letters/purge', async (ctx) => {
    authorize(ctx.state, 'delete', 'dead_letter');
    const selection = await selectionIn(ctx.req);
    replyJson(ctx, 200, await queue.purgeAll(selection).catch(unavailable));
  });

  router.post('/dead-letters/:id/retry', async (ctx) => {
    authorize(ctx.state, 'create', 'task');
    const { id = '' } = ctx.params;
    if (!(await queue.redrive(id).catch(failedToQueue))) throw new HttpError('deadLetterNotFound');
    replyQueued(ctx, id);
  });

  // Registered before `/dead-letters/:id`, which would match `reasons`, `redrive` and `purge` as ids.
  router.all('/dead-letters/reasons', answerOtherMethods('GET', 'HEAD'));
  router.all('/dead-letters/redrive', answerOtherMethods('POST'));
  router.all('/dead-letters/purge', answerOtherMethods('POST'));

  router.delete('/dead-letters/:id', async (ctx) => {
    authorize(ctx.state, 'delete', 'dead_letter');
    if (!(await queue.purge(ctx.params.id ?? '').catch(unavailable))) throw new HttpError('deadLetterNotFound');
    ctx.status = 204;
  });

  router.all('/dead-letters', answerOtherMethods('GET', 'HEAD'));
  router.all('/dead-letters/:id', answerOtherMethods('DELETE'));
  router.all('/dead-letters/:id/retry', answerOtherMethods('POST'));

  return router;
}

function single(value: string | string[] | undefined, givenTwice: ErrorName): string | undefined {
  if (Array.isArray(value)) throw new HttpError(givenTwice);
  return value;
}

async function readSelection(
  request: IncomingMessage,
  { budget }: BodyBounds,
  admit: (bytes: number) => Promise<void>,
): Promise<DeadLetterSelection> {
  const { ids, reason, all } = await readJsonObject(request, { limit: MAX_SELECTION_BYTES, budget }, admit);
  const given = [ids, reason, all].filter((each) => each !== undefined);
  if (given.length === 1) {
    if (isIds(ids)) return { ids };
    if (typeof reason === 'string') return { reason };
    if (all === true) return { all };
  }
  throw new HttpError('selectionRequired');
}

function isIds(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_SELECTED_IDS) return false;
  return value.every((id) => typeof id === 'string');
}

import type { IncomingMessage } from 'node:http';
import type Router from '@koa/router';
import type { ParameterizedContext } from 'koa';
import { LISTING_SIZE, SUMMARY_LENGTH } from '../../../db/task-rows.ts';
import { type BulkResult, type DeadLetterSelection, QueueFull } from '../../../db/task-store.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { exactRouter, resource } from '../../http/exact-router.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import { readJsonObject } from '../../http/request-body.ts';
import { type AccessState, authorize } from './access.ts';
import { LISTING_COST, replyLocated } from './listing.ts';
import { ask, failedToQueue, once, type RouterOptions } from './routing.ts';
import { failedTask, failedTaskSummary, replyQueued } from './task-status.ts';

const ESTIMATED_SUMMARY_BYTES = 8 * 1024;
const MAX_SELECTED_IDS = 1000;
/** Maximum size in bytes of the body of a bulk redrive or purge request. A list of 1000 UUIDs takes about 40 kB. */
const MAX_SELECTION_BYTES = 64 * 1024;

export function deadLettersRouter(options: RouterOptions): Router<AccessState> {
  const { queue, turns, responses } = options;
  const router = exactRouter<AccessState>();

  resource(router, '/dead-letters', {
    async GET(ctx) {
      authorize(ctx.state, 'read', 'dead_letter');
      const before = once(ctx, 'before', 'beforeGivenTwice');
      const reason = once(ctx, 'reason', 'reasonGivenTwice');
      const isSummary = once(ctx, 'summary', 'summaryGivenTwice') === '1';
      await turns.enter(LISTING_COST, ctx.res);
      const located = await ask(() => queue.store.locate({ state: 'failed', before, reason }, LISTING_SIZE));
      const shown = isSummary ? failedTaskSummary : failedTask;
      const read = async (ids: string[]) =>
        (await ask(() => queue.read(ids, isSummary ? SUMMARY_LENGTH : undefined))).map(shown);
      const listing = {
        name: 'dead_letters',
        located,
        maxBytes: isSummary ? ESTIMATED_SUMMARY_BYTES : undefined,
        readAll: () => read(located.map(({ id }) => id)),
        read: async (id: string) => (await read([id]))[0],
      };
      await replyLocated(ctx, listing, options);
    },
  });

  resource(router, '/dead-letters/reasons', {
    async GET(ctx) {
      authorize(ctx.state, 'read', 'dead_letter');
      await turns.enter(LISTING_COST, ctx.res);
      const reasons = await ask(() => queue.store.deadLetterReasons());
      if (!replyWithin(responses, ctx, reasons)) throw serverBusy();
    },
  });

  resource(router, '/dead-letters/redrive', {
    async POST(ctx) {
      authorize(ctx.state, 'create', 'task');
      const selection = await readSelection(ctx.req, options);
      replyBulk(ctx, await queue.redrive(selection).catch((cause) => failedToQueue(cause, queue)));
    },
  });

  resource(router, '/dead-letters/purge', {
    async POST(ctx) {
      authorize(ctx.state, 'delete', 'dead_letter');
      const selection = await readSelection(ctx.req, options);
      replyBulk(ctx, await ask(() => queue.purge(selection)));
    },
  });

  resource(router, '/dead-letters/:id/retry', {
    async POST(ctx) {
      authorize(ctx.state, 'create', 'task');
      const { id = '' } = ctx.params;
      const { done, remaining } = await queue.redrive({ ids: [id] }).catch((cause) => failedToQueue(cause, queue));
      if (remaining > 0) failedToQueue(new QueueFull(), queue);
      if (done.length === 0) throw new HttpError('deadLetterNotFound');
      replyQueued(ctx, id);
    },
  });

  resource(router, '/dead-letters/:id', {
    async DELETE(ctx) {
      authorize(ctx.state, 'delete', 'dead_letter');
      const { done } = await ask(() => queue.purge({ ids: [ctx.params.id ?? ''] }));
      if (done.length === 0) throw new HttpError('deadLetterNotFound');
      ctx.status = 204;
    },
  });

  return router;
}

function replyBulk(ctx: ParameterizedContext, { done, remaining }: BulkResult): void {
  replyJson(ctx, 200, { count: done.length, remaining });
}

async function readSelection(
  request: IncomingMessage,
  { bodies: { budget }, turns }: Pick<RouterOptions, 'bodies' | 'turns'>,
): Promise<DeadLetterSelection> {
  const { ids, reason, all } = await readJsonObject(request, { limit: MAX_SELECTION_BYTES, budget }, turns);
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

import type { ParameterizedContext } from 'koa';
import { LISTING_SIZE, SUMMARY_LENGTH } from '../../../db/task-rows.ts';
import { type BulkResult, QueueFull } from '../../../db/task-store.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { isSummary, queryParameters } from '../../http/exact-router.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import { causesOf, select } from '../search.ts';
import { LISTING_COST, replyLocated } from './listing.ts';
import { ask, authorized, failedToQueue, type RouterOptions, type Routes } from './routing.ts';
import { FILTERS, filterOf, readSelection } from './selection.ts';
import { failedTask, failedTaskSummary, replyQueued } from './task-status.ts';

export function deadLettersRoutes(options: RouterOptions): Routes {
  const { queue, turns, responses, clock } = options;
  return {
    '/dead-letters': {
      GET: authorized('read', 'dead_letter', async (ctx) => {
        const { before, summary, ...fields } = queryParameters(ctx, 'before', 'summary', 'action', 'reason', 'cause');
        const isShort = isSummary(summary);
        const [last] = before === undefined ? [] : await ask(() => queue.read([before], 1));
        if (before !== undefined && last?.failedAt === undefined) throw new HttpError('beforeUnknown');
        const filter = { ...filterOf(fields), state: 'failed' } as const;
        const after = last && [last.failedAt ?? 0, last.arrival];
        const turn = () => turns.enter(LISTING_COST, ctx.res);
        const located = await ask(() => select(queue.store.reads, filter, turn, { limit: LISTING_SIZE, after }));
        const shown = isShort ? failedTaskSummary : failedTask;
        const read = async (ids: readonly string[]) =>
          (await ask(() => queue.read(ids, isShort ? SUMMARY_LENGTH : undefined))).map(shown);
        await replyLocated(ctx, { name: 'dead_letters', located, isShort, read }, options);
      }),
    },
    '/dead-letters/reasons': {
      GET: authorized('read', 'dead_letter', async (ctx) => {
        const filter = filterOf(queryParameters(ctx, 'cause', ...FILTERS));
        const turn = () => turns.enter(LISTING_COST, ctx.res);
        const causes = await ask(() => causesOf(queue.store.reads, filter, clock.now(), turn));
        if (!replyWithin(responses, ctx, causes)) throw serverBusy();
      }),
    },
    '/dead-letters/redrive': {
      POST: authorized('create', 'task', async (ctx) => {
        const { selected, perSecond } = await readSelection(ctx.req, options, 'per_second', 'cause', ...FILTERS);
        replyBulk(ctx, await queue.redrive(selected, perSecond).catch((cause) => failedToQueue(cause, queue)));
      }),
    },
    '/dead-letters/purge': {
      POST: authorized('delete', 'dead_letter', async (ctx) => {
        const { selected } = await readSelection(ctx.req, options, 'cause', ...FILTERS);
        replyBulk(ctx, await ask(() => queue.purge(selected)));
      }),
    },
    '/dead-letters/:id/retry': {
      POST: authorized('create', 'task', async (ctx) => {
        const { id = '' } = ctx.params;
        const { done, remaining } = await queue.redrive({ ids: [id] }).catch((cause) => failedToQueue(cause, queue));
        if (remaining > 0) failedToQueue(new QueueFull(), queue);
        if (done.length === 0) throw new HttpError('deadLetterNotFound');
        replyQueued(ctx, id);
      }),
    },
    '/dead-letters/:id': {
      DELETE: authorized('delete', 'dead_letter', async (ctx) => {
        const { done } = await ask(() => queue.purge({ ids: [ctx.params.id ?? ''] }));
        if (done.length === 0) throw new HttpError('deadLetterNotFound');
        ctx.status = 204;
      }),
    },
  };
}

function replyBulk(ctx: ParameterizedContext, { done, remaining }: BulkResult): void {
  replyJson(ctx, 200, { count: done.length, remaining });
}

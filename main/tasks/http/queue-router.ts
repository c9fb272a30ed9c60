import type Router from '@koa/router';
import { LISTING_SIZE, SUMMARY_LENGTH } from '../../../db/task-rows.ts';
import type { ListedState, QueueCounts, StoredMessage } from '../../../db/task-store.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { exactRouter, resource } from '../../http/exact-router.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import { TURN_BYTES } from '../../http/turn-limit.ts';
import { type AccessState, authorize } from './access.ts';
import { LISTING_COST, slicesOf } from './listing.ts';
import { ask, type RouterOptions } from './routing.ts';
import { listedTask } from './task-status.ts';

const COUNTS_COST = TURN_BYTES / 16;
const HISTORY_COST = TURN_BYTES / 8;

/** The states that `GET /queue/tasks` lists, with the names of their messages and counts. */
const LISTED = {
  queued: ['waiting', 'waiting'],
  scheduled: ['scheduled', 'scheduled'],
  running: ['running', 'inFlight'],
  retrying: ['retrying', 'retrying'],
} as const satisfies Record<string, readonly [ListedState, keyof QueueCounts]>;

/** Routes `GET` for `/queue`, `/queue/history` and `/queue/tasks`, and `POST` for `/queue/pause` and `/queue/resume`. */
export function queueRouter(options: RouterOptions): Router<AccessState> {
  const { queue, monitor, turns, responses, clock } = options;
  const router = exactRouter<AccessState>();

  resource(router, '/queue', {
    async GET(ctx) {
      authorize(ctx.state, 'read', 'queue');
      await turns.enter(COUNTS_COST, ctx.res);
      const { accepted, completed, dead, dropped, cancelled, ...unsettled } = await ask(() => queue.counts());
      const { waiting, scheduled, retrying: delayed, bytes, inFlight: in_flight, oldest } = unsettled;
      const counts = { accepted, completed, dead, dropped, cancelled, waiting, scheduled, delayed, bytes, in_flight };
      const oldest_age_seconds = oldest === undefined ? null : Math.max(0, clock.now() - oldest) / 1000;
      replyJson(ctx, 200, { ...counts, oldest_age_seconds, ...monitor.status() });
    },
  });

  resource(router, '/queue/history', {
    async GET(ctx) {
      authorize(ctx.state, 'read', 'queue');
      const since = unixSeconds(ctx.query.since);
      await turns.enter(HISTORY_COST, ctx.res);
      if (!replyWithin(responses, ctx, monitor.history(since))) throw serverBusy();
    },
  });

  resource(router, '/queue/tasks', {
    async GET(ctx) {
      authorize(ctx.state, 'read', 'task');
      const { state: name } = ctx.query;
      if (!isListed(name)) throw new HttpError('stateUnknown');
      const [state, count] = LISTED[name];
      await turns.enter(LISTING_COST, ctx.res);
      const tasks = (await firstMessages(state, options)).map(listedTask);
      const counts = await ask(() => queue.counts());
      // Tasks may have left the state since they were read.
      const total = Math.max(counts[count], tasks.length);
      if (!replyWithin(responses, ctx, { tasks, count: tasks.length, total })) throw serverBusy();
    },
  });

  resource(router, '/queue/pause', {
    async POST(ctx) {
      authorize(ctx.state, 'update', 'queue');
      await ask(() => queue.pause());
      replyJson(ctx, 200, { paused: true });
    },
  });

  resource(router, '/queue/resume', {
    async POST(ctx) {
      authorize(ctx.state, 'update', 'queue');
      await ask(() => queue.resume());
      replyJson(ctx, 200, { paused: false });
    },
  });

  return router;
}

async function firstMessages(
  state: ListedState,
  { queue, turns }: Pick<RouterOptions, 'queue' | 'turns'>,
): Promise<StoredMessage[]> {
  const messages: StoredMessage[] = [];
  for (const { ids, bytes } of slicesOf(await ask(() => queue.store.locate({ state }, LISTING_SIZE)))) {
    await turns.enter(bytes);
    messages.push(...(await ask(() => queue.read(ids, SUMMARY_LENGTH))));
  }
  return messages;
}

function isListed(name: unknown): name is keyof typeof LISTED {
  return typeof name === 'string' && Object.hasOwn(LISTED, name);
}

function unixSeconds(since: string | string[] | undefined): number | undefined {
  if (since === undefined) return undefined;
  if (typeof since !== 'string' || !/^\d{1,12}$/.test(since)) throw new HttpError('invalidSince');
  return Number(since);
}

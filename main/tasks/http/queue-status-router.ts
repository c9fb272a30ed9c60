import type Router from '@koa/router';
import { TURN_BYTES } from '../../http/admission.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { answerOtherMethods, exactRouter } from '../../http/exact-router.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import type { QueueStatus } from '../monitor/queue-monitor.ts';
import { WINDOW_SECONDS } from '../monitor/recent-durations.ts';
import type { ListedState } from '../queue/queue.ts';
import { type AccessState, authorize } from './access.ts';
import type { TasksRouterOptions } from './app.ts';
import { unavailable } from './queue-router.ts';
import { listedTask } from './task-status.ts';

const HISTORY_COST = TURN_BYTES / 8;

/** Admission cost that allows one listing per event loop turn, because a listing can read many messages. */
const LISTING_COST = TURN_BYTES;

/** Routes `GET /queue`, `GET /queue/history` and `GET /queue/tasks`. */
export function queueStatusRouter({ queue, monitor, admission, responses }: TasksRouterOptions): Router<AccessState> {
  const router = exactRouter<AccessState>();

  router.get('/queue', (ctx) => {
    authorize(ctx.state, 'read', 'queue');
    const { inFlight: in_flight, ...counts } = queue.counts();
    replyJson(ctx, 200, { ...counts, in_flight, ...statusFields(monitor.status()) });
  });

  router.get('/queue/history', async (ctx) => {
    authorize(ctx.state, 'read', 'queue');
    const since = unixSeconds(ctx.query.since);
    await admission.enter(HISTORY_COST);
    if (!replyWithin(responses, ctx, monitor.history(since))) throw serverBusy();
  });

  router.get('/queue/tasks', async (ctx) => {
    authorize(ctx.state, 'read', 'task');
    const { state } = ctx.query;
    if (!isListedState(state)) throw new HttpError('stateUnknown');
    await admission.enter(LISTING_COST);
    const listing = await queue.listTasks(state, (bytes) => admission.enter(bytes)).catch(unavailable);
    const tasks = listing.tasks.map(listedTask);
    // `listing.total` may have been counted a second before `listing.tasks` was read, so `total` can be too low.
    const total = Math.max(listing.total, tasks.length);
    if (!replyWithin(responses, ctx, { tasks, count: tasks.length, total })) throw serverBusy();
  });

  router.all('/queue', answerOtherMethods('GET', 'HEAD'));
  router.all('/queue/history', answerOtherMethods('GET', 'HEAD'));
  router.all('/queue/tasks', answerOtherMethods('GET', 'HEAD'));

  return router;
}

function isListedState(state: unknown): state is ListedState {
  return state === 'queued' || state === 'running' || state === 'retrying';
}

function statusFields({ limits, oldestAge, threads, paused, stalled, waiting, running }: QueueStatus): object {
  const { deadLetters: dead_letters, ...others } = limits;
  return {
    limits: { ...others, dead_letters },
    oldest_age_seconds: oldestAge ?? null,
    threads,
    paused,
    stalled: stalled ?? null,
    latency: { window_seconds: WINDOW_SECONDS, waiting: waiting ?? null, running: running ?? null },
  };
}

function unixSeconds(since: string | string[] | undefined): number | undefined {
  if (since === undefined) return undefined;
  if (typeof since !== 'string' || !/^\d{1,12}$/.test(since)) throw new HttpError('invalidSince');
  return Number(since);
}

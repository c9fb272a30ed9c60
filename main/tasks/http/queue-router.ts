import type { ServerResponse } from 'node:http';
import { LISTING_SIZE, SUMMARY_LENGTH } from '../../../db/task-rows.ts';
import type { ListedState, QueueCounts, StoredMessage } from '../../../db/task-store.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { invalidParameter, queryParameters } from '../../http/exact-router.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import { TURN_BYTES } from '../../http/turn-limit.ts';
import { limitsOf } from '../limits.ts';
import { ACTIVITY_SECONDS } from '../queue-monitor.ts';
import { countActions, select } from '../search.ts';
import { LISTING_COST, slicesOf } from './listing.ts';
import { ask, authorized, type RouterOptions, type Routes } from './routing.ts';
import { listedTask } from './task-status.ts';

const COUNTS_COST = TURN_BYTES / 16;
const HISTORY_COST = TURN_BYTES / 8;

/** The states that `GET /queue/tasks` lists, with the names of their messages and counts. */
export const LISTED = {
  queued: ['waiting', 'waiting'],
  limited: ['limited', 'limited'],
  scheduled: ['scheduled', 'scheduled'],
  running: ['running', 'inFlight'],
  retrying: ['retrying', 'retrying'],
} as const satisfies Record<string, readonly [ListedState, keyof QueueCounts]>;

export function queueRoutes(options: RouterOptions): Routes {
  const { queue, monitor, turns, responses, clock } = options;
  const setPaused = (paused: boolean) =>
    authorized('update', 'queue', async (ctx) => {
      await ask(() => queue.setPaused(paused));
      replyJson(ctx, 200, { paused });
    });
  const workerOf = ({ id, action, attempts, node, startedAt = 0 }: StoredMessage) => {
    const elapsed_ms = Math.max(0, clock.now() - startedAt);
    const thread = monitor.threadOf(id) ?? null;
    const running = { node: node ?? null, thread, task: id, action: action ?? null, attempt: attempts + 1 };
    return { ...running, started_at_ms: startedAt, elapsed_ms };
  };
  return {
    '/queue': {
      GET: authorized('read', 'queue', async (ctx) => {
        await turns.enter(COUNTS_COST, ctx.res);
        const {
          retrying: delayed,
          inFlight: in_flight,
          oldest,
          failed: _,
          retried: __,
          ...counts
        } = await ask(() => queue.counts());
        const oldest_age_seconds = oldest === undefined ? null : Math.max(0, clock.now() - oldest) / 1000;
        replyJson(ctx, 200, { ...counts, delayed, in_flight, oldest_age_seconds, ...monitor.status() });
      }),
    },
    '/queue/history': {
      GET: authorized('read', 'queue', async (ctx) => {
        const { since, step = '1' } = queryParameters(ctx, 'since', 'step');
        if (step !== '1' && step !== '60') throw invalidParameter('step', 'must be 1 or 60');
        await turns.enter(HISTORY_COST, ctx.res);
        if (!replyWithin(responses, ctx, monitor.history(unixSeconds(since), step === '1' ? 1 : 60)))
          throw serverBusy();
      }),
    },
    '/queue/activity': {
      GET: authorized('read', 'task', async (ctx) => {
        const { seconds = '300' } = queryParameters(ctx, 'seconds');
        const period = ACTIVITY_SECONDS.find((each) => String(each) === seconds);
        if (period === undefined) throw invalidParameter('seconds', `must be one of ${ACTIVITY_SECONDS.join(', ')}`);
        const turn = () => turns.enter(LISTING_COST, ctx.res);
        const { counts, isExact } = await ask(() => countActions(queue.store.reads, monitor.actions(period), turn));
        const running = await firstMessages('running', options, ctx.res);
        const workers = running.filter(({ startedAt }) => startedAt !== undefined).map(workerOf);
        const activity = { actions: counts, window_seconds: monitor.coveredSeconds(period), counts_are_exact: isExact };
        if (!replyWithin(responses, ctx, { ...activity, workers })) throw serverBusy();
      }),
    },
    '/queue/tasks': {
      GET: authorized('read', 'task', async (ctx) => {
        const { state: name } = queryParameters(ctx, 'state');
        if (!isListed(name)) throw new HttpError('stateUnknown');
        const [state, count] = LISTED[name];
        const messages = await firstMessages(state, options, ctx.res);
        const limits = state === 'limited' ? await ask(() => limitsOf(queue.store, messages)) : [];
        const tasks = messages.map((message, index) => listedTask(message, limits[index]));
        const counts = await ask(() => queue.counts());
        // Tasks may have left the state since they were read.
        const total = Math.max(counts[count], tasks.length);
        if (!replyWithin(responses, ctx, { tasks, count: tasks.length, total })) throw serverBusy();
      }),
    },
    '/queue/pause': { POST: setPaused(true) },
    '/queue/resume': { POST: setPaused(false) },
  };
}

async function firstMessages(state: ListedState, options: RouterOptions, response: ServerResponse) {
  const { queue, turns } = options;
  const turn = () => turns.enter(LISTING_COST, response);
  const located = await ask(() => select(queue.store.reads, { state }, turn, { limit: LISTING_SIZE }));
  const messages: StoredMessage[] = [];
  for (const { ids, bytes } of slicesOf(located)) {
    await turns.enter(bytes);
    messages.push(...(await ask(() => queue.read(ids, SUMMARY_LENGTH))));
  }
  const startOf = ({ startedAt }: StoredMessage) => startedAt ?? Number.MAX_VALUE;
  return state === 'running' ? messages.sort((one, other) => startOf(one) - startOf(other)) : messages;
}

export function isListed(name: unknown): name is keyof typeof LISTED {
  return typeof name === 'string' && Object.hasOwn(LISTED, name);
}

function unixSeconds(since: string | undefined): number | undefined {
  if (since === undefined) return undefined;
  if (!/^\d{1,12}$/.test(since)) throw new HttpError('invalidSince');
  return Number(since);
}

import type { ServerResponse } from 'node:http';
import type Router from '@koa/router';
import { rateLimitKey } from '../../http/client-address.ts';
import { ConnectionLimiter } from '../../http/connection-limiter.ts';
import { exactRouter } from '../../http/exact-router.ts';
import { refuseOtherMethods } from '../../http/other-methods.ts';
import { apiHeaders } from '../../http/security-headers.ts';
import type { TaskEvent } from '../queue/queue.ts';
import type { Cursor, TaskEvents } from '../task-events.ts';
import { type AccessState, type Actor, authorize } from './access.ts';
import { unfinishedTask } from './task-status.ts';

/** Bounds on open streams. One more is refused with 503, or 429 for its address. */
const BOUNDS = { maxConnections: 100, maxConnectionsPerAddress: 25 };
/** What has happened goes out this often, and so many events at once. */
const PACE_MS = 50;
const MAX_AT_ONCE = 1_000;
/** How often something is sent whatever happens, so that nobody in between takes the connection for dead. */
const BEAT_MS = 15_000;
/** How soon a client comes back that was cut off. */
const RETRY_MS = 1_000;

const headers = {
  ...apiHeaders,
  'Content-Type': 'text/event-stream; charset=utf-8',
  // For proxies that collect answers before they pass them on.
  'X-Accel-Buffering': 'no',
};

/** `GET /tasks/events`: what happens to tasks, as server-sent events. */
export function eventsRouter({ events }: { events: TaskEvents }): Router<AccessState> {
  const router = exactRouter<AccessState>();
  const limiter = new ConnectionLimiter(BOUNDS);

  router.get('/tasks/events', (ctx) => {
    authorize(ctx.state, 'read', 'task');
    const address = rateLimitKey(ctx.ip);
    if (ctx.method === 'HEAD') limiter.check(address);
    else limiter.acquire(ctx.req.socket, address);
    ctx.respond = false;
    ctx.res.writeHead(200, headers);
    if (ctx.method === 'HEAD') ctx.res.end();
    else stream(events, ctx.get('Last-Event-ID'), ctx.res, ctx.state.actor);
  });

  router.all('/tasks/events', refuseOtherMethods('GET', 'HEAD'));

  return router;
}

/**
 * Sends the events after `lastId` as fast as the client reads them. A slow client gets the number of events that it missed.
 * Ends before the next write if the actor's token is no longer valid.
 */
function stream(events: TaskEvents, lastId: string, response: ServerResponse, actor: Actor | undefined): void {
  const known = lastId === '' ? undefined : events.after(lastId);
  const cursor = known ?? events.now();
  let timer: NodeJS.Timeout | undefined;

  const send = () => {
    timer = undefined;
    // On drain there is more to be said.
    if (response.writableNeedDrain) return;
    if (actor?.isSignedIn() === false) {
      response.end();
      return;
    }
    const text = nextText(events, cursor);
    if (text === '') return;
    response.write(text);
    wake();
  };
  const wake = () => {
    timer ??= setTimeout(send, PACE_MS);
  };

  const unfollow = events.follow(wake, () => response.end());
  const beat = setInterval(() => {
    if (actor?.isSignedIn() === false) response.end();
    else if (!response.writableNeedDrain) response.write(':\n\n');
  }, BEAT_MS);
  response.on('drain', wake);
  response.once('close', () => {
    clearTimeout(timer);
    clearInterval(beat);
    unfollow();
  });

  // An id at once: whoever is cut off before the first event misses none.
  response.write(
    `retry: ${RETRY_MS}\n${lastId !== '' && known === undefined ? gap(events, cursor, null) : `id: ${events.idOf(cursor)}\n\n`}`,
  );
  wake();
}

/** The next events for one client, as they are sent; empty where there are none. */
function nextText(events: TaskEvents, cursor: Cursor): string {
  const missed = events.skipMissed(cursor);
  let text = missed > 0 ? gap(events, cursor, missed) : '';
  for (let sent = 0; sent < MAX_AT_ONCE; sent++) {
    const event = events.next(cursor);
    if (event === undefined) break;
    text += `id: ${events.idOf(cursor)}\nevent: ${event.event}\ndata: ${JSON.stringify(dataOf(event))}\n\n`;
  }
  return text;
}

/** So many events are lost for this client; null where that is not known. It does well to look at all it shows again. */
function gap(events: TaskEvents, cursor: Cursor, missed: number | null): string {
  return `id: ${events.idOf(cursor)}\nevent: gap\ndata: ${JSON.stringify({ missed })}\n\n`;
}

/** What is told of a task, in the words of `GET /tasks/<id>`. */
function dataOf(event: TaskEvent): object {
  const { id } = event;
  switch (event.event) {
    case 'accepted':
      return unfinishedTask(id, { state: 'queued' });
    case 'started':
      return unfinishedTask(id, { state: 'running', attempt: event.attempt });
    case 'retrying':
      return unfinishedTask(id, { state: 'retrying', ...event });
    case 'completed':
      return { id, status: 'completed' };
    case 'failed':
      return { id, status: 'failed', attempts: event.attempts, reason: event.reason };
  }
}

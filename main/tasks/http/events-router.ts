import type { ServerResponse } from 'node:http';
import type Router from '@koa/router';
import { ConnectionLimiter } from '../../http/connection-limiter.ts';
import { exactRouter, refuseOtherMethods } from '../../http/exact-router.ts';
import { rateLimitKey } from '../../http/rate-limit-key.ts';
import { apiHeaders } from '../../http/security-headers.ts';
import type { TaskEvent } from '../queue/queue.ts';
import type { Cursor, TaskEvents } from '../task-events.ts';
import { type AccessState, type Actor, authorize } from './access.ts';
import { unfinishedTask } from './task-status.ts';

/** Limits on open event streams. Above them, a request gets 503, or 429 if its address has reached its own limit. */
const BOUNDS = { maxConnections: 100, maxConnectionsPerAddress: 25 };
/** Delay before new events are written, so that several events share one write. */
const WRITE_DELAY_MS = 50;
const MAX_EVENTS_PER_WRITE = 1_000;
/** Milliseconds between the empty comments (`:`) of an event stream, which keep proxies from closing an idle connection. */
const HEARTBEAT_MS = 15_000;
/** Delay after which a disconnected client reconnects, sent in the field `retry` of the event stream. */
const RECONNECT_MS = 1_000;

const headers = {
  ...apiHeaders,
  'Content-Type': 'text/event-stream; charset=utf-8',
  // Keeps nginx from buffering the stream.
  'X-Accel-Buffering': 'no',
};

/** `GET /tasks/events`: the state changes of all tasks, as server-sent events. */
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
 * Sends the events after the event `lastId` as fast as the client reads them. A client that reads too slowly gets the number of
 * events that it missed. The stream ends before the next write if the actor's token is no longer valid.
 */
function stream(events: TaskEvents, lastId: string, response: ServerResponse, actor: Actor | undefined): void {
  const known = lastId === '' ? undefined : events.after(lastId);
  const cursor = known ?? events.now();
  let timer: NodeJS.Timeout | undefined;

  const send = () => {
    timer = undefined;
    // While the response's buffer is full, nothing is written. The `drain` listener calls `wake` later.
    if (response.writableNeedDrain) return;
    if (actor?.isSignedIn() === false) return close();
    const text = nextText(events, cursor);
    if (text === '') return;
    response.write(text);
    wake();
  };
  const wake = () => {
    timer ??= setTimeout(send, WRITE_DELAY_MS);
  };

  const release = () => {
    clearTimeout(timer);
    clearInterval(heartbeat);
    response.off('drain', wake);
    unsubscribe();
  };
  // Stops all timers before `end`, because nothing may be written afterwards, and a slow client can keep the response open for long.
  const close = () => {
    release();
    response.end();
  };
  const unsubscribe = events.subscribe(wake, close);
  const heartbeat = setInterval(() => {
    if (actor?.isSignedIn() === false) close();
    else if (!response.writableNeedDrain) response.write(':\n\n');
  }, HEARTBEAT_MS);
  response.on('drain', wake);
  response.once('close', release);

  // Sends an event id at once, so that a client that disconnects before its first event can resume without a gap.
  const isGap = lastId !== '' && known === undefined;
  response.write(`retry: ${RECONNECT_MS}\n${isGap ? gap(events, cursor, null) : `id: ${events.idOf(cursor)}\n\n`}`);
  wake();
}

/** Returns the text of the events after the cursor, and advances the cursor. Returns an empty text if there are none. */
function nextText(events: TaskEvents, cursor: Cursor): string {
  const missed = events.skipMissed(cursor);
  let text = missed > 0 ? gap(events, cursor, missed) : '';
  for (let sent = 0; sent < MAX_EVENTS_PER_WRITE; sent++) {
    const event = events.next(cursor);
    if (event === undefined) break;
    text += `id: ${events.idOf(cursor)}\nevent: ${event.event}\ndata: ${JSON.stringify(dataOf(event))}\n\n`;
  }
  return text;
}

/** Encodes a `gap` event, which tells a client that it missed `missed` events (null: an unknown number) and should reload. */
function gap(events: TaskEvents, cursor: Cursor, missed: number | null): string {
  return `id: ${events.idOf(cursor)}\nevent: gap\ndata: ${JSON.stringify({ missed })}\n\n`;
}

/** Returns the data of an event, with the same field names as the response to `GET /tasks/<id>`. */
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

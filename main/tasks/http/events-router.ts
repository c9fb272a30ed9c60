import type { ServerResponse } from 'node:http';
import type { TaskView } from '../../../db/task-rows.ts';
import { ConnectionLimiter } from '../../http/connection-limiter.ts';
import { apiHeaders } from '../../http/json-reply.ts';
import { rateLimitKey } from '../../http/rate-limit.ts';
import type { Cursor, QueueEvent, TaskEvent, TaskEvents } from '../task-events.ts';
import { type Actor, sees } from './access.ts';
import { inView, type RouterOptions, type Routes } from './routing.ts';
import { retryFields } from './task-status.ts';

const STREAM_LIMITS = { maxConnections: 100, maxConnectionsPerAddress: 25 };
/** Delay before new events are written, so that several events share one write. */
const WRITE_DELAY_MS = 50;
const MAX_EVENTS_PER_WRITE = 1_000;
/** Interval between empty comments (`:`), which keep proxies from closing an idle event stream. */
const HEARTBEAT_MS = 15_000;
/** Delay after which a disconnected client reconnects, sent in the event stream's `retry` field. */
const RECONNECT_MS = 1_000;

const headers = {
  ...apiHeaders,
  'Content-Type': 'text/event-stream; charset=utf-8',
  // Keeps nginx from buffering the stream.
  'X-Accel-Buffering': 'no',
};

export function eventsRoutes(options: RouterOptions): Routes {
  const limiter = new ConnectionLimiter(STREAM_LIMITS);
  return {
    '/tasks/events': {
      GET: inView('read', (ctx, view) => {
        const address = rateLimitKey(ctx.ip);
        if (ctx.method === 'HEAD') limiter.check(address);
        else limiter.acquire(ctx.req.socket, address);
        ctx.respond = false;
        ctx.res.writeHead(200, headers);
        if (ctx.method === 'HEAD') ctx.res.end();
        else if (!ctx.res.closed) stream(options, ctx.get('Last-Event-ID'), ctx.res, ctx.state.actor, view);
      }),
    },
  };
}

/** Streams the events after the event with id `lastId` (if empty, new events only) until the user's token is invalid. */
function stream(
  { events, clock }: RouterOptions,
  lastId: string,
  response: ServerResponse,
  actor?: Actor,
  view?: TaskView,
): void {
  const known = lastId === '' ? undefined : events.after(lastId);
  const cursor = { ...(known ?? events.now()), isSealed: view !== undefined };
  let cancelSend: (() => void) | undefined;

  const send = () => {
    cancelSend = undefined;
    // Writes nothing while the response's buffer is full. The `drain` event calls `wake` later.
    if (response.writableNeedDrain) return;
    if (actor?.isSignedIn() === false) return close();
    const text = nextText(events, cursor, view);
    if (text === '') return;
    response.write(text);
    wake();
  };
  const wake = () => {
    cancelSend ??= clock.timer(WRITE_DELAY_MS, send);
  };

  const release = () => {
    cancelSend?.();
    cancelHeartbeat();
    response.off('drain', wake);
    unsubscribe();
  };
  // Stops the timers before `end`, because a write after `end` is an error.
  const close = () => {
    release();
    response.end();
  };
  const unsubscribe = events.subscribe(wake, close);
  const beat = () => {
    cancelHeartbeat = clock.timer(HEARTBEAT_MS, beat);
    if (actor?.isSignedIn() === false) close();
    else if (response.writableNeedDrain) return;
    // The position moves on past the events of other tasks, which would become a gap after a reconnection.
    else response.write(view === undefined ? ':\n\n' : `id: ${events.idOf(cursor)}\n\n`);
  };
  let cancelHeartbeat = clock.timer(HEARTBEAT_MS, beat);
  response.on('drain', wake);
  response.once('close', release);

  const isGap = lastId !== '' && known === undefined;
  // Sends an event id immediately, so that a client that disconnects before its first event can resume without a gap.
  response.write(`retry: ${RECONNECT_MS}\n${isGap ? gap(events, cursor, null) : `id: ${events.idOf(cursor)}\n\n`}`);
  wake();
}

function nextText(events: TaskEvents, cursor: Cursor, view: TaskView | undefined): string {
  const missed = events.skipMissed(cursor);
  let text = missed > 0 ? gap(events, cursor, view === undefined ? missed : null) : '';
  for (let sent = 0; sent < MAX_EVENTS_PER_WRITE; ) {
    const event = events.next(cursor);
    if (event === undefined) break;
    if (view !== undefined && !('id' in event && sees(view, event))) continue;
    sent += 1;
    text += `id: ${events.idOf(cursor)}\nevent: ${event.event}\ndata: ${JSON.stringify(dataOf(event))}\n\n`;
  }
  return text;
}

/** Encodes a `gap` event, which reports the number of missed events (null if unknown) so that the client reloads. */
function gap(events: TaskEvents, cursor: Cursor, missed: number | null): string {
  return `id: ${events.idOf(cursor)}\nevent: gap\ndata: ${JSON.stringify({ missed })}\n\n`;
}

/** Returns an event's data, with the field names of the response to `GET /tasks/:id`. */
function dataOf(event: QueueEvent): object {
  if (!('id' in event)) return { at: event.at };
  if (event.event === 'purged') return { id: event.id, action: event.action, at: event.at };
  const { event: name, id, action, at, limitKey: _, submitter: __, ...details } = event;
  return { id, action, status: STATUSES[name], ...fieldsOf(event, details), at };
}

function fieldsOf(event: TaskEvent, details: object): object {
  if (event.event === 'retrying') return retryFields(event);
  if (event.event === 'scheduled') return { run_at_ms: event.runAt };
  if (event.event !== 'progress') return details;
  const { attempt, fraction, note } = event;
  return { attempt, progress: { fraction, ...(note !== undefined && { note }) } };
}

const STATUSES = {
  accepted: 'queued',
  scheduled: 'scheduled',
  started: 'running',
  progress: 'running',
  retrying: 'retrying',
  completed: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
} as const;

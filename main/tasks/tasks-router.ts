import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import Router from '@koa/router';
import { DatabaseUnavailable } from '../../db/database.ts';
import type { TaskLocation, Tasks } from '../../db/tasks.ts';
import { HttpError } from '../http/errors.ts';
import { isObject, readJsonObject } from '../http/json-body.ts';
import { refuseOtherMethods } from '../http/other-methods.ts';
import type { TasksAppOptions } from './app.ts';
import { QueueFull } from './queue/driver.ts';

/** Seconds after which a client may try again when the queue was full. */
const RETRY_AFTER = '1';
/** A listing over this size is not put together in memory. */
const STREAM_FROM_BYTES = 1024 * 1024;

/** `POST /tasks` and `GET /tasks` of the specification. */
export function tasksRouter({ queue, tasks, bodyLimit }: TasksAppOptions): Router {
  const router = new Router();

  router.post('/tasks', async (ctx) => {
    const { action, data } = parseSubmission(await readJsonObject(ctx.req, bodyLimit));
    const id = randomUUID();
    const created_at = Math.floor(Date.now() / 1000);
    await publish(id, serialize({ id, action, data, created_at }));
    ctx.status = 202;
    ctx.body = { id, status: 'queued' };
  });

  router.get('/tasks', (ctx) => {
    const status = parseStatus(ctx.query.status);
    const located = query(() => tasks.locate(status));
    if (located.reduce((sum, { bytes }) => sum + bytes, 0) > STREAM_FROM_BYTES) {
      ctx.type = 'json';
      ctx.body = Readable.from(listingText(located, tasks));
    } else {
      const rows = query(() => tasks.list(status));
      ctx.body = { tasks: rows, count: rows.length };
    }
  });

  router.all('/tasks', refuseOtherMethods('GET', 'HEAD', 'POST'));

  async function publish(id: string, body: string): Promise<void> {
    try {
      await queue.publish({ id, body });
    } catch (cause) {
      const overload = cause instanceof QueueFull;
      throw new HttpError('failedToQueueTask', {
        cause,
        overload,
        headers: overload ? { 'Retry-After': RETRY_AFTER } : {},
      });
    }
  }

  return router;
}

function query<T>(run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw new HttpError(cause instanceof DatabaseUnavailable ? 'databaseUnavailable' : 'queryFailed', { cause });
  }
}

/**
 * The text of a listing, a row at a time, as fast as the client reads it: a hundred of the largest rows are hundreds of
 * megabytes, which would hold everybody up and fill the memory.
 */
async function* listingText(located: readonly TaskLocation[], tasks: Pick<Tasks, 'read'>): AsyncGenerator<string> {
  let count = 0;
  for (const { rowid } of located) {
    const row = tasks.read(rowid);
    if (row === undefined) continue;
    yield `${count++ === 0 ? '{"tasks":[' : ','}${JSON.stringify(row)}`;
    // Others have their turn between two rows, even if this client takes them as fast as they come.
    await setImmediate();
  }
  yield count === 0 ? '{"tasks":[],"count":0}' : `],"count":${count}}`;
}

interface Submission {
  action: string;
  data: Record<string, unknown>;
}

function parseSubmission({ action, data = {} }: Record<string, unknown>): Submission {
  if (typeof action !== 'string') throw new HttpError('actionRequired');
  if (!isObject(data)) throw new HttpError('dataMustBeObject');
  return { action, data };
}

/** The JSON text of a queued task message: what is queued, handed to a thread, and stored as `payload`. */
function serialize(message: Submission & { id: string; created_at: number }): string {
  try {
    return JSON.stringify(message);
  } catch (cause) {
    // JSON can be parsed at any depth, but not written.
    throw cause instanceof RangeError ? new HttpError('dataTooDeep', { cause }) : cause;
  }
}

function parseStatus(status: string | string[] | undefined): string | undefined {
  if (Array.isArray(status)) throw new HttpError('statusGivenTwice');
  return status;
}

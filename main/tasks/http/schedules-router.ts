import type { StoredSchedule } from '../../../db/schedules.ts';
import { parseBody } from '../../../workers/submissions/parse-submission.ts';
import { HttpError } from '../../http/errors.ts';
import { replyJson, replyListing } from '../../http/json-reply.ts';
import { withBody } from '../../http/request-body.ts';
import { TURN_BYTES } from '../../http/turn-limit.ts';
import { cronTimes } from '../schedules/cron.ts';
import { type CompleteDefinition, readDefinition, SCHEDULE_NAME } from '../schedules/definition.ts';
import { prepare, SMALL_BODY_BYTES } from './prepare-submission.ts';
import { ask, authorized, failedToQueue, type RouterOptions, type Routes } from './routing.ts';
import { replyQueued } from './task-status.ts';

const NEXT_TIMES = 5;
/** Cost of reading or writing a schedule, and of computing its next times. */
const SCHEDULE_COST = TURN_BYTES / 16;

export function schedulesRoutes(options: RouterOptions): Routes {
  const { queue, scheduler, bodies, turns, clock, responses, callbackHosts } = options;
  const { schedules } = queue.store;

  const find = async (name = ''): Promise<StoredSchedule | undefined> => {
    await turns.enter(SCHEDULE_COST);
    return SCHEDULE_NAME.test(name) ? ask(() => schedules.find(name)) : undefined;
  };
  const findExisting = async (name: string | undefined): Promise<StoredSchedule> => {
    const found = await find(name);
    if (found === undefined) throw new HttpError('scheduleNotFound');
    return found;
  };
  return {
    '/schedules': {
      GET: authorized('read', 'schedule', async (ctx) => {
        const listed = await ask(() => schedules.list());
        const read = ({ id }: { id: string }) => find(id).then((found) => found && answerOf(found));
        await replyListing(ctx, 'schedules', listed, responses, read);
      }),
    },
    '/schedules/:name': {
      GET: authorized('read', 'schedule', async (ctx) => {
        replyJson(ctx, 200, answerOf(await findExisting(ctx.params.name)));
      }),
      // A schedule makes tasks.
      PUT: authorized('create', 'task', async (ctx) => {
        const { name = '' } = ctx.params;
        const bounds = { ...bodies, limit: SMALL_BODY_BYTES };
        const definition = await withBody(ctx.req, bounds, async ({ bytes }) => {
          // A thousand years are searched for the next time of a pattern that has none.
          await turns.enter(TURN_BYTES);
          const body = parseBody(bytes);
          if ('error' in body) throw new HttpError(body.error);
          return readDefinition(name, body.fields, clock.now(), callbackHosts);
        });
        const { action, data } = definition;
        const submission = new TextEncoder().encode(JSON.stringify({ action, data }));
        // Checks action and data as for a submission.
        await prepare({ bytes: submission, length: submission.length, ownBytes: () => submission }, {}, '', options);
        if (!(await ask(() => scheduler.put(name, definition, 'api')))) {
          const isOfModule = (await find(name))?.source === 'module';
          throw new HttpError(isOfModule ? 'scheduleOfModule' : 'tooManySchedules');
        }
        replyJson(ctx, 200, answerOf(await findExisting(name)));
      }),
      DELETE: authorized('delete', 'schedule', async (ctx) => {
        const { name, source } = await findExisting(ctx.params.name);
        if (source === 'module') throw new HttpError('scheduleOfModule');
        if (!(await ask(() => schedules.delete(name, 'api')))) throw new HttpError('scheduleNotFound');
        ctx.status = 204;
      }),
    },
    '/schedules/:name/run': {
      POST: authorized('create', 'task', async (ctx) => {
        const message = scheduler.taskOf(await findExisting(ctx.params.name));
        const { id } = await queue.publish(message).catch((cause) => failedToQueue(cause, queue));
        replyQueued(ctx, id);
      }),
    },
  };
}

function answerOf({ name, definition: text, source, nextAt, lastAt, lastTask }: StoredSchedule): object {
  const definition: CompleteDefinition = JSON.parse(text);
  const following = () => cronTimes(definition.cron, definition.time_zone).after(nextAt ?? 0, NEXT_TIMES - 1);
  const next = nextAt === null ? [] : [nextAt, ...following()].map((time) => time / 1000);
  const last = lastAt !== null && { last_at: lastAt / 1000, last_task: lastTask };
  return { name, ...definition, source, next, ...last };
}

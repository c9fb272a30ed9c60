import type { Awaitable, TaskView } from '../../../db/task-rows.ts';
import { isWholeUpTo } from '../../../workers/shared/action-limits.ts';
import { HttpError } from '../../http/errors.ts';
import { replyJson } from '../../http/json-reply.ts';
import { readJsonObject } from '../../http/request-body.ts';
import { seesFound, type TaskAccess } from './access.ts';
import { authorized, type Context, decoded, inView, type RouterOptions, type Routes, viewOf } from './routing.ts';
import { findInView } from './tasks-router.ts';

const MAX_BODY_BYTES = 1024;
const MAX_LIMIT_KEY_LENGTH = 255;
const DEFAULT_LIFETIME_SECONDS = 60 * 60;
const MAX_LIFETIME_SECONDS = 24 * 60 * 60;

/** Returns the routes that create tokens for tasks. They exist only with access control. */
export function tokensRoutes(options: RouterOptions, access: Pick<TaskAccess, 'issue'>): Routes {
  const { bodies, turns } = options;

  async function create(ctx: Context, viewFor: (mayCancel: boolean) => Awaitable<TaskView>): Promise<void> {
    const body = await readJsonObject(ctx.req, { limit: MAX_BODY_BYTES, budget: bodies.budget }, turns);
    const { expires_in = DEFAULT_LIFETIME_SECONDS, cancel = false, ...others } = body;
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) throw refusal(unknown, 'is unknown: the fields are expires_in and cancel');
    if (typeof cancel !== 'boolean') throw refusal('cancel', 'must be true or false');
    if (!isWholeUpTo(expires_in, MAX_LIFETIME_SECONDS))
      throw refusal('expires_in', `must be whole seconds from 1 to ${MAX_LIFETIME_SECONDS}`);
    const token = await access.issue(await viewFor(cancel), cancel, expires_in, ctx.ip, ctx.state.actor);
    replyJson(ctx, 200, { token, expires_in });
  }

  return {
    '/tasks/:id/token': {
      POST: inView('read', async (ctx, view) => {
        // A token for tasks cannot create tokens. That of a submitter can.
        if (view !== undefined && view.submitter === undefined) throw new HttpError('actionNotAllowed');
        await create(ctx, async (mayCancel) => {
          const { id = '' } = ctx.params;
          const found = await findInView(options, id, ctx.res, view);
          if (mayCancel && !seesFound(viewOf(ctx, 'delete'), found)) throw new HttpError('actionNotAllowed');
          return { id };
        });
      }),
    },
    '/limit-keys/:key/token': {
      POST: authorized('read', 'task', async (ctx) => {
        const limit_key = decoded(ctx.captures, MAX_LIMIT_KEY_LENGTH, 'invalidLimitKey');
        await create(ctx, (mayCancel) => {
          if (mayCancel && viewOf(ctx, 'delete') !== undefined) throw new HttpError('actionNotAllowed');
          return { limit_key };
        });
      }),
    },
  };
}

function refusal(path: string, detail: string): HttpError {
  return new HttpError('invalidTokenRequest', { fields: { path: `/${path}`, detail } });
}

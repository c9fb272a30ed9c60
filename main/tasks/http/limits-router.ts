import { readLimits } from '../../../workers/shared/action-limits.ts';
import { HttpError, serverBusy } from '../../http/errors.ts';
import { replyJson, replyWithin } from '../../http/json-reply.ts';
import { readJsonObject } from '../../http/request-body.ts';
import { limitFields, listedLimits, MAX_LIMITED_ACTIONS } from '../limits.ts';
import { LISTING_COST } from './listing.ts';
import { ask, authorized, decoded, type RouterOptions, type Routes } from './routing.ts';

const MAX_BODY_BYTES = 4096;
const MAX_ACTION_LENGTH = 200;

export function limitsRoutes(options: RouterOptions): Routes {
  const { queue, bodies, turns, responses, check, ownLimits } = options;
  return {
    '/limits': {
      GET: authorized('read', 'queue', async (ctx) => {
        await turns.enter(LISTING_COST, ctx.res);
        const limits = (await ask(() => queue.store.limits())).map(listedLimits);
        if (!replyWithin(responses, ctx, { limits })) throw serverBusy();
      }),
    },
    '/limits/:action': {
      PUT: authorized('update', 'queue', async (ctx) => {
        const action = actionOf(ctx.captures);
        const refusal = check?.(action, {});
        // Any other refusal is of the data, so the action is known.
        if (typeof refusal === 'object' && refusal.error === 'unknownAction')
          throw new HttpError('unknownAction', { fields: refusal.field });
        const body = await readJsonObject(ctx.req, { limit: MAX_BODY_BYTES, budget: bodies.budget }, turns);
        const limits = readLimits(body, 'per_key', refusalOf);
        const stored = await ask(() => queue.store.limits());
        const isNew = !stored.some((each) => each.action === action);
        if (isNew && stored.length >= MAX_LIMITED_ACTIONS) throw new HttpError('tooManyLimits');
        await ask(() => queue.setLimits(action, limits, 'api'));
        replyJson(ctx, 200, { action, ...limitFields(limits), source: 'api' });
      }),
      DELETE: authorized('update', 'queue', async (ctx) => {
        const action = actionOf(ctx.captures);
        const stored = (await ask(() => queue.store.limits())).find((each) => each.action === action);
        if (stored === undefined) throw new HttpError('limitNotFound');
        if (stored.source === 'module') throw new HttpError('limitsOfModule');
        await ask(() => queue.setLimits(action, ownLimits.get(action), 'module'));
        ctx.status = 204;
      }),
    },
  };
}

function actionOf(captures: readonly string[] | undefined): string {
  return decoded(captures, MAX_ACTION_LENGTH, 'invalidLimitedAction');
}

function refusalOf(path: string, detail: string): HttpError {
  return new HttpError('invalidLimits', { fields: { path, detail } });
}

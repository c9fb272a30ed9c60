import cors from '@koa/cors';
import type Router from '@koa/router';
import { Admission } from '../http/admission.ts';
import { ByteBudget } from '../http/byte-budget.ts';
import { authenticationRequired, HttpError, serverBusy } from '../http/errors.ts';
import { answerOtherMethods, exactRouter } from '../http/exact-router.ts';
import { replyWithin } from '../http/json-reply.ts';
import { allows } from './policy.ts';
import { HISTORY_SECONDS, type PriceHistory } from './price-history.ts';
import { type SecurityContext, tokenAuth } from './token-auth.ts';
import type { Tokens } from './tokens.ts';

export interface PricesRouterOptions {
  tokens: Pick<Tokens, 'verify' | 'isLive'>;
  history: Pick<PriceHistory, 'last' | 'size'>;
}

/** Maximum total size of the history responses that are being sent. The largest possible response has about 1 MB. */
const RESPONSE_BUDGET_BYTES = 8 * 1024 * 1024;
const PRICE_BYTES = 12;

export function pricesRouter({ tokens, history }: PricesRouterOptions): Router<SecurityContext> {
  const router = exactRouter<SecurityContext>({ prefix: '/prices' });
  const budget = new ByteBudget(RESPONSE_BUDGET_BYTES);
  const admission = new Admission();

  router.all('/history', cors({ origin: '*' }));

  router.get('/history', tokenAuth(tokens), async (ctx) => {
    const { identity } = ctx.state;
    if (identity === undefined || !tokens.isLive(identity)) throw authenticationRequired();
    if (!allows(identity.scope, 'read', 'prices')) throw new HttpError('actionNotAllowed');
    const seconds = parseSeconds(ctx.query.seconds);
    await admission.enter(history.size * PRICE_BYTES);
    if (!replyWithin(budget, ctx, history.last(seconds, Math.floor(Date.now() / 1000)))) throw serverBusy();
  });

  router.all('/history', answerOtherMethods('GET', 'HEAD'));

  return router;
}

function parseSeconds(text: string | string[] = String(HISTORY_SECONDS)): number {
  const seconds = typeof text === 'string' && /^[1-9]\d{0,2}$/.test(text) ? Number(text) : Number.NaN;
  if (!(seconds <= HISTORY_SECONDS)) throw new HttpError('invalidSeconds');
  return seconds;
}

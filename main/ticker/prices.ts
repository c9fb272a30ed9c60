import cors from '@koa/cors';
import type { Middleware } from 'koa';
import type { Clock } from '../../workers/shared/clock.ts';
import type { TickerSymbol } from '../../workers/shared/symbols.ts';
import { ByteBudget } from '../http/byte-budget.ts';
import { HttpError, serverBusy } from '../http/errors.ts';
import { router } from '../http/exact-router.ts';
import { replyWithin } from '../http/json-reply.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { TurnLimit } from '../http/turn-limit.ts';
import { authenticated } from './auth.ts';
import { allows } from './policy.ts';
import type { Tokens } from './tokens.ts';

const HISTORY_SECONDS = 900;

export type PriceHistory = ReturnType<typeof priceHistory>;

/** Keeps the ticks of the last {@link HISTORY_SECONDS}, at most one per second. */
export function priceHistory(symbols: readonly TickerSymbol[], intervalMs: number) {
  const maxTicks = Math.ceil((HISTORY_SECONDS * 1000) / Math.max(intervalMs, 1000));
  const kept: { timestamp: number; prices: Float64Array }[] = [];
  return {
    /** Number of prices. */
    get size(): number {
      return kept.length * symbols.length;
    },
    /** Adds a tick, replacing ticks of the same second, and of later seconds if the clock was set back. */
    add(timestamp: number, prices: readonly number[]): void {
      while ((kept.at(-1)?.timestamp ?? Number.NEGATIVE_INFINITY) >= timestamp) kept.pop();
      kept.push({ timestamp, prices: Float64Array.from(prices) });
      if (kept.length > maxTicks) kept.shift();
    },
    /**
     * Returns the response of `GET /prices/history`: the ticks of the last `seconds` seconds before `now` (Unix time in
     * seconds), oldest first. `timestamps` are strictly ascending.
     */
    last(seconds: number, now: number) {
      const ticks = kept.filter(({ timestamp }) => timestamp > now - seconds);
      const column = (index: number) => ticks.map(({ prices }) => prices[index] as number);
      return {
        interval_ms: intervalMs,
        timestamps: ticks.map(({ timestamp }) => timestamp),
        prices: Object.fromEntries(symbols.map(({ symbol }, index) => [symbol, column(index)])),
      };
    },
  };
}

/** Maximum total size of the history responses that are being sent. The largest possible response has about 1 MB. */
const RESPONSE_BUDGET_BYTES = 8 * 1024 * 1024;
const PRICE_BYTES = 12;

export interface PricesOptions {
  tokens: Pick<Tokens, 'verify'>;
  history: Pick<PriceHistory, 'last' | 'size'>;
  clock: Pick<Clock, 'now'>;
}

export function pricesRoutes({ tokens, history, clock }: PricesOptions): Middleware {
  const budget = new ByteBudget(RESPONSE_BUDGET_BYTES);
  const turns = new TurnLimit();
  const read = authenticated(tokens, async (ctx) => {
    if (!allows(ctx.state.identity.scope, 'read', 'prices')) throw new HttpError('actionNotAllowed');
    const seconds = parseSeconds(queryParameters(ctx, 'seconds', 'token').seconds);
    await turns.enter(history.size * PRICE_BYTES);
    if (!replyWithin(budget, ctx, history.last(seconds, Math.floor(clock.now() / 1000)))) throw serverBusy();
  });
  return router({ '/prices/history': { GET: read } }, cors({ origin: '*' }));
}

export function parseSeconds(text = String(HISTORY_SECONDS)): number {
  const seconds = /^[1-9]\d{0,2}$/.test(text) ? Number(text) : Number.NaN;
  if (!(seconds <= HISTORY_SECONDS)) throw new HttpError('invalidSeconds');
  return seconds;
}

import cors from '@koa/cors';
import type { Middleware } from 'koa';
import { HISTORIES, type TaskReads, type TaskStore } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { TickerSymbol } from '../../workers/shared/symbols.ts';
import { HttpError, serverBusy } from '../http/errors.ts';
import { queryParameters, router } from '../http/exact-router.ts';
import { replyWithin } from '../http/json-reply.ts';
import { ByteBudget } from '../http/request-body.ts';
import { TurnLimit } from '../http/turn-limit.ts';
import type { Log } from '../log/log.ts';
import { authenticated } from './auth.ts';
import { allows } from './policy.ts';
import type { Tokens } from './tokens.ts';

const HISTORY_SECONDS = 900;
const HISTORY_MINUTES = 24 * 60;

interface PastTick {
  timestamp: number;
  prices: Float64Array;
}

export type PriceHistory = ReturnType<typeof priceHistory>;

/**
 * Keeps the last tick of each of the last {@link HISTORY_SECONDS}, and the first tick of each of the last
 * {@link HISTORY_MINUTES}.
 */
export function priceHistory(symbols: readonly TickerSymbol[], intervalMs: number) {
  const seconds = { period: 1, length: Math.ceil((HISTORY_SECONDS * 1000) / Math.max(intervalMs, 1000)) };
  const all = [seconds, { period: 60, length: HISTORY_MINUTES }].map((each) => ({ ...each, ticks: [] as PastTick[] }));
  const names = symbols.map(({ symbol }) => symbol);
  return {
    /** Number of prices in the longer series. */
    get size(): number {
      return Math.max(...all.map(({ ticks }) => ticks.length)) * symbols.length;
    },
    /** Adds a tick, replacing ticks of the same second, and of later seconds if the clock was set back. */
    add(timestamp: number, prices: readonly number[]): void {
      const tick = { timestamp, prices: Float64Array.from(prices) };
      for (const { ticks, period, length } of all) {
        while ((ticks.at(-1)?.timestamp ?? Number.NEGATIVE_INFINITY) >= timestamp) ticks.pop();
        const last = ticks.at(-1);
        if (last === undefined || periodOf(last, period) !== periodOf(tick, period)) ticks.push(tick);
        if (ticks.length > length) ticks.shift();
      }
    },
    /**
     * Returns the response of `GET /prices/history`: the ticks of the last `seconds` seconds before `now` (Unix time in
     * seconds), oldest first, one per minute if they are more than {@link HISTORY_SECONDS}. `timestamps` are strictly
     * ascending.
     */
    last(seconds: number, now: number) {
      const { ticks: kept = [] } = all[seconds > HISTORY_SECONDS ? 1 : 0] ?? {};
      const ticks = kept.filter(({ timestamp }) => timestamp > now - seconds);
      const column = (index: number) => ticks.map(({ prices }) => prices[index] as number);
      return {
        interval_ms: intervalMs,
        timestamps: ticks.map(({ timestamp }) => timestamp),
        prices: Object.fromEntries(names.map((symbol, index) => [symbol, column(index)])),
      };
    },
    /** Returns a text. A row has the timestamp of a tick and its prices, in the order of `symbols`. */
    save(): string {
      const series = all.map(({ ticks }) => ticks.map(({ timestamp, prices }) => [timestamp, ...prices]));
      return JSON.stringify({ symbols: names, series });
    },
    /** Adds the missing ticks up to `now` (Unix seconds) of a text from `save`. Returns false if they lack a symbol. */
    merge(text: string, now: number): boolean {
      const saved: { symbols: string[]; series: number[][][] } = JSON.parse(text);
      const columns = names.map((symbol) => saved.symbols.indexOf(symbol) + 1);
      if (columns.includes(0)) return false;
      for (const [index, { ticks, period, length }] of all.entries()) {
        const isTick = (row: number[]) => row.length === saved.symbols.length + 1 && row.every(Number.isFinite);
        const rows = saved.series[index]?.filter((row) => isTick(row) && (row[0] as number) <= now) ?? [];
        const added = rows.map((row) => ({
          timestamp: row[0] as number,
          prices: Float64Array.from(columns, (column) => row[column] as number),
        }));
        const merged = [...ticks, ...added]
          .sort((a, b) => a.timestamp - b.timestamp)
          .filter(
            (tick, at, sorted) => at === 0 || periodOf(tick, period) !== periodOf(sorted[at - 1] as PastTick, period),
          );
        ticks.splice(0, ticks.length, ...merged.slice(-length));
      }
      return true;
    },
  };
}

const periodOf = ({ timestamp }: PastTick, seconds: number) => Math.floor(timestamp / seconds);

/** Maximum total size of the history responses that are being sent. The largest possible response has about 1.2 MB. */
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
  const seconds = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : Number.NaN;
  if (!(seconds <= HISTORY_MINUTES * 60)) throw new HttpError('invalidSeconds');
  return seconds;
}

const INTERVAL_MS = 60_000;

export interface KeptPricesOptions {
  history: Pick<PriceHistory, 'save' | 'merge'>;
  store: Pick<TaskStore, 'saveHistory'> & { readonly reads: Pick<TaskReads, 'readHistory'> };
  /** Whether this node makes the ticks. */
  isLeader(): boolean;
  clock: Clock;
  log: Log;
}

/**
 * Reads the saved history of the prices. Once a minute, the leader saves it and other nodes read it, so that a node that
 * was started later or has missed ticks answers the same. The ticker goes on while the store fails.
 */
export async function keepPrices({ history, store, isLeader, clock, log }: KeptPricesOptions) {
  let cancel = () => {};
  let isRead = false;
  const sync = async (isSaving: boolean) => {
    try {
      // A save would replace a history that has not been read.
      if (!isSaving || !isRead) {
        const text = await store.reads.readHistory(HISTORIES.prices);
        const isFirst = !isRead;
        isRead = true;
        if (text !== undefined && !history.merge(text, Math.floor(clock.now() / 1000)) && isFirst)
          log.warn('a new history of the prices begins, because the saved one lacks a symbol');
      }
      if (isSaving) await store.saveHistory(HISTORIES.prices, history.save());
    } catch (err) {
      log.warn({ err }, 'the history of the prices cannot be stored or read');
    }
  };
  let running = sync(false);
  const next = () => {
    cancel = clock.timer(INTERVAL_MS, () => {
      running = sync(isLeader());
      next();
    });
  };
  await running;
  next();
  return {
    /** Saves the history, if this node is the leader. */
    async stop(): Promise<void> {
      cancel();
      await running;
      if (isLeader()) await sync(true);
    },
  };
}

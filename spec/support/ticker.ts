import { once } from 'node:events';
import { TICKER } from '../../main/ticker/connection-handler.ts';
import { type Actor, type LifecycleMessage, type Pid, PidRegistry } from '../../main/ticker/pid-registry.ts';
import { Ticker, type TickerOptions, type TickFeed, type TickFollower } from '../../main/ticker/ticker.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import type { Price } from '../../www/client/tick-stream.ts';
import { afterTest } from './cleanup.ts';
import { captureLog } from './log.ts';
import { Condition } from './until.ts';

/** File of a test thread that replaces the ticker's. */
export const mortal = new URL('mortal-ticker.ts', import.meta.url);

/** An interval in milliseconds whose next tick is weeks away. */
export const NEVER = 2 ** 31 - 1;

export function pricesOf(message: LifecycleMessage): Map<string, number> {
  if (message.topic !== 'ws.send') throw new Error(message.topic);
  const { data } = JSON.parse(message.data) as { data: Price[] };
  return new Map(data.map(({ symbol, price }) => [symbol, price]));
}

export class Recorder implements Actor {
  readonly received: LifecycleMessage[] = [];
  #asked = 0;
  readonly #arrived = new Condition();

  receive(message: LifecycleMessage): void {
    this.received.push(message);
    this.#arrived.changed();
  }

  next(): Promise<LifecycleMessage> {
    return this.#arrived.found(() => (this.#asked < this.received.length ? this.received[this.#asked++] : undefined));
  }
}

export function createTicker(options: Partial<TickerOptions> = {}) {
  const { actors = new PidRegistry() } = options;
  const captured = captureLog();
  const ticks: { clients: Pid[]; message: LifecycleMessage }[] = [];
  const ticked = new Condition();
  const ticker = new Ticker({
    intervalMs: 10,
    symbols: defaultSymbols,
    actors,
    broadcast(clients, message) {
      ticks.push({ clients: [...clients], message });
      ticked.changed();
    },
    replay() {},
    clock: systemClock,
    log: captured.log,
    ...options,
  });
  afterTest(() => ticker.stop());
  actors.register(TICKER, ticker);

  return {
    ...captured,
    ticker,
    actors,
    ticks,
    /** Returns the next tick from now on that is sent to exactly these clients. */
    tickTo(...clients: Pid[]) {
      const from = ticks.length;
      return ticked.found(() => ticks.slice(from).find((tick) => tick.clients.join() === clients.join()));
    },
    subscribe() {
      const recorder = new Recorder();
      const handler = actors.spawn('handler', () => new Recorder());
      const client = actors.spawn('client', () => recorder);
      actors.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
      const unsubscribe = () => actors.send(TICKER, { topic: 'unsubscribe', handler_pid: handler });
      return { recorder, handler, client, unsubscribe };
    },
    /** Ends a {@link mortal} thread, or makes it hang. */
    async endThread(fate: 'die' | 'hang') {
      const channel = new BroadcastChannel('fate');
      const heard = once(channel, 'message');
      channel.postMessage(fate);
      await heard;
      channel.close();
    },
  };
}

export async function startTicker(options: Partial<TickerOptions> = {}) {
  const started = createTicker(options);
  await started.ticker.start();
  return started;
}

/** Creates the feed of a node whose lease the spec grants, and to which the spec sends ticks of another node. */
export function fakeFeed() {
  let follower: TickFollower | undefined;
  const calls: unknown[] = [];
  const lease = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  const feed: TickFeed = {
    lease,
    isLeader: false,
    follow(other) {
      follower = other;
    },
    setLeaseWanted: (wanted) => calls.push(wanted),
    publish: () => ({ epoch: 1, number: 1 }),
    close: async () => void calls.push('closed'),
  };
  return {
    feed,
    calls,
    grantLease: () => new Float64Array(lease).fill(Number.POSITIVE_INFINITY),
    tick: (symbols = 'BTC-USD,ETH-USD,SOL-USD') =>
      follower?.onTick({ epoch: 1, number: 1, symbols, prices: [1, 2, 3], timestamp: 1 }),
  };
}

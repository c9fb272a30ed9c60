import { TICKER } from '../../main/ticker/handler.ts';
import { PidRegistry } from '../../main/ticker/pid-registry.ts';
import { Ticker, type TickerOptions } from '../../main/ticker/ticker.ts';
import type { LifecycleMessage, Pid } from '../../workers/messages.ts';
import { defaultSymbols } from '../../workers/symbols.ts';
import { afterTest } from './cleanup.ts';
import { captureLog } from './log.ts';
import { Recorder } from './recorder.ts';

/** Returns the file of a test thread that replaces the ticker's. */
export const thread = (name: 'mortal' | 'hangs' | 'fails' | 'exits' | 'missing') =>
  new URL(`ticker-threads/${name}.ts`, import.meta.url);

/** An interval in milliseconds whose next tick is weeks away. */
export const NEVER = 2 ** 31 - 1;

export interface Entry {
  symbol: string;
  price: number;
  timestamp: number;
}

/** Returns the prices of a tick or a snapshot. */
export function pricesOf(message: LifecycleMessage): Map<string, number> {
  if (message.topic !== 'ws.send') throw new Error(message.topic);
  const { data } = JSON.parse(message.data) as { data: Entry[] };
  return new Map(data.map(({ symbol, price }) => [symbol, price]));
}

/** Creates a ticker without starting it. */
export function createTicker(options: Partial<TickerOptions> = {}) {
  const processes = new PidRegistry();
  const captured = captureLog();
  const ticks: { clients: Pid[]; message: LifecycleMessage }[] = [];
  let ticked = Promise.withResolvers<void>();
  const ticker = new Ticker({
    intervalMs: 10,
    symbols: defaultSymbols,
    processes,
    broadcast(clients, message) {
      ticks.push({ clients: [...clients], message });
      ticked.resolve();
      ticked = Promise.withResolvers();
    },
    log: captured.log,
    ...options,
  });
  afterTest(() => ticker.stop());
  processes.register(TICKER, ticker);

  return {
    ...captured,
    ticker,
    processes,
    ticks,
    /** Returns the next tick from now on that is sent to exactly these clients. */
    async tickTo(...clients: Pid[]) {
      const from = ticks.length;
      for (;;) {
        const found = ticks.slice(from).find((tick) => tick.clients.join() === clients.join());
        if (found !== undefined) return found;
        await ticked.promise;
      }
    },
    /** Subscribes a new handler with its own client. */
    subscribe() {
      const recorder = new Recorder();
      const handler = processes.spawn('handler', () => new Recorder());
      const client = processes.spawn('client', () => recorder);
      processes.send(TICKER, { topic: 'subscribe', client_pid: client, handler_pid: handler });
      const unsubscribe = () => processes.send(TICKER, { topic: 'unsubscribe', handler_pid: handler });
      return { recorder, handler, client, unsubscribe };
    },
    /** Unsubscribes `poison`, which kills a mortal thread and makes the hanging one hang. */
    die() {
      const poison = processes.spawn('client', () => new Recorder());
      processes.register('poison', new Recorder());
      processes.send(TICKER, { topic: 'subscribe', client_pid: poison, handler_pid: 'poison' });
      processes.send(TICKER, { topic: 'unsubscribe', handler_pid: 'poison' });
      processes.exit('poison', 'normal');
    },
  };
}

/** Creates and starts a ticker. */
export async function startTicker(options: Partial<TickerOptions> = {}) {
  const started = createTicker(options);
  await started.ticker.start();
  return started;
}

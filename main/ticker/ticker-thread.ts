import { Worker } from 'node:worker_threads';
import {
  type HandlerToTicker,
  type LifecycleMessage,
  type MainToTicker,
  type Pid,
  type RelayedTick,
  SUBSCRIBERS,
  type TickerStart,
  type TickerToMain,
  type WsSend,
} from '../../workers/messages.ts';
import { DELAYS, Distribution } from '../figures/distribution.ts';
import type { Log } from '../log.ts';
import { workerFile } from '../worker-file.ts';
import type { Process, Processes } from './processes.ts';
import type { TickFeed } from './tick-feed.ts';

export interface TickerThreadOptions {
  intervalMs: number;
  /** Makes the prices predictable; see `workers/seeded-prices`. */
  seed?: string | undefined;
  processes: Processes;
  /** Sends a tick to all of `clients`; see `relay`. */
  broadcast: (clients: Iterable<Pid>, message: WsSend) => void;
  /** Where one of many nodes ticks for all. */
  feed?: TickFeed | undefined;
  log: Log;
  /** The thread's code; another one in tests. */
  file?: URL;
}

/** Shared memory for the prices: more symbols than there are ever to be. */
const PRICES_BYTES = 64 * Float64Array.BYTES_PER_ELEMENT;
/** A thread that dies is followed at once; one that dies again and again by ever later ones. */
const RESTART_DELAYS_MS = [0, 100, 500, 1000, 5000] as const;
/** How often a thread is looked after, if its interval is not longer, and how often it may have done nothing since. */
const CHECK_INTERVAL_MS = 1_000;
const MAX_STILL_CHECKS = 3;
/** A thread that has lived this long starts with a clean record. */
const GOOD_LIFE_MS = 10_000;

interface Subscription {
  client: Pid;
  /** Its snapshot has been sent: only then do ticks follow. */
  live: boolean;
}

/**
 * The main thread's side of the ticker: passes subscriptions on to its thread and what the thread sends to the
 * clients, watches the handlers of the subscriptions, ends a thread that hangs, and starts a new one when one dies. The
 * prices lie in shared memory and the subscriptions here, so that the new thread goes on where the old one ended.
 */
export class TickerThread implements Process {
  readonly #options: TickerThreadOptions;
  /** From the moment when a tick was due, or came from another node, to the moment when the last client's socket had it. */
  readonly lateness = new Distribution(DELAYS);
  /** How late the event loop of the thread is. */
  readonly loopDelays: Distribution;
  readonly #prices = new SharedArrayBuffer(PRICES_BYTES);
  readonly #lastDue = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  readonly #delayCells = new SharedArrayBuffer(Distribution.bytes(DELAYS));
  readonly #subscriptions = new Map<Pid, Subscription>();
  /** Clients to which ticks go, kept apart so that a tick does not have to look for them. */
  readonly #live = new Set<Pid>();
  readonly #handlerOf = new Map<Pid, Pid>();
  /** What the thread is told at the end of this turn of the event loop: a crowd that comes at once is one message. */
  #outbox: Array<HandlerToTicker | RelayedTick> = [];
  #worker: Worker | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  #deaths = 0;
  #restarts = 0;
  #stopped = false;

  constructor(options: TickerThreadOptions) {
    this.#options = options;
    this.loopDelays = new Distribution(DELAYS, this.#delayCells);
    options.feed?.follow({
      onPrices: (prices) => this.#setPrices(prices),
      onTick: ({ prices, data }) => {
        this.#setPrices(prices);
        new Float64Array(this.#lastDue)[0] = Date.now();
        this.#post({ topic: 'tick', data });
      },
    });
  }

  get subscriptions(): number {
    return this.#subscriptions.size;
  }

  /** How often the thread had to be started again. */
  get restarts(): number {
    return this.#restarts;
  }

  /** When the last tick was due, or came from another node, in milliseconds since the epoch; 0 before the first. */
  get lastDue(): number {
    return new Float64Array(this.#lastDue)[0] as number;
  }

  /** Starts the thread. @throws {Error} when it dies before it is ready. */
  async start(): Promise<void> {
    const ready = Promise.withResolvers<void>();
    const worker = this.#spawn();
    worker.once('message', () => ready.resolve());
    worker.once('exit', () => ready.reject(new Error('the ticker thread does not start')));
    await ready.promise;
  }

  /** Takes `subscribe` and `unsubscribe`. */
  receive(message: LifecycleMessage): void {
    if (message.topic === 'subscribe') this.#subscribe(message.handler_pid, message.client_pid);
    else if (message.topic === 'unsubscribe') this.#unsubscribe(message.handler_pid);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#restartTimer);
    this.#options.feed?.compete(false);
    await this.#worker?.terminate();
  }

  #setPrices(prices: readonly number[]): void {
    new Float64Array(this.#prices).set(prices);
  }

  #subscribe(handler: Pid, client: Pid): void {
    if (this.#subscriptions.has(handler)) return;
    this.#subscriptions.set(handler, { client, live: false });
    this.#handlerOf.set(client, handler);
    this.#post({ topic: 'subscribe', client_pid: client, handler_pid: handler });
    this.#options.processes.monitor(handler, () => this.#unsubscribe(handler));
  }

  #unsubscribe(handler: Pid): void {
    const subscription = this.#subscriptions.get(handler);
    if (subscription === undefined) return;
    this.#subscriptions.delete(handler);
    this.#handlerOf.delete(subscription.client);
    this.#live.delete(subscription.client);
    this.#post({ topic: 'unsubscribe', handler_pid: handler });
  }

  #post(message: HandlerToTicker | RelayedTick): void {
    if (this.#outbox.push(message) > 1) return;
    setImmediate(() => {
      this.#worker?.postMessage(this.#outbox satisfies MainToTicker);
      this.#outbox = [];
    });
  }

  #onMessage(message: TickerToMain): void {
    const { feed } = this.#options;
    if ('topic' in message) {
      feed?.compete(!this.#stopped);
      return;
    }
    if (message.to === SUBSCRIBERS) {
      const { prices, message: tick } = message;
      if (prices !== undefined && feed?.publish({ prices, data: tick.data }) !== true) return;
      this.#options.broadcast(this.#live, message.message);
      this.lateness.observe(Math.max(0, Date.now() - this.lastDue) / 1000);
      return;
    }
    for (const client of message.to) {
      const subscription = this.#subscriptions.get(this.#handlerOf.get(client) ?? '');
      if (subscription === undefined) continue;
      subscription.live = true;
      this.#live.add(client);
      this.#options.processes.send(client, message.message);
    }
  }

  #spawn(): Worker {
    const { intervalMs, seed, feed, log, file = workerFile('ticker') } = this.#options;
    const all = [...this.#subscriptions];
    const subscriptions = all.filter(([, { live }]) => live).map(([handler, { client }]) => [handler, client] as const);
    const workerData: TickerStart = {
      intervalMs,
      seed,
      prices: this.#prices,
      lastDue: this.#lastDue,
      lease: feed?.lease,
      delays: { bounds: DELAYS, cells: this.#delayCells },
      subscriptions,
    };
    const worker = new Worker(file, { workerData, name: 'ticker' });
    const startedAt = Date.now();
    worker.on('message', (message: TickerToMain) => this.#onMessage(message));
    worker.on('error', (error) => log.error({ err: error }, 'the ticker thread failed'));
    worker.once('exit', (code) => this.#onExit(code, Date.now() - startedAt));
    this.#worker = worker;
    this.#watch(worker);
    // What was meant for the earlier thread is in `subscriptions`, or among these, which still wait for their snapshot.
    this.#outbox.length = 0;
    for (const [handler, { client, live }] of all) {
      if (!live) this.#post({ topic: 'subscribe', client_pid: client, handler_pid: handler });
    }
    return worker;
  }

  /**
   * Ends a thread that hangs: the prices, which move at every tick, have been the same at several checks. Where they may stand
   * still because another node makes them, what the thread notes of its event loop has.
   */
  #watch(worker: Worker): void {
    const { intervalMs, feed, log } = this.#options;
    const signs = new Float64Array(feed === undefined ? this.#prices : this.#delayCells);
    let seen = signs.join();
    // Counts from the first tick on, however long the thread takes to start.
    let still = Number.NEGATIVE_INFINITY;
    const check = () => {
      const now = signs.join();
      still = now === seen ? still + 1 : 0;
      seen = now;
      if (still >= 0) feed?.compete(still === 0);
      if (still <= MAX_STILL_CHECKS) return;
      clearInterval(timer);
      log.error('the ticker thread hangs: it is ended');
      void worker.terminate();
    };
    const timer = setInterval(check, feed === undefined ? Math.max(intervalMs, CHECK_INTERVAL_MS) : CHECK_INTERVAL_MS);
    worker.once('exit', () => clearInterval(timer));
  }

  #onExit(code: number, lifeMs: number): void {
    this.#worker = undefined;
    if (this.#stopped) return;
    this.#options.feed?.compete(false);
    this.#deaths = lifeMs >= GOOD_LIFE_MS ? 0 : this.#deaths;
    const delayMs = RESTART_DELAYS_MS[Math.min(this.#deaths++, RESTART_DELAYS_MS.length - 1)] as number;
    this.#options.log.error({ code, delayMs }, 'the ticker thread ended: it is started again');
    this.#restarts += 1;
    this.#restartTimer = setTimeout(() => this.#spawn(), delayMs);
  }
}

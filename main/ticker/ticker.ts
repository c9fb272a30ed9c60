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
import type { Log } from '../log.ts';
import { DELAY_BOUNDS, Histogram } from '../metrics/histogram.ts';
import { SupervisedWorker } from '../supervised-worker.ts';
import { workerFile } from '../worker-file.ts';
import type { PidRegistry, Process } from './pid-registry.ts';
import type { TickFeed } from './tick-feed.ts';

export interface TickerOptions {
  intervalMs: number;
  /** Seed of deterministic prices; see `workers/seeded-prices`. Random prices if undefined. */
  seed?: string | undefined;
  processes: PidRegistry;
  broadcast: (clients: Iterable<Pid>, message: WsSend) => void;
  /** Sends the leader's ticks to the other nodes. Undefined if each node makes its own ticks. */
  feed?: TickFeed | undefined;
  log: Log;
  /** Module of the ticker thread. Specs replace it. */
  file?: URL;
}

/** Size of the shared memory for prices: room for 64 symbols. */
const PRICES_BYTES = 64 * Float64Array.BYTES_PER_ELEMENT;
const RESTART_DELAYS_MS = [0, 100, 500, 1000, 5000] as const;
const STABLE_AFTER_MS = 10_000;

/**
 * The process (actor) `ticker`: passes subscriptions to the ticker thread, and the thread's snapshots and ticks to the clients.
 * Prices are in shared memory, and subscriptions are kept here, so that a restarted thread continues with both.
 */
export class Ticker implements Process {
  readonly #options: TickerOptions;
  /** Histogram of the seconds from when a tick was due, or arrived from another node, until it was written to the last socket. */
  readonly lateness = new Histogram(DELAY_BOUNDS);
  readonly loopDelays: Histogram;
  readonly #prices = new SharedArrayBuffer(PRICES_BYTES);
  readonly #lastDue = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  readonly #delayCells = new SharedArrayBuffer(Histogram.bytes(DELAY_BOUNDS));
  /** Pid of the client by pid of the subscribed handler. */
  readonly #subscriptions = new Map<Pid, Pid>();
  /** Clients whose snapshot was requested from the thread and is not sent yet. They receive no ticks. */
  readonly #waiting = new Set<Pid>();
  /** Clients whose snapshot was sent. Only they receive ticks. */
  readonly #live = new Set<Pid>();
  readonly #thread: SupervisedWorker<MainToTicker, TickerToMain>;
  /** Messages for the thread, collected until the end of the event loop turn and sent together. */
  #outbox: Array<HandlerToTicker | RelayedTick> = [];
  #isStopped = false;

  constructor(options: TickerOptions) {
    this.#options = options;
    const { feed, log, file = workerFile('ticker') } = options;
    this.loopDelays = new Histogram(DELAY_BOUNDS, this.#delayCells);
    this.#thread = new SupervisedWorker({
      name: 'ticker',
      file,
      workerData: (heartbeat) => this.#threadStart(heartbeat),
      restartDelaysMs: RESTART_DELAYS_MS,
      stableAfterMs: STABLE_AFTER_MS,
      onMessage: (message: TickerToMain) => this.#onMessage(message),
      onSpawn: () => this.#resubscribe(),
      onExit: () => feed?.setLeaseWanted(false),
      onHeartbeat: (isBeating) => feed?.setLeaseWanted(isBeating),
      log,
    });
    feed?.follow({
      onPrices: (prices) => this.#setPrices(prices),
      onTick: ({ prices, data }) => {
        this.#setPrices(prices);
        const due = Date.now();
        new Float64Array(this.#lastDue)[0] = due;
        this.#post({ topic: 'tick', data, due });
      },
    });
  }

  get subscriptions(): number {
    return this.#subscriptions.size;
  }

  get restarts(): number {
    return this.#thread.restarts;
  }

  /** Time at which the last tick was due, or arrived from another node, in milliseconds since the epoch; 0 before the first. */
  get lastDue(): number {
    return new Float64Array(this.#lastDue)[0] as number;
  }

  /** Starts the ticker thread. @throws {Error} if the thread ends before it is ready */
  start(): Promise<void> {
    return this.#thread.ready();
  }

  receive(message: LifecycleMessage): void {
    if (message.topic === 'subscribe') this.#subscribe(message.handler_pid, message.client_pid);
    else if (message.topic === 'unsubscribe') this.#unsubscribe(message.handler_pid);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#options.feed?.setLeaseWanted(false);
    await this.#thread.stop();
  }

  #setPrices(prices: readonly number[]): void {
    new Float64Array(this.#prices).set(prices);
  }

  #subscribe(handler: Pid, client: Pid): void {
    if (this.#subscriptions.has(handler)) return;
    this.#subscriptions.set(handler, client);
    this.#waiting.add(client);
    this.#post({ topic: 'subscribe', client_pid: client, handler_pid: handler });
    this.#options.processes.monitor(handler, () => this.#unsubscribe(handler));
  }

  #unsubscribe(handler: Pid): void {
    const client = this.#subscriptions.get(handler);
    if (client === undefined) return;
    this.#subscriptions.delete(handler);
    this.#waiting.delete(client);
    this.#live.delete(client);
    this.#post({ topic: 'unsubscribe', handler_pid: handler });
  }

  #post(message: HandlerToTicker | RelayedTick): void {
    if (this.#outbox.push(message) > 1) return;
    setImmediate(() => {
      this.#thread.post(this.#outbox);
      this.#outbox = [];
    });
  }

  #onMessage(message: TickerToMain): void {
    if ('topic' in message) this.#options.feed?.setLeaseWanted(!this.#isStopped);
    else if (message.to === SUBSCRIBERS) this.#broadcast(message);
    else for (const client of message.to) this.#sendSnapshot(client, message.message);
  }

  #broadcast({ message, due, prices }: TickMessage): void {
    const { feed, broadcast } = this.#options;
    if (prices !== undefined && feed?.publish({ prices, data: message.data }) !== true) return;
    broadcast(this.#live, message);
    this.lateness.observe(Math.max(0, Date.now() - due) / 1000);
  }

  #sendSnapshot(client: Pid, snapshot: WsSend): void {
    if (!this.#waiting.delete(client)) return;
    this.#live.add(client);
    this.#options.processes.send(client, snapshot);
  }

  #threadStart(heartbeat: SharedArrayBuffer): TickerStart {
    const { intervalMs, seed, feed } = this.#options;
    return {
      intervalMs,
      seed,
      prices: this.#prices,
      lastDue: this.#lastDue,
      lease: feed?.lease,
      delays: { bounds: DELAY_BOUNDS, cells: this.#delayCells },
      heartbeat,
      subscriptions: [...this.#subscriptions].filter(([, client]) => this.#live.has(client)),
    };
  }

  /** Requests a snapshot from a new thread for each client without one. The thread knows the others from its worker data. */
  #resubscribe(): void {
    this.#outbox.length = 0;
    for (const [handler, client] of this.#subscriptions) {
      if (this.#waiting.has(client)) this.#post({ topic: 'subscribe', client_pid: client, handler_pid: handler });
    }
  }
}

type TickMessage = Extract<TickerToMain, { to: typeof SUBSCRIBERS }>;

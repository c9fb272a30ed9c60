import { DELAY_BOUNDS, Histogram } from '../../workers/histogram.ts';
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
import { symbolNames, type TickerSymbol } from '../../workers/symbols.ts';
import type { Log } from '../log.ts';
import { SupervisedWorker } from '../supervised-worker.ts';
import { workerFile } from '../worker-file.ts';
import type { Monitor, PidRegistry, Process } from './pid-registry.ts';
import { PriceHistory } from './price-history.ts';
import { SourceStatus } from './source-status.ts';
import { isThreadMessage } from './thread-message.ts';
import type { Tick, TickFeed } from './tick-feed.ts';

export interface TickerOptions {
  intervalMs: number;
  symbols: readonly TickerSymbol[];
  seed?: string | undefined;
  /** CSV file or module that supplies the prices. If undefined, prices follow a random walk. */
  source?: string | undefined;
  processes: PidRegistry;
  broadcast: (clients: Iterable<Pid>, message: WsSend) => void;
  /** Exchanges ticks with other nodes. Undefined if each node makes its own ticks. */
  feed?: TickFeed | undefined;
  log: Log;
  file?: URL;
}

const RESTART_DELAYS_MS = [0, 100, 500, 1000, 5000] as const;
const STABLE_AFTER_MS = 10_000;
/** Minimum interval between messages to the ticker thread. Waking the thread for each of many new clients would be expensive. */
const POST_INTERVAL_MS = 5;

/** Passes subscriptions to the ticker thread and ticks to the clients. Subscriptions survive a thread restart. */
export class Ticker implements Process, Monitor {
  readonly #options: TickerOptions;
  /** Seconds from when a tick was due, or arrived from another node, until it was written to the last socket. */
  readonly lateness = new Histogram(DELAY_BOUNDS);
  readonly loopDelays: Histogram;
  readonly source: SourceStatus;
  readonly history: PriceHistory;
  readonly #prices: Float64Array<SharedArrayBuffer>;
  readonly #symbolNames: string;
  #refusesTicks = false;
  readonly #lastDue = new Float64Array(new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT));
  readonly #delayCells = new SharedArrayBuffer(Histogram.bytes(DELAY_BOUNDS));
  /** Pid of each subscribed client, by the pid of the client's WebSocket handler. */
  readonly #subscriptions = new Map<Pid, Pid>();
  /** Clients that wait for a snapshot from the ticker thread and do not receive ticks yet. */
  readonly #waiting = new Set<Pid>();
  /** Clients that have received a snapshot and now receive ticks. */
  readonly #live = new Set<Pid>();
  readonly #thread: SupervisedWorker<MainToTicker, TickerToMain>;
  #outbox: Array<HandlerToTicker | RelayedTick> = [];
  #postedAt = 0;
  #isStopped = false;

  constructor(options: TickerOptions) {
    this.#options = options;
    const { intervalMs, symbols, source, feed, log, file = workerFile('ticker') } = options;
    this.history = new PriceHistory(symbols, intervalMs);
    this.source = new SourceStatus(source, log);
    this.#symbolNames = symbolNames(symbols);
    this.#prices = new Float64Array(new SharedArrayBuffer(symbols.length * Float64Array.BYTES_PER_ELEMENT));
    this.#prices.set(symbols.map(({ price }) => price));
    this.loopDelays = new Histogram(DELAY_BOUNDS, this.#delayCells);
    this.#thread = new SupervisedWorker({
      name: 'ticker',
      file,
      workerData: (heartbeat) => this.#threadStart(heartbeat),
      restartDelaysMs: RESTART_DELAYS_MS,
      stableAfterMs: STABLE_AFTER_MS,
      isMessage: isThreadMessage,
      onMessage: (message) => this.#onMessage(message),
      onOutput: source === undefined ? undefined : (text) => this.source.onOutput(text),
      onSpawn: () => this.#resubscribe(),
      onExit: () => {
        this.source.onExit();
        feed?.setLeaseWanted(false);
      },
      onHeartbeat: (isBeating) => feed?.setLeaseWanted(isBeating),
      log,
    });
    feed?.follow({
      onPrices: (tick) => this.#setPrices(tick),
      onTick: (tick) => this.#onRelayedTick(tick),
    });
  }

  get subscriptions(): number {
    return this.#subscriptions.size;
  }

  get restarts(): number {
    return this.#thread.restarts;
  }

  /** Whether the last tick from another node was refused because its symbols differ from this node's. */
  get refusesTicks(): boolean {
    return this.#refusesTicks;
  }

  /**
   * Unix time in milliseconds of the last tick: when the tick was due, or when it arrived if another node made it. 0
   * before the first tick.
   */
  get lastDue(): number {
    return this.#lastDue[0] as number;
  }

  start(): Promise<void> {
    return this.#thread.ready();
  }

  receive(message: LifecycleMessage): void {
    if (message.topic === 'subscribe') this.#subscribe(message.handler_pid, message.client_pid);
    else if (message.topic === 'unsubscribe') this.#unsubscribe(message.handler_pid);
  }

  onExit(handler: Pid): void {
    this.#unsubscribe(handler);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#options.feed?.setLeaseWanted(false);
    await this.#thread.stop();
  }

  #onRelayedTick(tick: Tick): void {
    const isRefused = tick.symbols !== this.#symbolNames;
    if (isRefused && !this.#refusesTicks) {
      const { symbols } = tick;
      this.#options.log.warn({ symbols }, 'ticks of the leader are refused: their symbols differ (TICKER_SYMBOLS)');
    }
    this.#refusesTicks = isRefused;
    if (isRefused) return;
    this.#setPrices(tick);
    this.history.add(tick.data, tick.prices);
    const due = Date.now();
    this.#lastDue[0] = due;
    this.#post({ topic: 'tick', data: tick.data, due });
  }

  /** Copies the prices of another node's tick. A symbol that is not in the tick keeps its price. */
  #setPrices({ symbols, prices }: Tick): void {
    const names = symbols.split(',');
    for (const [index, { symbol }] of this.#options.symbols.entries()) {
      this.#prices[index] = prices[names.indexOf(symbol)] ?? (this.#prices[index] as number);
    }
  }

  #subscribe(handler: Pid, client: Pid): void {
    if (this.#subscriptions.has(handler)) return;
    this.#subscriptions.set(handler, client);
    this.#waiting.add(client);
    this.#post({ topic: 'subscribe', client_pid: client, handler_pid: handler });
    this.#options.processes.monitor(handler, this);
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
    const waitMs = this.#postedAt + POST_INTERVAL_MS - performance.now();
    if (waitMs > 0) setTimeout(() => this.#flush(), waitMs);
    else setImmediate(() => this.#flush());
  }

  #flush(): void {
    if (this.#outbox.length === 0) return;
    this.#postedAt = performance.now();
    this.#thread.post(this.#outbox);
    this.#outbox = [];
  }

  #onMessage(message: TickerToMain): void {
    if ('topic' in message) {
      if (message.topic === 'source') this.source.onProblem(message.problem);
      else this.#options.feed?.setLeaseWanted(!this.#isStopped);
    } else if (message.to === SUBSCRIBERS) this.#broadcast(message);
    else for (const client of message.to) this.#sendSnapshot(client, message.message);
  }

  #broadcast({ message, due, prices }: TickMessage): void {
    const { feed, broadcast } = this.#options;
    if (prices !== undefined) {
      const tick = { symbols: this.#symbolNames, prices, data: message.data };
      if (feed?.publish(tick) === false) return;
      this.#refusesTicks = false;
      this.history.add(message.data, prices);
    }
    if (this.#live.size === 0) return;
    broadcast(this.#live, message);
    this.lateness.observe(Math.max(0, Date.now() - due) / 1000);
  }

  #sendSnapshot(client: Pid, snapshot: WsSend): void {
    if (!this.#waiting.delete(client)) return;
    this.#live.add(client);
    this.#options.processes.send(client, snapshot);
  }

  #threadStart(heartbeat: SharedArrayBuffer): TickerStart {
    const { intervalMs, symbols, seed, source, feed } = this.#options;
    return {
      intervalMs,
      symbols,
      seed,
      source,
      sourceCounts: this.source.memory,
      prices: this.#prices.buffer,
      lastDue: this.#lastDue.buffer,
      lease: feed?.lease,
      delays: { bounds: DELAY_BOUNDS, cells: this.#delayCells },
      heartbeat,
      subscriptions: [...this.#subscriptions].filter(([, client]) => this.#live.has(client)),
    };
  }

  /** Requests missing snapshots from a new thread. Clients that have a snapshot are in the thread's `workerData`. */
  #resubscribe(): void {
    this.#outbox.length = 0;
    for (const [handler, client] of this.#subscriptions) {
      if (this.#waiting.has(client)) this.#post({ topic: 'subscribe', client_pid: client, handler_pid: handler });
    }
  }
}

type TickMessage = Extract<TickerToMain, { to: typeof SUBSCRIBERS }>;

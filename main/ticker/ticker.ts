import type { Clock } from '../../workers/shared/clock.ts';
import { DELAY_BOUNDS, Histogram } from '../../workers/shared/histogram.ts';
import { RepeatLimit } from '../../workers/shared/repeat-limit.ts';
import { symbolNames, type TickerSymbol } from '../../workers/shared/symbols.ts';
import { type MadeTick, SourceCount, type TickerStart, type TickerToMain } from '../../workers/ticker/messages.ts';
import type { Log } from '../log/log.ts';
import { SupervisedThread, threadFile } from '../threads/supervised-thread.ts';
import type { Replayed, TickMessage } from './connection.ts';
import { NumberedStream, type NumberedTick, priceEntries, type TickId } from './numbered-stream.ts';
import type { Actor, LifecycleMessage, Monitor, Pid, PidRegistry, WsSend } from './pid-registry.ts';
import { type PriceHistory, priceHistory } from './prices.ts';

/** One update of all prices, as published to other nodes. */
export interface Tick {
  /** Comma-separated names of the symbols. Nodes with other symbols refuse the tick. */
  symbols: string;
  /** One price per symbol, in the order of `symbols`. */
  prices: readonly number[];
  /** Unix time in seconds. */
  timestamp: number;
}

export interface TickFollower {
  /** Called with each tick from another node, which must be sent to this node's clients. */
  onTick(tick: Tick & TickId): void;
  /** Called with the last stored tick, from whose prices the ticker continues. The ticker must not broadcast it. */
  onPrices(tick: Tick & TickId): void;
}

/** Connects the tickers of several nodes. Only the leader makes ticks. Other nodes receive each tick at most once. */
export interface TickFeed {
  /** Float64Array with this node's lease expiry (monotonic clock, ms); in the past if the node has no lease. */
  readonly lease: SharedArrayBuffer;
  readonly isLeader: boolean;
  follow(follower: TickFollower): void;
  /** Acquires and renews the lease if `wanted` is true, otherwise releases the lease. */
  setLeaseWanted(wanted: boolean): void;
  /** Publishes a tick. @returns undefined if this node's lease has expired and the tick must be discarded */
  publish(tick: Tick): TickId | undefined;
  /** Releases the lease and stops receiving ticks. */
  close(): Promise<void>;
}

export interface TickerOptions {
  intervalMs: number;
  symbols: readonly TickerSymbol[];
  seed?: string | undefined;
  source?: string | undefined;
  actors: PidRegistry;
  broadcast: (clients: Iterable<Pid>, message: TickMessage) => void;
  replay: (client: Pid, messages: Iterator<Replayed>, seq: number) => void;
  /** Undefined if each node makes its own ticks. */
  feed?: TickFeed | undefined;
  clock: Clock;
  log: Log;
  file?: URL;
}

/** Keeps the subscriptions, and sends the ticks of the ticker thread, or of the leading node, to the clients. */
export class Ticker implements Actor, Monitor {
  readonly #options: TickerOptions;
  /** Seconds from when a tick was due, or arrived from another node, until it was written to the last socket. */
  readonly lateness = new Histogram(DELAY_BOUNDS);
  readonly loopDelays: Histogram;
  readonly source: SourceStatus;
  readonly history: PriceHistory;
  readonly numbered: NumberedStream;
  readonly #symbolNames: string;
  readonly #startedAt: number;
  /** Prices from which the ticker thread continues. */
  readonly #prices: Float64Array<SharedArrayBuffer>;
  /** The last tick, for new subscribers: a second has only one price, whether in a snapshot or in a tick. */
  #snapshot: WsSend;
  readonly #lastDue = new Float64Array(new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT));
  readonly #delayMemory = new SharedArrayBuffer(Histogram.bytes(DELAY_BOUNDS));
  /** Subscribed clients by the pids of their handlers. */
  readonly #clients = new Map<Pid, Pid>();
  /** Listeners in this process. */
  readonly #followers = new Set<(message: WsSend) => void>();
  readonly #thread: SupervisedThread<never, TickerToMain | null>;
  /** Whether the last tick from another node was refused because its symbols differ from this node's. */
  refusesTicks = false;
  #isStopped = false;

  constructor(options: TickerOptions) {
    this.#options = options;
    const { intervalMs, symbols, seed, source, feed, log, file = threadFile('ticker/ticker') } = options;
    this.history = priceHistory(symbols, intervalMs);
    this.source = new SourceStatus(source, log);
    this.#symbolNames = symbolNames(symbols);
    this.#prices = new Float64Array(new SharedArrayBuffer(symbols.length * Float64Array.BYTES_PER_ELEMENT));
    this.#prices.set(symbols.map(({ price }) => price));
    this.#startedAt = Math.floor(options.clock.now());
    this.numbered = new NumberedStream({ ...options, continues: feed !== undefined }, this.#initialTick());
    this.#snapshot = this.#message(this.numbered.newest);
    this.loopDelays = new Histogram(DELAY_BOUNDS, this.#delayMemory);
    this.#thread = new SupervisedThread({
      name: 'ticker',
      file,
      workerData: (heartbeat): TickerStart => ({
        intervalMs,
        symbols,
        seed,
        source,
        sourceCounts: this.source.memory,
        prices: this.#prices.buffer,
        now: options.clock.now(),
        lastDue: this.#lastDue.buffer,
        lease: feed?.lease,
        delays: this.#delayMemory,
        heartbeat,
      }),
      onMessage: (message) => this.#onMessage(message),
      onOutput: source === undefined ? undefined : (text) => this.source.onOutput(text),
      onExit: () => {
        this.source.problem = undefined;
        feed?.setLeaseWanted(false);
      },
      onHeartbeat: (isBeating) => feed?.setLeaseWanted(isBeating && !this.#isStopped),
      log,
    });
    feed?.follow({
      onPrices: (tick) => {
        const names = tick.symbols.split(',');
        for (const [index, { symbol }] of symbols.entries()) {
          this.#prices[index] = tick.prices[names.indexOf(symbol)] ?? (this.#prices[index] as number);
        }
        this.#keep({ ...tick, prices: [...this.#prices] });
      },
      onTick: (tick) => this.#onRelayedTick(tick),
    });
  }

  /** Calls `listener` with the newest prices, now and at each tick. @returns a function that ends this */
  follow(listener: (message: WsSend) => void): () => void {
    this.#followers.add(listener);
    listener(this.#snapshot);
    return () => this.#followers.delete(listener);
  }

  get subscriptions(): number {
    return this.#clients.size + this.numbered.size;
  }

  get restarts(): number {
    return this.#thread.restarts;
  }

  /**
   * Unix time in milliseconds of the last tick: when the tick was due, or when it arrived if another node made it. 0
   * before the first tick.
   */
  get lastDue(): number {
    return this.#lastDue[0] as number;
  }

  start(): Promise<void> {
    return this.#thread.start();
  }

  receive(message: LifecycleMessage): void {
    if (message.topic === 'subscribe') this.#subscribe(message.handler_pid, message.client_pid);
    else if (message.topic === 'unsubscribe') this.#clients.delete(message.handler_pid);
  }

  onExit(handler: Pid): void {
    this.#clients.delete(handler);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#options.feed?.setLeaseWanted(false);
    await this.#thread.stop();
  }

  #subscribe(handler: Pid, client: Pid): void {
    const { actors } = this.#options;
    if (this.#clients.has(handler)) return;
    this.#clients.set(handler, client);
    actors.monitor(handler, this);
    actors.send(client, this.#snapshot);
  }

  #onMessage(message: TickerToMain | null): void {
    // A price source can post any value through the port of its thread.
    switch (message?.topic) {
      case 'ready':
        // Seeded prices depend on the time. With a feed, the snapshot is a tick that other nodes have sent, too.
        if (this.lastDue === 0 && this.#options.feed === undefined) this.#keep(this.#initialTick());
        this.#options.feed?.setLeaseWanted(!this.#isStopped);
        break;
      case 'source':
        this.source.onProblem(message.problem);
        break;
      case 'tick':
        this.#onMadeTick(message);
    }
  }

  #onMadeTick(tick: MadeTick): void {
    const { prices, timestamp, due } = tick;
    const { feed } = this.#options;
    const id = feed === undefined ? this.#idAt(due) : feed.publish({ symbols: this.#symbolNames, prices, timestamp });
    if (id === undefined) return;
    this.refusesTicks = false;
    this.#broadcast({ ...tick, ...id });
  }

  /** Returns the id of the next tick of a single node. With a seed, all nodes make the same ticks. */
  #idAt(due: number): TickId {
    const { seed, intervalMs } = this.#options;
    if (seed !== undefined) return { epoch: 0, number: Math.floor(due / intervalMs) };
    return { epoch: this.#startedAt, number: this.numbered.newest.number + 1 };
  }

  #onRelayedTick(tick: Tick & TickId): void {
    const { symbols } = tick;
    const isRefused = symbols !== this.#symbolNames;
    if (isRefused && !this.refusesTicks) {
      this.#options.log.warn({ symbols }, 'ticks of the leader are refused: their symbols differ (TICKER_SYMBOLS)');
    }
    this.refusesTicks = isRefused;
    if (isRefused) return;
    const due = this.#options.clock.now();
    this.#lastDue[0] = due;
    this.#broadcast({ ...tick, due });
  }

  #broadcast(tick: MadeTick & TickId): void {
    const { broadcast, clock } = this.#options;
    const { epoch, number, prices, timestamp, due } = tick;
    this.#snapshot = this.#message(tick);
    this.history.add(timestamp, prices);
    this.numbered.add({ epoch, number, prices, timestamp });
    for (const follow of this.#followers) follow(this.#snapshot);
    if (this.subscriptions === 0) return;
    if (this.#clients.size > 0) broadcast(this.#clients.values(), this.#snapshot);
    this.lateness.observe(Math.max(0, clock.now() - due) / 1000);
  }

  #keep(tick: NumberedTick): void {
    this.numbered.keep(tick);
    this.#snapshot = this.#message(tick);
  }

  /** The prices before the first tick. */
  #initialTick(): NumberedTick {
    const { seed, feed, intervalMs, clock } = this.#options;
    const now = Math.floor(clock.now());
    const isSeeded = seed !== undefined;
    return {
      epoch: isSeeded || feed !== undefined ? 0 : this.#startedAt,
      number: isSeeded ? Math.floor(now / intervalMs) : 0,
      prices: [...this.#prices],
      timestamp: Math.floor(now / 1000),
    };
  }

  #message(tick: Pick<NumberedTick, 'prices' | 'timestamp'>): WsSend {
    const entries = priceEntries(this.#options.symbols, tick);
    return { topic: 'ws.send', type: 'text', data: `{"type":"ticker","data":[${entries}]}` };
  }
}

const MAX_OUTPUT_CHARACTERS = 8192;
const RECOVERED = 'the price source has recovered';

/** Status of the price source, as reported by the ticker thread. */
export class SourceStatus {
  /** Counters that the ticker thread increments, indexed by {@link SourceCount}. */
  readonly memory = new SharedArrayBuffer(SourceCount.count * Float64Array.BYTES_PER_ELEMENT);
  readonly #log: Log;
  readonly #infoLimit = new RepeatLimit();
  /** Undefined if the price source works. */
  problem: string | undefined;

  constructor(source: string | undefined, log: Log) {
    this.#log = log.child({ source });
  }

  get counts(): { failed: number; stalled: number; refused: number } {
    const [failed = 0, stalled = 0, refused = 0] = new Float64Array(this.memory);
    return { failed, stalled, refused };
  }

  onProblem(problem: string | undefined): void {
    this.problem = problem;
    if (problem !== undefined) {
      this.#log.warn({ problem }, 'the price source fails: the last prices are kept');
      return;
    }
    const reportSuppressed = (suppressed: number) =>
      this.#log.info({ suppressed, repeated: RECOVERED }, 'repeated log lines were left out');
    if (this.#infoLimit.admit('recovery', reportSuppressed)) this.#log.info(RECOVERED);
  }

  onOutput(text: string): void {
    const reportSuppressed = (suppressed: number) =>
      this.#log.warn({ suppressed }, 'output of the price source was suppressed');
    if (this.#infoLimit.admit('output', reportSuppressed))
      this.#log.info(text.trimEnd().slice(0, MAX_OUTPUT_CHARACTERS));
  }
}

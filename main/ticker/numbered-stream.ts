import type { TickerSymbol } from '../../workers/shared/symbols.ts';
import type { Replayed, TickMessage } from './connection.ts';
import type { Monitor, Pid, PidRegistry } from './pid-registry.ts';

/** Identifies a tick on all nodes. Numbers continue over the epochs of several nodes, each of which has one leader. */
export interface TickId {
  epoch: number;
  number: number;
}

export interface NumberedTick extends TickId {
  /** One price per symbol, in the order of the symbols. */
  prices: ArrayLike<number>;
  /** Unix time in seconds. */
  timestamp: number;
}

export interface NumberedStreamOptions {
  symbols: readonly TickerSymbol[];
  intervalMs: number;
  actors: Pick<PidRegistry, 'monitor'>;
  broadcast: (clients: Iterable<Pid>, message: TickMessage) => void;
  /** Sends the messages, at the pace of the client, before any newer tick. */
  replay: (client: Pid, messages: Iterator<Replayed>, seq: number) => void;
  /** Whether the numbers continue from those of earlier epochs. */
  continues: boolean;
}

/** Symbols that some clients have chosen. The clients share one frame per tick. */
interface Choice {
  readonly key: string;
  readonly indexes: readonly number[];
  /** Clients by the pids of their handlers. */
  readonly clients: Map<Pid, Pid>;
}

/** Age of the oldest tick kept. With an interval below a second, fewer seconds are kept. */
const KEPT_SECONDS = 900;

/** The stream of `ticker.v2`: keeps the choices of its clients, and the last 900 ticks, at most 15 minutes, for `resume`. */
export class NumberedStream implements Monitor {
  readonly #options: NumberedStreamOptions;
  readonly #indexes: ReadonlyMap<string, number>;
  readonly #maxTicks: number;
  /** Never empty, ascending by epoch and number. */
  readonly #kept: NumberedTick[];
  /** Number of ticks that are no longer kept. Index of a tick in `#kept`, plus this, is its index among all ticks. */
  #evicted = 0;
  readonly #choices = new Map<string, Choice>();
  readonly #choiceOf = new Map<Pid, Choice>();

  constructor(options: NumberedStreamOptions, first: NumberedTick) {
    this.#options = options;
    this.#indexes = new Map(options.symbols.map(({ symbol }, index) => [symbol, index]));
    this.#maxTicks = Math.ceil((KEPT_SECONDS * 1000) / Math.max(options.intervalMs, 1000));
    this.#kept = [first];
  }

  get size(): number {
    return this.#choiceOf.size;
  }

  get newest(): NumberedTick {
    return this.#kept.at(-1) as NumberedTick;
  }

  /** Fields of the message `welcome`. */
  get description() {
    const { symbols, intervalMs } = this.#options;
    return { epoch: this.newest.epoch, interval_ms: intervalMs, symbols: symbols.map(({ symbol }) => symbol) };
  }

  /** Keeps a tick. Replaces the newest tick if it has the same id, and all ticks if the newest tick has a later id. */
  keep(tick: NumberedTick): void {
    const { epoch, number } = this.newest;
    if (tick.epoch === epoch && tick.number === number) this.#kept.pop();
    const excess = isAfter(tick, epoch, number - 1) ? this.#kept.length + 1 - this.#maxTicks : this.#kept.length;
    if (excess > 0) this.#evicted += this.#kept.splice(0, excess).length;
    this.#kept.push(tick);
  }

  /** Keeps a tick, and sends it to all clients. */
  add(tick: NumberedTick): void {
    const previousSeq = this.newest.number;
    this.keep(tick);
    if (this.#choices.size === 0) return;
    const entries = priceEntries(this.#options.symbols, tick);
    for (const { indexes, clients } of this.#choices.values()) {
      const chosen = indexes.length === entries.length ? entries : indexes.map((index) => entries[index] as string);
      this.#options.broadcast(clients.values(), message(tick, chosen, previousSeq));
    }
  }

  /** Adds a client, which gets the newest tick at once. */
  join(handler: Pid, client: Pid): void {
    this.subscribe(handler, client);
    this.#options.actors.monitor(handler, this);
  }

  /**
   * Replaces a client's choice, and sends the newest tick. Returns an unknown symbol, with which nothing is replaced.
   *
   * @param symbols all if undefined
   */
  subscribe(handler: Pid, client: Pid, symbols: Iterable<string> = this.#indexes.keys()): string | undefined {
    const names = new Set(symbols);
    const unknown = [...names].find((name) => !this.#indexes.has(name));
    if (unknown !== undefined) return unknown;
    const indexes = [...this.#indexes].flatMap(([name, index]) => (names.has(name) ? [index] : []));
    const key = indexes.join();
    this.#unsubscribe(handler);
    const choice = this.#choices.get(key) ?? { key, indexes, clients: new Map() };
    this.#choices.set(key, choice);
    choice.clients.set(handler, client);
    this.#choiceOf.set(handler, choice);
    this.#options.broadcast([client], this.#chosenMessage(this.newest, choice));
    return undefined;
  }

  /** Sends the ticks after the given one, with a `gap` for those no longer kept, and then the following ones. */
  resume(handler: Pid, client: Pid, epoch: number, seq: number): void {
    this.#options.replay(client, this.#ticksAfter(handler, epoch, seq), seq);
  }

  onExit(handler: Pid): void {
    this.#unsubscribe(handler);
  }

  #unsubscribe(handler: Pid): void {
    const choice = this.#choiceOf.get(handler);
    if (choice === undefined) return;
    this.#choiceOf.delete(handler);
    choice.clients.delete(handler);
    if (choice.clients.size === 0) this.#choices.delete(choice.key);
  }

  #chosenMessage(tick: NumberedTick, { indexes }: Choice): Required<TickMessage> {
    const { symbols } = this.#options;
    const chosen = indexes.map((index) => symbols[index] as TickerSymbol);
    const prices = indexes.map((index) => tick.prices[index] as number);
    return message(tick, priceEntries(chosen, { prices, timestamp: tick.timestamp }), tick.number - 1);
  }

  /** Yields messages until the client has the newest tick. Other ticks may be added between two of them. */
  *#ticksAfter(handler: Pid, epoch: number, seq: number): Generator<Replayed, void> {
    const { newest } = this;
    const { continues } = this.#options;
    // The node from which a client comes may be a tick ahead of this one.
    const isPresent = epoch === newest.epoch && (continues || seq <= newest.number);
    const isKnown = isPresent || (continues && epoch < newest.epoch);
    if (!isKnown) yield { data: JSON.stringify({ type: 'gap', from: null, to: null }), seq: Number.NaN };
    let last = isKnown ? seq : Number.NaN;
    const before = isKnown ? this.#kept.findLastIndex((tick) => !isAfter(tick, epoch, seq)) : -1;
    for (let next = this.#evicted + before + 1; ; next++) {
      next = Math.max(next, this.#evicted);
      const tick = this.#kept[next - this.#evicted];
      const choice = this.#choiceOf.get(handler);
      if (tick === undefined || choice === undefined) return;
      if (tick.number > last + 1) {
        const gap = { type: 'gap', from: last + 1, to: tick.number - 1 };
        yield { data: JSON.stringify(gap), seq: gap.to };
      }
      yield this.#chosenMessage(tick, choice);
      last = tick.number;
    }
  }
}

function isAfter(tick: TickId, epoch: number, number: number): boolean {
  return tick.epoch > epoch || (tick.epoch === epoch && tick.number > number);
}

function message({ epoch, number }: TickId, entries: readonly string[], previousSeq: number): Required<TickMessage> {
  const data = `{"type":"ticker","epoch":${epoch},"seq":${number},"data":[${entries}]}`;
  return { topic: 'ws.send', type: 'text', data, seq: number, previousSeq };
}

/** Returns the JSON text of each symbol's price. */
export function priceEntries(
  symbols: readonly TickerSymbol[],
  { prices, timestamp }: Pick<NumberedTick, 'prices' | 'timestamp'>,
): string[] {
  return symbols.map(({ symbol }, index) => JSON.stringify({ symbol, price: prices[index], timestamp }));
}

import type { Msg, Subscription } from '@nats-io/transport-node';
import { defaultSymbols, MAX_SYMBOLS, symbolNames } from '../../workers/symbols.ts';
import type { Tick, TickFeed, TickFollower } from '../ticker/tick-feed.ts';
import { LEASE_MS, type Lease } from './lease.ts';
import type { NatsLink } from './nats-link.ts';

export interface NatsTickFeedOptions {
  link: NatsLink;
  lease: Lease;
  subject: string;
  intervalMs: number;
}

interface TickPosition {
  /** Revision of the leader's lease. Every later leader has a higher revision. */
  epoch: number;
  number: number;
}

type OrderedTick = Tick & TickPosition;

// Time without ticks after which a tick with a lower position is accepted, because positions restart if the NATS server
// loses its files.
const ORDER_TIMEOUT_MS = 2 * LEASE_MS;
/** Symbols of ticks from version 0.1, which sends prices without symbols. */
const SYMBOLS_OF_0_1 = symbolNames(defaultSymbols);
const MAX_BYTES = 16 * 1024;

/** Sends and receives ticks over a NATS subject. A missed tick is not sent again. */
export class NatsTickFeed implements TickFeed {
  readonly #options: NatsTickFeedOptions;
  readonly #subscription: Subscription;
  #follower: TickFollower | undefined;
  #latest: TickPosition = { epoch: 0, number: 0 };
  /** Time when the latest tick was sent or received, in monotonic milliseconds. */
  #latestAt = Number.NEGATIVE_INFINITY;
  /** Stored tick that was loaded before there was a follower. `follow` passes the tick to the follower. */
  #last: Tick | undefined;

  constructor(options: NatsTickFeedOptions) {
    this.#options = options;
    this.#subscription = options.link.subscribe(options.subject, (message) => this.#onMessage(message));
  }

  get lease(): SharedArrayBuffer {
    return this.#options.lease.cell;
  }

  get isLeader(): boolean {
    return this.#options.lease.held;
  }

  follow(follower: TickFollower): void {
    this.#follower = follower;
    if (this.#last !== undefined) follower.onPrices(this.#last);
    this.#last = undefined;
  }

  setLeaseWanted(wanted: boolean): void {
    this.#options.lease.setWanted(wanted);
  }

  publish({ symbols, prices, data }: Tick): boolean {
    const { lease, link, subject } = this.#options;
    if (!lease.held) return false;
    const tick: OrderedTick = { epoch: lease.epoch, number: this.#latest.number + 1, symbols, prices, data };
    this.#setLatest(tick);
    if (link.up) link.connection.publish(subject, JSON.stringify(tick));
    return true;
  }

  /** Continues from the prices of the last stored tick, unless this node has received a later tick. */
  resumeFrom(payload: Uint8Array): void {
    const tick = parseTick(payload);
    if (tick === undefined || this.#isOutdated(tick)) return;
    this.#latest = { epoch: tick.epoch, number: tick.number };
    if (this.#follower === undefined) this.#last = tick;
    else this.#follower.onPrices(tick);
  }

  async close(): Promise<void> {
    await this.#options.lease.close();
    this.#subscription.unsubscribe();
    this.#follower = undefined;
  }

  #onMessage(message: Msg): void {
    const tick = message.data.length > MAX_BYTES ? undefined : parseTick(message.data);
    if (tick === undefined || this.#isOutdated(tick)) return;
    // Ignores a tick that this node published itself.
    if (tick.epoch === this.#latest.epoch && tick.number === this.#latest.number) return;
    const { lease } = this.#options;
    if (lease.held) {
      if (tick.epoch < lease.epoch) return;
      lease.lose();
    }
    this.#setLatest(tick);
    this.#follower?.onTick(tick);
  }

  #setLatest({ epoch, number }: TickPosition): void {
    this.#latest = { epoch, number };
    this.#latestAt = performance.now();
  }

  /** Whether a tick is older than the latest one. Always false after `ORDER_TIMEOUT_MS` without ticks. */
  #isOutdated({ epoch, number }: TickPosition): boolean {
    const latest = this.#latest;
    if (performance.now() - this.#latestAt >= Math.max(ORDER_TIMEOUT_MS, 3 * this.#options.intervalMs)) return false;
    return epoch < latest.epoch || (epoch === latest.epoch && number < latest.number);
  }
}

function parseTick(payload: Uint8Array): OrderedTick | undefined {
  try {
    const { epoch, number, symbols = SYMBOLS_OF_0_1, prices, data } = JSON.parse(new TextDecoder().decode(payload));
    if (!Number.isSafeInteger(epoch) || !Number.isSafeInteger(number) || typeof data !== 'string') return undefined;
    if (!Array.isArray(prices) || prices.length > MAX_SYMBOLS || prices.length !== symbols.split(',').length)
      return undefined;
    if (!prices.every((price) => Number.isFinite(price) && price > 0)) return undefined;
    return { epoch, number, symbols, prices, data };
  } catch {
    return undefined;
  }
}

import type { Msg, Subscription } from '@nats-io/transport-node';
import type { Tick, TickFeed, TickFollower } from '../ticker/tick-feed.ts';
import { LEASE_MS, type Lease } from './lease.ts';
import type { NatsLink } from './nats-link.ts';

export interface NatsTickFeedOptions {
  link: NatsLink;
  lease: Lease;
  subject: string;
  intervalMs: number;
}

/** Position of a tick in the order of all ticks. */
interface TickPosition {
  /** Revision of the leader's lease. Later leaders have higher ones. */
  epoch: number;
  number: number;
}

type OrderedTick = Tick & TickPosition;

/**
 * Time without ticks, or three tick intervals if that is longer, after which a tick is accepted even if its position is earlier.
 * Positions start over if the server has lost its files.
 */
const ORDER_TIMEOUT_MS = 2 * LEASE_MS;
/** Maximum number of prices in a valid tick. */
const MAX_PRICES = 64;
/** Maximum size in bytes of a message with a valid tick. */
const MAX_BYTES = 16 * 1024;

/** Tick feed over a NATS subject. Delivery is at most once: a node that misses a tick gets the next one. */
export class NatsTickFeed implements TickFeed {
  readonly #options: NatsTickFeedOptions;
  readonly #subscription: Subscription;
  #follower: TickFollower | undefined;
  #latest: TickPosition = { epoch: 0, number: 0 };
  /** Monotonic time in milliseconds at which the latest tick was published or received. */
  #latestAt = Number.NEGATIVE_INFINITY;
  /** Prices from which this node continues, kept until `follow` is called. */
  #prices: readonly number[] | undefined;

  constructor(options: NatsTickFeedOptions) {
    this.#options = options;
    this.#subscription = options.link.connection.subscribe(options.subject, {
      callback: (error, message) => {
        if (error === null) this.#onMessage(message);
      },
    });
  }

  get lease(): SharedArrayBuffer {
    return this.#options.lease.cell;
  }

  get isLeader(): boolean {
    return this.#options.lease.held;
  }

  follow(follower: TickFollower): void {
    this.#follower = follower;
    if (this.#prices !== undefined) follower.onPrices(this.#prices);
    this.#prices = undefined;
  }

  setLeaseWanted(wanted: boolean): void {
    this.#options.lease.setWanted(wanted);
  }

  publish({ prices, data }: Tick): boolean {
    const { lease, link, subject } = this.#options;
    if (!lease.held) return false;
    const tick: OrderedTick = { epoch: lease.epoch, number: this.#latest.number + 1, prices, data };
    this.#setLatest(tick);
    if (link.up) link.connection.publish(subject, JSON.stringify(tick));
    return true;
  }

  /** Continues the prices from the last tick in the stream (`payload`), unless this node has received a later tick. */
  resumeFrom(payload: Uint8Array): void {
    const tick = parseTick(payload);
    if (tick === undefined || (this.#isLatestRecent() && isBefore(tick, this.#latest))) return;
    this.#latest = { epoch: tick.epoch, number: tick.number };
    if (this.#follower === undefined) this.#prices = tick.prices;
    else this.#follower.onPrices(tick.prices);
  }

  async close(): Promise<void> {
    await this.#options.lease.close();
    if (!this.#options.link.connection.isClosed()) this.#subscription.unsubscribe();
    this.#follower = undefined;
  }

  #onMessage(message: Msg): void {
    const tick = message.data.length > MAX_BYTES ? undefined : parseTick(message.data);
    const latest = this.#latest;
    if (tick === undefined || (tick.epoch === latest.epoch && tick.number === latest.number)) return;
    if (this.#isLatestRecent() && isBefore(tick, latest)) return;
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

  /** Whether the latest tick is recent enough to reject ticks with an earlier position. */
  #isLatestRecent(): boolean {
    return performance.now() - this.#latestAt < Math.max(ORDER_TIMEOUT_MS, 3 * this.#options.intervalMs);
  }
}

function isBefore(a: TickPosition, b: TickPosition): boolean {
  return a.epoch < b.epoch || (a.epoch === b.epoch && a.number < b.number);
}

/** Parses the payload of a message. Returns undefined if it is not a valid tick. */
function parseTick(payload: Uint8Array): OrderedTick | undefined {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(payload));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { epoch, number, prices, data } = value as Partial<Record<keyof OrderedTick, unknown>>;
  if (!Number.isSafeInteger(epoch) || !Number.isSafeInteger(number) || typeof data !== 'string') return undefined;
  if (!Array.isArray(prices) || prices.length > MAX_PRICES) return undefined;
  if (!prices.every((price) => Number.isFinite(price) && price > 0)) return undefined;
  return { epoch: epoch as number, number: number as number, prices, data };
}

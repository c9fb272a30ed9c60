import type { Msg, Subscription } from '@nats-io/transport-node';
import type { NatsLink } from '../engines/nats-link.ts';
import { LEASE_MS, type Lease } from './lease.ts';
import type { Tick, TickFeed, TickFollower } from './tick-feed.ts';

export interface NatsTickFeedOptions {
  link: NatsLink;
  lease: Lease;
  /** Where the ticks go. */
  subject: string;
  /** How often there is a tick. */
  intervalMs: number;
}

/** A tick's place in the order of all. */
interface Place {
  /** The revision of its producer's lease. */
  epoch: number;
  number: number;
}

type PlacedTick = Tick & Place;

/** Past it, and past three intervals, the order starts anew: the revisions of a server that has lost its files do. */
const FORGET_MS = 2 * LEASE_MS;
const MAX_PRICES = 64;
const MAX_BYTES = 16 * 1024;

/** The ticks of all nodes over a subject of NATS; the server loses them where nobody listens, as it should. */
export class NatsTickFeed implements TickFeed {
  readonly #options: NatsTickFeedOptions;
  readonly #subscription: Subscription;
  #follower: TickFollower | undefined;
  #latest: Place = { epoch: 0, number: 0 };
  #heardAt = Number.NEGATIVE_INFINITY;
  /** What was left off at before anybody followed. */
  #prices: readonly number[] | undefined;

  constructor(options: NatsTickFeedOptions) {
    this.#options = options;
    this.#subscription = options.link.connection.subscribe(options.subject, {
      callback: (error, message) => {
        if (error === null) this.#hear(message);
      },
    });
  }

  get lease(): SharedArrayBuffer {
    return this.#options.lease.cell;
  }

  get leads(): boolean {
    return this.#options.lease.held;
  }

  follow(follower: TickFollower): void {
    this.#follower = follower;
    if (this.#prices !== undefined) follower.onPrices(this.#prices);
    this.#prices = undefined;
  }

  compete(able: boolean): void {
    this.#options.lease.compete(able);
  }

  publish({ prices, data }: Tick): boolean {
    const { lease, link, subject } = this.#options;
    if (!lease.held) return false;
    const tick: PlacedTick = { epoch: lease.epoch, number: this.#latest.number + 1, prices, data };
    this.#note(tick);
    if (link.up) link.connection.publish(subject, JSON.stringify(tick));
    return true;
  }

  /** Goes on from the last tick that the server has seen, where it is not older than what was heard here. */
  resumeFrom(payload: Uint8Array): void {
    const tick = parseTick(payload);
    if (tick === undefined || (this.#remembers() && isBefore(tick, this.#latest))) return;
    this.#latest = { epoch: tick.epoch, number: tick.number };
    if (this.#follower === undefined) this.#prices = tick.prices;
    else this.#follower.onPrices(tick.prices);
  }

  async close(): Promise<void> {
    await this.#options.lease.close();
    if (!this.#options.link.connection.isClosed()) this.#subscription.unsubscribe();
    this.#follower = undefined;
  }

  #hear(message: Msg): void {
    const tick = message.data.length > MAX_BYTES ? undefined : parseTick(message.data);
    if (tick === undefined || isSame(tick, this.#latest)) return;
    if (this.#remembers() && isBefore(tick, this.#latest)) return;
    const { lease } = this.#options;
    if (lease.held) {
      if (tick.epoch < lease.epoch) return;
      lease.lose();
    }
    this.#note(tick);
    this.#follower?.onTick(tick);
  }

  #note({ epoch, number }: Place): void {
    this.#latest = { epoch, number };
    this.#heardAt = performance.now();
  }

  #remembers(): boolean {
    return performance.now() - this.#heardAt < Math.max(FORGET_MS, 3 * this.#options.intervalMs);
  }
}

function isSame(a: Place, b: Place): boolean {
  return a.epoch === b.epoch && a.number === b.number;
}

function isBefore(a: Place, b: Place): boolean {
  return a.epoch < b.epoch || (a.epoch === b.epoch && a.number < b.number);
}

/** The tick that a message holds; undefined where it holds something else. */
function parseTick(payload: Uint8Array): PlacedTick | undefined {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(payload));
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { epoch, number, prices, data } = value as Partial<Record<keyof PlacedTick, unknown>>;
  if (!Number.isSafeInteger(epoch) || !Number.isSafeInteger(number) || typeof data !== 'string') return undefined;
  if (!Array.isArray(prices) || prices.length > MAX_PRICES) return undefined;
  if (!prices.every((price) => Number.isFinite(price) && price > 0)) return undefined;
  return { epoch: epoch as number, number: number as number, prices, data };
}

import { holdLease, type LeaseRow, leaseState } from '../../db/postgres/nodes.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { MAX_SYMBOLS } from '../../workers/shared/symbols.ts';
import type { Log } from '../log/log.ts';
import type { TickId } from '../ticker/numbered-stream.ts';
import type { Tick, TickFeed, TickFollower } from '../ticker/ticker.ts';
import type { Bus, SentTick } from './bus.ts';

export interface NodeTickFeedOptions {
  /** Its id identifies this node in the lease, which is acquired over its receiving connection. */
  bus: Bus;
  intervalMs: number;
  clock: Clock;
  log: Log;
}

/** Time after which the lease expires by the server's clock, unless it is renewed. */
const LEASE_MS = 1_750;
/** Time for which the leader uses a lease. Shorter than {@link LEASE_MS}, so two leaders never overlap. */
const USE_MS = 1_500;
const RENEW_MS = 500;
/** Nodes poll the lease, because the server does not announce its expiry. */
const POLL_MS = 250;
// Time without ticks after which a tick with a lower position is accepted, because epochs restart if the database is
// restored from a backup.
const ORDER_TIMEOUT_MS = 2 * LEASE_MS;

/**
 * Sends and receives ticks over the bus. A missed tick is not sent again.
 *
 * At most one node, the leader, holds the lease and sends ticks. The lease is one row with owner, epoch and expiry,
 * acquired and renewed by compare-and-set. With each renewal, the leader stores its last tick, so that the next leader
 * and starting nodes continue from its prices.
 *
 * The leader counts the lease time from its request by its own monotonic clock, and the server from the later write by
 * its clock. So the lease expires on the leader first, however late an answer arrives and however long the leader
 * stands still, as long as the server's clock does not jump ahead by more than the difference of the two times. Should
 * it jump, the epochs decide: nodes refuse the ticks of an earlier leader, and that leader stops at the first tick of
 * the next.
 */
export class NodeTickFeed implements TickFeed {
  /** End of this node's lease in milliseconds of `process.hrtime`, which the ticker thread reads as well. */
  readonly lease = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  /**
   * Epoch of this node's lease, higher than the epoch of any earlier leader. 0 after a release, and once
   * this node knows that another node owns the lease. Still positive after an expiry while the link is down.
   */
  epoch = 0;
  readonly #lease = new Float64Array(this.lease);
  readonly #options: NodeTickFeedOptions;
  /** End of this node's lease by its clock. */
  #leaseUntil = 0;
  #isLeaseWanted = false;
  #isClosed = false;
  #cancelTimer = () => {};
  #leaseUpdate = Promise.resolve();
  #follower: TickFollower | undefined;
  /** Newest tick that was sent, received or loaded. */
  #latest: SentTick | undefined;
  #latestAt = Number.NEGATIVE_INFINITY;

  constructor(options: NodeTickFeedOptions) {
    this.#options = options;
    options.bus.on('message', (message) => {
      if (message.topic === 'tick') this.#onTick(message);
    });
  }

  /** Loads the last stored tick. @throws {Error} if the database cannot be read */
  async open(): Promise<this> {
    this.#resumeFrom(await leaseState(this.#options.bus.receiving.query));
    return this;
  }

  get isLeader(): boolean {
    return this.#leaseUntil > this.#options.clock.now();
  }

  follow(follower: TickFollower): void {
    this.#follower = follower;
    this.#passPrices();
  }

  setLeaseWanted(wanted: boolean): void {
    if (this.#isClosed || wanted === this.#isLeaseWanted) return;
    this.#isLeaseWanted = wanted;
    this.#updateLease();
  }

  publish({ symbols, prices, timestamp }: Tick): TickId | undefined {
    if (!this.isLeader) return undefined;
    const { epoch } = this;
    const isFirst = epoch !== this.#latest?.epoch;
    const tick = { epoch, number: (this.#latest?.number ?? 0) + 1, symbols, prices, timestamp };
    this.#setLatest(tick);
    // Stores the first tick early.
    if (isFirst && this.#isLeaseWanted) this.#updateLease();
    this.#options.bus.send({ topic: 'tick', ...tick });
    return tick;
  }

  /** Releases the lease, so that another node can acquire it at once. */
  async close(): Promise<void> {
    this.setLeaseWanted(false);
    this.#isClosed = true;
    await this.#leaseUpdate;
    this.#follower = undefined;
  }

  #updateLease(): void {
    this.#cancelTimer();
    // Updates run one at a time, because each depends on the result of the previous one.
    this.#leaseUpdate = this.#leaseUpdate.then(() => this.#acquireOrRelease());
  }

  async #acquireOrRelease(): Promise<void> {
    const { bus, clock, log } = this.#options;
    if (!this.#isLeaseWanted) this.#useLease(0);
    try {
      if (bus.receiving.isUp) await (this.#isLeaseWanted ? this.#acquire() : this.#release());
    } catch (error) {
      log.debug({ err: error }, 'the ticker lease could not be acquired, renewed or released');
    }
    this.#cancelTimer();
    if (this.#isLeaseWanted) {
      this.#cancelTimer = clock.timer(this.isLeader ? RENEW_MS : POLL_MS, () => this.#updateLease());
    }
  }

  async #acquire(): Promise<void> {
    const { clock, log } = this.#options;
    const requestedAt = clock.now();
    const lease = await this.#hold(LEASE_MS);
    if (lease === undefined) return this.#loseLease();
    if (lease.epoch !== this.epoch) {
      this.epoch = lease.epoch;
      this.#resumeFrom(lease.state);
      log.info('this node is now the leader and makes the ticks');
    }
    if (this.#isLeaseWanted) this.#useLease(requestedAt + USE_MS);
  }

  async #release(): Promise<void> {
    const released = this.epoch > 0 ? this.#hold(0) : undefined;
    this.epoch = 0;
    await released;
  }

  #hold(durationMs: number): Promise<LeaseRow | undefined> {
    const { id, receiving } = this.#options.bus;
    const state = this.epoch === 0 || this.#latest === undefined ? null : JSON.stringify(this.#latest);
    return holdLease(receiving.query, id, durationMs, state);
  }

  /** Stops using the lease, because another node holds it. */
  #loseLease(): void {
    this.#useLease(0);
    this.epoch = 0;
  }

  #useLease(until: number): void {
    const { clock } = this.#options;
    this.#leaseUntil = until;
    this.#lease[0] = until === 0 ? 0 : Number(process.hrtime.bigint()) / 1e6 + until - clock.now();
  }

  /** Continues from the prices of the last stored tick, or of a later tick that this node has received. */
  #resumeFrom(state: string | null): void {
    const stored = state === null ? undefined : parse(state);
    if (stored !== undefined && !isOlder(stored, this.#latest)) this.#latest = stored;
    this.#passPrices();
  }

  #passPrices(): void {
    if (this.#latest !== undefined) this.#follower?.onPrices(this.#latest);
  }

  #onTick(tick: SentTick): void {
    if (!isTick(tick) || this.#isOutdated(tick)) return;
    if (this.isLeader) {
      if (tick.epoch < this.epoch) return;
      this.#loseLease();
    }
    this.#setLatest(tick);
    this.#follower?.onTick(tick);
  }

  #setLatest(tick: SentTick): void {
    this.#latest = tick;
    this.#latestAt = this.#options.clock.now();
  }

  /** Whether a tick is older than the latest one. Always false after `ORDER_TIMEOUT_MS` without ticks. */
  #isOutdated(tick: SentTick): boolean {
    const { clock, intervalMs } = this.#options;
    const isRecent = clock.now() - this.#latestAt < Math.max(ORDER_TIMEOUT_MS, 3 * intervalMs);
    return isRecent && isOlder(tick, this.#latest);
  }
}

function isOlder({ epoch, number }: SentTick, latest: SentTick | undefined): boolean {
  if (latest === undefined) return false;
  return epoch < latest.epoch || (epoch === latest.epoch && number < latest.number);
}

function parse(state: string): SentTick | undefined {
  try {
    const tick: SentTick = JSON.parse(state);
    return isTick(tick) ? tick : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a notification or a stored text, which anybody with access to the database can write, is a tick. */
function isTick({ epoch, number, symbols, prices, timestamp }: SentTick): boolean {
  if (![epoch, number, timestamp].every(Number.isSafeInteger) || typeof symbols !== 'string') return false;
  if (!Array.isArray(prices) || prices.length > MAX_SYMBOLS || prices.length !== symbols.split(',').length)
    return false;
  return prices.every((price) => Number.isFinite(price) && price > 0);
}

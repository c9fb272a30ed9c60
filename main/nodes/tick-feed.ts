import type { Clock } from '../../workers/shared/clock.ts';
import { MAX_SYMBOLS } from '../../workers/shared/symbols.ts';
import type { Log } from '../log/log.ts';
import type { Tick, TickFeed, TickFollower } from '../ticker/ticker.ts';
import type { Bus, SentTick } from './bus.ts';
import { LEASE_MS, Leader } from './leader.ts';

export interface NodeTickFeedOptions {
  bus: Bus;
  intervalMs: number;
  clock: Clock;
  log: Log;
}

// Time without ticks after which a tick with a lower position is accepted, because epochs restart if the database is
// restored from a backup.
const ORDER_TIMEOUT_MS = 2 * LEASE_MS;

/**
 * Sends and receives ticks over the bus. A missed tick is not sent again. The leader stores its last tick with each
 * renewal of its lease, so that the next leader and starting nodes continue from its prices.
 */
export class NodeTickFeed implements TickFeed {
  readonly #options: NodeTickFeedOptions;
  readonly #leader: Leader;
  #follower: TickFollower | undefined;
  /** Newest tick that was sent, received or loaded. */
  #latest: SentTick | undefined;
  /** Time when the latest tick was sent or received. */
  #latestAt = Number.NEGATIVE_INFINITY;
  /** Last tick of this node that is not stored yet. */
  #unstored: SentTick | undefined;

  constructor(options: NodeTickFeedOptions) {
    const { bus } = options;
    this.#options = options;
    this.#leader = new Leader({
      ...options,
      link: bus.receiving,
      owner: bus.id,
      onTaken: (state) => this.#resumeFrom(state),
      state: () => this.#takeUnstored(),
    });
    bus.on('message', (message) => {
      if (message.topic === 'tick') this.#onTick(message);
    });
  }

  /** Loads the last stored tick. @throws {Error} if the database cannot be read */
  async open(): Promise<void> {
    this.#resumeFrom(await this.#leader.state());
  }

  get lease(): SharedArrayBuffer {
    return this.#leader.cell;
  }

  get isLeader(): boolean {
    return this.#leader.isHeld;
  }

  follow(follower: TickFollower): void {
    this.#follower = follower;
    this.#passPrices();
  }

  setLeaseWanted(wanted: boolean): void {
    this.#leader.setWanted(wanted);
  }

  publish({ symbols, prices, timestamp }: Tick): boolean {
    if (!this.#leader.isHeld) return false;
    const { epoch } = this.#leader;
    const isFirst = epoch !== this.#latest?.epoch;
    const tick = { epoch, number: (this.#latest?.number ?? 0) + 1, symbols, prices, timestamp };
    this.#setLatest(tick);
    this.#unstored = tick;
    if (isFirst) this.#leader.renew();
    this.#options.bus.send({ topic: 'tick', ...tick });
    return true;
  }

  async close(): Promise<void> {
    await this.#leader.close();
    this.#follower = undefined;
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

  #takeUnstored(): string | null {
    const tick = this.#unstored;
    this.#unstored = undefined;
    return tick === undefined ? null : JSON.stringify(tick);
  }

  #onTick(tick: SentTick): void {
    if (!isTick(tick) || this.#isOutdated(tick)) return;
    if (this.#leader.isHeld) {
      if (tick.epoch < this.#leader.epoch) return;
      this.#leader.lose();
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

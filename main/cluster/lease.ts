import type { KV } from '@nats-io/kv';
import type { Log } from '../log.ts';
import type { NatsLink } from './nats-link.ts';

export interface LeaseOptions {
  link: NatsLink;
  /** Opens or creates the bucket, whose entries expire after {@link LEASE_MS}. */
  openBucket: () => Promise<KV>;
  /** Unique identifier of this node, stored in the lease's entry. */
  holder: string;
  /** Called when this node has acquired the lease. Awaited before this node uses the lease. */
  onTaken: () => Promise<void>;
  log: Log;
}

/** Time after which the server expires a lease that is not renewed. */
export const LEASE_MS = 1_750;
/** Time for which a node uses its lease after requesting it. Below {@link LEASE_MS}, so that two leaders never overlap. */
const USE_MS = 1_500;
/** Timeout of a request for the lease. With {@link RENEW_MS}, it leaves time for one failed renewal. */
const LEASE_TIMEOUT_MS = 500;
const RENEW_MS = 500;
/** Interval at which a node that is not the leader checks the lease, because an expiry sends no notification. */
const POLL_MS = 250;
const KEY = 'producer';

/**
 * A lease that one of several nodes, the leader, holds at a time: a KV entry that expires, acquired and renewed by
 * compare-and-set on its revision. Clocks of different machines are never compared: the leader measures the
 * lease from before its request and the server from the write, so the lease ends at the leader first.
 */
export class Lease {
  /** End of this node's lease in milliseconds of the monotonic clock, in memory shared with the ticker thread. */
  readonly cell = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  readonly #until = new Float64Array(this.cell);
  readonly #options: LeaseOptions;
  #bucket: KV | undefined;
  /** Revision of the lease's entry. Undefined unless this node wrote the entry and no request has failed since. */
  #revision: number | undefined;
  #epoch = 0;
  #wanted = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  /** Promise of the last queued update (acquisition, renewal or release) of the lease. */
  #update = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  get held(): boolean {
    return (this.#until[0] as number) > monotonicMs();
  }

  /** Revision of the last acquisition or renewal by this node, higher than the epochs of all earlier leaders. */
  get epoch(): number {
    return this.#epoch;
  }

  /** If `wanted`, starts to acquire and renew the lease. Otherwise, stops that and releases the lease. */
  setWanted(wanted: boolean): void {
    if (this.#closed || wanted === this.#wanted) return;
    this.#wanted = wanted;
    this.#updateNow();
  }

  /** Stops using the lease. Called when another node holds it. */
  lose(): void {
    this.#until[0] = 0;
    this.#revision = undefined;
  }

  /** Releases the lease, so that another node can acquire it at once. */
  async close(): Promise<void> {
    this.setWanted(false);
    this.#closed = true;
    await this.#update;
    clearTimeout(this.#timer);
  }

  #updateNow(): void {
    clearTimeout(this.#timer);
    // Updates of the lease run one at a time, because each needs the revision written by the previous one.
    this.#update = this.#update.then(() => this.#acquireOrRelease());
  }

  async #acquireOrRelease(): Promise<void> {
    if (!this.#wanted) this.#until[0] = 0;
    let failed = false;
    try {
      if (this.#options.link.up) await (this.#wanted ? this.#acquire() : this.#release());
    } catch (error) {
      this.#options.log.debug({ err: error }, 'the ticker lease could not be acquired, renewed or released');
      this.#bucket = undefined;
      this.#revision = undefined;
      failed = true;
    }
    clearTimeout(this.#timer);
    const waitMs = this.held && !failed ? RENEW_MS : POLL_MS;
    if (this.#wanted && !this.#closed) this.#timer = setTimeout(() => this.#updateNow(), waitMs);
  }

  /** Acquires or renews the lease, unless another node holds it. */
  async #acquire(): Promise<void> {
    this.#bucket ??= await this.#options.openBucket();
    const previousSeq = this.#revision ?? (await this.#findRevision(this.#bucket));
    if (previousSeq === undefined) return this.lose();
    const requestedAt = monotonicMs();
    this.#revision = await this.#bucket.put(KEY, this.#options.holder, { previousSeq, timeout: LEASE_TIMEOUT_MS });
    if (!this.held) {
      await this.#options.onTaken();
      this.#options.log.info('this node is now the leader and makes the ticks');
    }
    this.#epoch = this.#revision;
    if (this.#wanted) this.#until[0] = requestedAt + USE_MS;
  }

  /** Returns the revision of the entry to replace, 0 if there is no entry, or undefined if another node holds the lease. */
  async #findRevision(bucket: KV): Promise<number | undefined> {
    const entry = await bucket.get(KEY);
    if (entry === null) return 0;
    return entry.operation !== 'PUT' || entry.string() === this.#options.holder ? entry.revision : undefined;
  }

  async #release(): Promise<void> {
    const previousSeq = this.#revision;
    this.#revision = undefined;
    if (previousSeq !== undefined) await this.#bucket?.delete(KEY, { previousSeq });
  }
}

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

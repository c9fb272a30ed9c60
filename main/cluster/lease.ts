import { randomUUID } from 'node:crypto';
import type { KV } from '@nats-io/kv';
import type { NatsLink } from './nats-link.ts';

export interface LeaseOptions {
  link: NatsLink;
  /** Opens or creates the KV bucket. Its entries expire after {@link LEASE_MS}. */
  openBucket: () => Promise<KV>;
  /** Called when this node acquires the lease. The node does not use the lease until the promise resolves. */
  onTaken: () => Promise<void>;
}

/** Time after which the server expires the lease if it is not renewed. */
export const LEASE_MS = 1_750;
/** Time for which a node uses the lease after requesting it. Shorter than {@link LEASE_MS}, so two leaders never overlap. */
const USE_MS = 1_500;
/** Timeout of a lease request. Short enough to retry a failed renewal before the lease expires. */
const LEASE_TIMEOUT_MS = 500;
const RENEW_MS = 500;
/** Interval at which other nodes poll the lease. The server does not announce that the lease has expired. */
const POLL_MS = 250;
const KEY = 'producer';

/**
 * Lease that at most one node, the leader, holds at a time. The lease is a KV entry that expires. Nodes acquire and
 * renew it by compare-and-set on the entry's revision.
 *
 * The leader counts the lease time from its request, and the server counts it from the later write. The lease therefore
 * expires on the leader first.
 */
export class Lease {
  /** End of this node's lease in monotonic milliseconds, in memory shared with the ticker thread. */
  readonly cell = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  /** Revision written by this node's last acquisition or renewal. Higher than the epoch of any earlier leader. */
  epoch = 0;
  readonly #until = new Float64Array(this.cell);
  readonly #options: LeaseOptions;
  /** Unique identifier of this node, stored in the lease's entry. */
  readonly #holder = randomUUID();
  #bucket: KV | undefined;
  /** Revision of the lease entry written by this node. Undefined if the lease was lost or a request has failed. */
  #revision: number | undefined;
  #wanted = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  /** Last queued lease update: an acquisition, renewal or release. */
  #update = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  get held(): boolean {
    return (this.#until[0] as number) > monotonicMs();
  }

  /** Starts acquiring and renewing the lease if `wanted` is true. Otherwise releases the lease. */
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
  }

  #updateNow(): void {
    clearTimeout(this.#timer);
    // Lease updates run one at a time, because each needs the revision written by the previous one.
    this.#update = this.#update.then(() => this.#acquireOrRelease());
  }

  async #acquireOrRelease(): Promise<void> {
    const { link } = this.#options;
    if (!this.#wanted) this.#until[0] = 0;
    let waitMs = POLL_MS;
    try {
      if (link.up) await (this.#wanted ? this.#acquire() : this.#release());
      if (this.held) waitMs = RENEW_MS;
    } catch (error) {
      link.log.debug({ err: error }, 'the ticker lease could not be acquired, renewed or released');
      this.#bucket = undefined;
      this.#revision = undefined;
    }
    clearTimeout(this.#timer);
    if (this.#wanted) this.#timer = setTimeout(() => this.#updateNow(), waitMs);
  }

  /** Acquires or renews the lease, unless another node holds it. */
  async #acquire(): Promise<void> {
    this.#bucket ??= await this.#options.openBucket();
    const previousSeq = this.#revision ?? (await this.#findRevision(this.#bucket));
    if (previousSeq === undefined) return this.lose();
    const requestedAt = monotonicMs();
    this.#revision = await this.#bucket.put(KEY, this.#holder, { previousSeq, timeout: LEASE_TIMEOUT_MS });
    if (!this.held) {
      await this.#options.onTaken();
      this.#options.link.log.info('this node is now the leader and makes the ticks');
    }
    this.epoch = this.#revision;
    if (this.#wanted) this.#until[0] = requestedAt + USE_MS;
  }

  /** Returns the lease entry's revision, 0 if no entry exists, or undefined if another node holds the lease. */
  async #findRevision(bucket: KV): Promise<number | undefined> {
    const entry = await bucket.get(KEY);
    if (entry === null) return 0;
    return entry.operation !== 'PUT' || entry.string() === this.#holder ? entry.revision : undefined;
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

import { randomUUID } from 'node:crypto';
import type { KV } from '@nats-io/kv';
import type { NatsLink } from './nats-link.ts';

export interface LeaseOptions {
  link: NatsLink;
  /** Opens or creates the KV bucket, whose entries expire after {@link LEASE_MS}. */
  openBucket: () => Promise<KV>;
  /** Called when this node acquires the lease. The lease is not used until the promise resolves. */
  onTaken: () => Promise<void>;
}

/** Time after which the server expires the lease if it is not renewed. */
export const LEASE_MS = 1_750;
/** Time for which the leader uses a lease. Shorter than {@link LEASE_MS}, so two leaders never overlap. */
const USE_MS = 1_500;
/** Request timeout, short enough that a failed renewal can be retried before the lease expires. */
const LEASE_TIMEOUT_MS = 500;
const RENEW_MS = 500;
/** Nodes poll the lease, because the server does not announce its expiry. */
const POLL_MS = 250;
const KEY = 'producer';

/**
 * Lease held by at most one node, the leader. A KV entry that expires, acquired and renewed by compare-and-set. The
 * leader counts the lease time from its request, and the server from the later write, so the lease expires on the
 * leader first.
 */
export class Lease {
  /** End of this node's lease in monotonic milliseconds, shared with the ticker thread. */
  readonly cell = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  /** Revision written by this node's last acquisition or renewal. Higher than the epoch of any earlier leader. */
  epoch = 0;
  readonly #until = new Float64Array(this.cell);
  readonly #options: LeaseOptions;
  readonly #holder = randomUUID();
  #bucket: KV | undefined;
  /** Revision of the lease, if this node holds the lease and its last request has succeeded. */
  #revision: number | undefined;
  #wanted = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #update = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  get held(): boolean {
    return (this.#until[0] as number) > monotonicMs();
  }

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

  /** Releases the lease, so that another node can acquire the lease at once. */
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

  /** Returns the entry's revision, 0 if no entry exists, or undefined if another node holds the lease. */
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

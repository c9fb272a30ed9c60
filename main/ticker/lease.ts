import type { KV } from '@nats-io/kv';
import type { NatsLink } from '../engines/nats-link.ts';
import type { Log } from '../log.ts';

export interface LeaseOptions {
  link: NatsLink;
  /** Opens the bucket, whose entries live for {@link LEASE_MS}, and makes it where it is not. */
  openBucket: () => Promise<KV>;
  /** Who holds it: a text that no one else has. */
  holder: string;
  /** What has to be done between getting the lease and using it. */
  onTaken: () => Promise<void>;
  log: Log;
}

/** How long the server keeps the lease of one who does not renew it. */
export const LEASE_MS = 1_750;
/** How long a holder uses it from the moment when it asked: it has stopped before anybody else can begin. */
const USE_MS = 1_500;
/** A question has its answer by then; a renewal may fail before the lease is lost. */
const LEASE_TIMEOUT_MS = 500;
const RENEW_MS = 500;
/** How often one who does not hold it looks whether it is free: expiry tells nobody. */
const LOOK_MS = 250;
const KEY = 'producer';

/**
 * A lease that one of many nodes holds at a time: an entry that its server lets expire, taken and renewed by compare-and-set on
 * the revision. No clock is compared with another one: the holder counts from before its question, the server from after.
 */
export class Lease {
  /** Until when it is held, in milliseconds of the monotonic clock, for the threads. */
  readonly cell = new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT);
  readonly #until = new Float64Array(this.cell);
  readonly #options: LeaseOptions;
  #bucket: KV | undefined;
  /** Of the entry, where it is ours and nothing has gone wrong since. */
  #revision: number | undefined;
  #epoch = 0;
  #able = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #beat: Promise<void> = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  get held(): boolean {
    return (this.#until[0] as number) > monotonicMs();
  }

  /** The revision under which it was last taken or renewed: higher than that of every earlier holder. */
  get epoch(): number {
    return this.#epoch;
  }

  /** Whether to take the lease where it is free, and to keep it. */
  compete(able: boolean): void {
    if (this.#closed || able === this.#able) return;
    this.#able = able;
    this.#wake();
  }

  /** Gives up the lease because another node holds it. */
  lose(): void {
    this.#until[0] = 0;
    this.#revision = undefined;
  }

  /** Lets go of it for the next one. */
  async close(): Promise<void> {
    this.compete(false);
    this.#closed = true;
    await this.#beat;
    clearTimeout(this.#timer);
  }

  #wake(): void {
    clearTimeout(this.#timer);
    // One at a time: each goes on from the revision that the one before has left.
    this.#beat = this.#beat.then(() => this.#work());
  }

  async #work(): Promise<void> {
    if (!this.#able) this.#until[0] = 0;
    let failed = false;
    try {
      if (this.#options.link.up) await (this.#able ? this.#claim() : this.#release());
    } catch (error) {
      this.#options.log.debug({ err: error }, 'the lease of the ticker could not be asked for');
      this.#bucket = undefined;
      this.#revision = undefined;
      failed = true;
    }
    clearTimeout(this.#timer);
    const waitMs = this.held && !failed ? RENEW_MS : LOOK_MS;
    if (this.#able && !this.#closed) this.#timer = setTimeout(() => this.#wake(), waitMs);
  }

  async #claim(): Promise<void> {
    this.#bucket ??= await this.#options.openBucket();
    const previousSeq = this.#revision ?? (await this.#look(this.#bucket));
    if (previousSeq === undefined) {
      this.lose();
      return;
    }
    const askedAt = monotonicMs();
    this.#revision = await this.#bucket.put(KEY, this.#options.holder, { previousSeq, timeout: LEASE_TIMEOUT_MS });
    if (!this.held) {
      await this.#options.onTaken();
      this.#options.log.info('this node makes the ticks from now on');
    }
    this.#epoch = this.#revision;
    if (this.#able) this.#until[0] = askedAt + USE_MS;
  }

  /** @returns the revision to take it over from; undefined where another one holds it */
  async #look(bucket: KV): Promise<number | undefined> {
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

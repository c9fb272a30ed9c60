import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { Log } from '../log.ts';
import type { NatsLink } from './nats-link.ts';

export interface KvWatchOptions {
  link: NatsLink;
  openBucket: () => Promise<KV>;
  /** Called when a watch begins. `sameBucket` is false if the bucket was created again since the last watch. */
  onBegin: (sameBucket: boolean) => void;
  /** Called for each entry that the bucket held when the watch began. */
  onListed: (entry: KvWatchEntry) => void;
  /** Called after the last call of `onListed`. */
  onLoaded: () => void;
  /** Called for each later change. */
  onUpdate: (entry: KvWatchEntry) => void;
  /** Called periodically while the server can be reached. */
  onCheck: () => void;
  log: Log;
}

/** Delay before a watch is restarted. */
const RETRY_MS = 250;
/** Interval between checks that the watch has missed nothing. */
const CHECK_MS = 5_000;

/** Watches a bucket of JetStream until it is closed. Restarts a watch that ends, receives nothing or misses a message. */
export class KvWatch {
  readonly #options: KvWatchOptions;
  readonly #loaded = Promise.withResolvers<void>();
  readonly #checkTimer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  #bucket: KV | undefined;
  /** Time at which the bucket was created, as an identifier of the bucket. */
  #created: string | undefined;
  #entries = 0;
  #stopWatch: () => void = () => {};
  /** Latest revision that the watch received. */
  #seen = 0;
  /** Revision that the watch must have received by the next check. */
  #expected = 0;
  /** Whether the watch missed a message, for example a marker purged before its delivery. */
  #gap = false;
  #closed = false;

  constructor(options: KvWatchOptions) {
    this.#options = options;
    this.#unsubscribe = options.link.onUp(() => this.#stopWatch());
    this.#checkTimer = setInterval(() => void this.#check(), CHECK_MS).unref();
    void this.#run();
  }

  /** The bucket, undefined until it has been opened. */
  get bucket(): KV | undefined {
    return this.#bucket;
  }

  /** Entries in the bucket at the last check, delete markers included. */
  get entries(): number {
    return this.#entries;
  }

  /** Fulfilled when the bucket has been loaded for the first time, or the watch is closed. */
  get loaded(): Promise<void> {
    return this.#loaded.promise;
  }

  close(): void {
    this.#closed = true;
    this.#entries = 0;
    clearInterval(this.#checkTimer);
    this.#unsubscribe();
    this.#stopWatch();
    this.#loaded.resolve();
  }

  async #run(): Promise<void> {
    const { link, log } = this.#options;
    while (!this.#closed) {
      try {
        if (link.up) await this.#watch();
      } catch (error) {
        log.warn({ err: error }, 'the bucket of tokens cannot be watched: retrying');
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
    }
  }

  async #watch(): Promise<void> {
    let ended = false;
    // Set before the watch starts, because a watch started over a lost connection receives nothing.
    this.#stopWatch = () => {
      ended = true;
    };
    const bucket = await this.#options.openBucket();
    this.#bucket = bucket;
    const { created, state } = (await bucket.status()).streamInfo;
    this.#options.onBegin(created === this.#created);
    this.#created = created;
    const entries = await bucket.watch();
    this.#stopWatch = () => entries.stop();
    if (ended || this.#closed) entries.stop();
    this.#seen = state.last_seq;
    this.#entries = state.messages;
    this.#gap = false;
    await this.#follow(entries, state.messages === 0);
  }

  async #follow(entries: AsyncIterable<KvWatchEntry>, empty: boolean): Promise<void> {
    const { onListed, onLoaded, onUpdate } = this.#options;
    let loading = true;
    const finish = () => {
      loading = false;
      onLoaded();
      this.#loaded.resolve();
    };
    if (empty) finish();
    for await (const entry of entries) {
      if (this.#closed) return;
      if (!loading && entry.revision > this.#seen + 1) this.#gap = true;
      this.#seen = Math.max(this.#seen, entry.revision);
      if (loading) onListed(entry);
      else onUpdate(entry);
      if (loading && entry.delta === 0) finish();
    }
  }

  /**
   * Ends a watch that missed a message, or that receives nothing although the bucket has changed, for example because the server of
   * its consumer was lost.
   */
  async #check(): Promise<void> {
    if (!this.#options.link.up || this.#bucket === undefined) return;
    this.#options.onCheck();
    try {
      const { last_seq: last, messages } = (await this.#bucket.status()).streamInfo.state;
      this.#entries = messages;
      if (this.#gap || this.#seen < this.#expected || last < this.#seen) this.#stopWatch();
      this.#expected = last;
    } catch {
      this.#stopWatch();
    }
  }
}

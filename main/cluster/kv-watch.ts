import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { NatsLink } from './nats-link.ts';

export interface KvWatchOptions {
  link: NatsLink;
  openBucket: () => Promise<KV>;
  /** Called when a watch begins. `sameBucket` is false for the first watch, and if the bucket was recreated. */
  onBegin: (sameBucket: boolean) => void;
  /** Called for each existing entry with `isListed` true, then for each change with `isListed` false. */
  onEntry: (entry: KvWatchEntry, isListed: boolean) => void;
  /** Called when all existing entries have been received, or at once if the bucket is empty. */
  onLoaded: () => void;
  /** Called every {@link CHECK_MS} while the server is reachable. */
  onCheck: () => void;
}

/** Delay before restarting a watch that has ended. */
const RETRY_MS = 250;
/** Interval between checks for missed messages. */
const CHECK_MS = 5_000;

/**
 * Watches a KV bucket until `close` is called. Restarts the watch if it ends, misses a message, or stops receiving
 * messages.
 */
export class KvWatch {
  readonly #options: KvWatchOptions;
  readonly #loaded = Promise.withResolvers<void>();
  /** Fulfilled when all entries in the bucket have been received for the first time, or when `close` is called. */
  readonly loaded = this.#loaded.promise;
  /** Watched bucket. Undefined until the bucket is opened. */
  bucket: KV | undefined;
  /** Number of entries in the bucket at the last check, including delete markers. */
  entries = 0;
  readonly #checkTimer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  /** Creation time of the bucket, used to detect that the bucket was recreated. */
  #created: string | undefined;
  #stopWatch: () => void = () => {};
  /** Latest revision received by the watch. */
  #seen = 0;
  /**
   * Latest revision in the bucket at the last check. If the watch has not received this revision by the next check, the
   * watch restarts.
   */
  #expected = 0;
  /** Whether the watch missed a message, for example a delete marker that was purged too early. */
  #gap = false;
  #closed = false;

  constructor(options: KvWatchOptions) {
    this.#options = options;
    this.#unsubscribe = options.link.onUp(() => this.#stopWatch());
    this.#checkTimer = setInterval(() => void this.#check(), CHECK_MS).unref();
    void this.#run();
  }

  close(): void {
    this.#closed = true;
    this.entries = 0;
    clearInterval(this.#checkTimer);
    this.#unsubscribe();
    this.#stopWatch();
    this.#loaded.resolve();
  }

  async #run(): Promise<void> {
    const { link } = this.#options;
    while (!this.#closed) {
      try {
        if (link.up) await this.#watch();
      } catch (error) {
        link.log.warn({ err: error }, 'cannot watch the bucket of tokens: retrying');
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
    }
  }

  async #watch(): Promise<void> {
    let ended = false;
    // Lets a reconnect end the watch while the watch is starting. Such a watch might never receive an entry.
    this.#stopWatch = () => {
      ended = true;
    };
    const bucket = await this.#options.openBucket();
    this.bucket = bucket;
    const { created, state } = (await bucket.status()).streamInfo;
    this.#options.onBegin(created === this.#created);
    this.#created = created;
    const entries = await bucket.watch();
    this.#stopWatch = () => entries.stop();
    if (ended || this.#closed) entries.stop();
    this.#seen = state.last_seq;
    this.entries = state.messages;
    this.#gap = false;
    await this.#follow(entries, state.messages === 0);
  }

  async #follow(entries: AsyncIterable<KvWatchEntry>, empty: boolean): Promise<void> {
    let loading = true;
    const finish = () => {
      loading = false;
      this.#options.onLoaded();
      this.#loaded.resolve();
    };
    if (empty) finish();
    for await (const entry of entries) {
      if (this.#closed) return;
      if (!loading && entry.revision > this.#seen + 1) this.#gap = true;
      this.#seen = Math.max(this.#seen, entry.revision);
      this.#options.onEntry(entry, loading);
      if (loading && entry.delta === 0) finish();
    }
  }

  /** Restarts the watch if it has missed a message or has stopped receiving messages. */
  async #check(): Promise<void> {
    if (!this.#options.link.up || this.bucket === undefined) return;
    this.#options.onCheck();
    try {
      const { last_seq: last, messages } = (await this.bucket.status()).streamInfo.state;
      this.entries = messages;
      if (this.#gap || this.#seen < this.#expected || last < this.#seen) this.#stopWatch();
      this.#expected = last;
    } catch {
      this.#stopWatch();
    }
  }
}

import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { NatsLink } from './nats-link.ts';

export interface KvWatchOptions {
  link: NatsLink;
  openBucket: () => Promise<KV>;
  /** Called when a watch begins. `sameBucket` is false for the first watch and for a recreated bucket. */
  onBegin: (sameBucket: boolean) => void;
  /** Called for each existing entry with `isListed` true, then for each change with `isListed` false. */
  onEntry: (entry: KvWatchEntry, isListed: boolean) => void;
  /** Called when all entries that existed at the start of a watch have been received. */
  onLoaded: () => void;
  /** Called periodically while the server is reachable. */
  onCheck: () => void;
}

const RETRY_MS = 250;
const CHECK_MS = 5_000;

/** Watches a KV bucket. Restarts the watch if it ends, misses a message, or stops receiving messages. */
export class KvWatch {
  readonly #options: KvWatchOptions;
  readonly #loaded = Promise.withResolvers<void>();
  /** Fulfilled when all entries have been received for the first time, or when `close` is called. */
  readonly loaded = this.#loaded.promise;
  bucket: KV | undefined;
  /** Number of entries in the bucket at the last check, including delete markers. */
  entries = 0;
  readonly #checkTimer: NodeJS.Timeout;
  readonly #unsubscribe: () => void;
  /** Creation time of the bucket, by which a recreated bucket is detected. */
  #created: string | undefined;
  #stopWatch: () => void = () => {};
  #seen = 0;
  /** Last revision in the bucket at the previous check. The watch restarts if it has not received this revision. */
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
    // Lets a reconnect end a watch that is still starting, because such a watch might never receive an entry.
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

import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { Log } from '../log.ts';
import type { NatsLink } from './nats-link.ts';

export interface KvWatchOptions {
  link: NatsLink;
  openBucket: () => Promise<KV>;
  /** Called when a watch begins. `sameBucket` is false if the bucket was created again since the last watch. */
  onBegin: (sameBucket: boolean) => void;
  /** Receives each entry that the bucket held when the watch began. */
  onListed: (entry: KvWatchEntry) => void;
  /** Called once all those entries are listed. */
  onLoaded: () => void;
  /** Receives each later change. */
  onUpdate: (entry: KvWatchEntry) => void;
  /** Called at every check while the server can be reached. */
  onCheck: () => void;
  log: Log;
}

const RETRY_MS = 250;
const CHECK_MS = 5_000;

/** Follows a bucket of JetStream until it is closed. A watch that ends, is silent or misses a message is started again. */
export class KvWatch {
  readonly #options: KvWatchOptions;
  readonly #loaded = Promise.withResolvers<void>();
  readonly #checks: NodeJS.Timeout;
  readonly #forgetLink: () => void;
  #bucket: KV | undefined;
  #created: string | undefined;
  #entries = 0;
  #stopWatch: () => void = () => {};
  /** Latest revision that the watch received, and the revision that it must reach by the next check. */
  #seen = 0;
  #due = 0;
  /** Whether the watch missed a message, which may be a mark that was purged before its delivery. */
  #gap = false;
  #closed = false;

  constructor(options: KvWatchOptions) {
    this.#options = options;
    this.#forgetLink = options.link.onUp(() => this.#stopWatch());
    this.#checks = setInterval(() => void this.#check(), CHECK_MS).unref();
    void this.#run();
  }

  /** The bucket, once it was opened. */
  get bucket(): KV | undefined {
    return this.#bucket;
  }

  /** Entries in the bucket at the last check, markers of deleted keys included. */
  get entries(): number {
    return this.#entries;
  }

  /** Fulfilled once the bucket was loaded for the first time, or the watch is closed. */
  get loaded(): Promise<void> {
    return this.#loaded.promise;
  }

  close(): void {
    this.#closed = true;
    this.#entries = 0;
    clearInterval(this.#checks);
    this.#forgetLink();
    this.#stopWatch();
    this.#loaded.resolve();
  }

  async #run(): Promise<void> {
    const { link, log } = this.#options;
    while (!this.#closed) {
      try {
        if (link.up) await this.#watch();
      } catch (error) {
        log.warn({ err: error }, 'the tokens of other nodes cannot be followed: it is tried again');
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
    }
  }

  async #watch(): Promise<void> {
    let ended = false;
    // A watch that was begun over a connection that is gone hears nothing.
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
   * Ends a watch that missed a message, or that receives none although there are some, as it may when the server of its
   * consumer is lost.
   */
  async #check(): Promise<void> {
    if (!this.#options.link.up || this.#bucket === undefined) return;
    this.#options.onCheck();
    try {
      const { last_seq: last, messages } = (await this.#bucket.status()).streamInfo.state;
      this.#entries = messages;
      if (this.#gap || this.#seen < this.#due || last < this.#seen) this.#stopWatch();
      this.#due = last;
    } catch {
      this.#stopWatch();
    }
  }
}

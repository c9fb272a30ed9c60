import { JetStreamApiError } from '@nats-io/jetstream';
import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { Awaitable } from '../awaitable.ts';
import type { NatsLink } from '../engines/nats-link.ts';
import type { Log } from '../log.ts';
import { MemoryTokenStore } from './memory-token-store.ts';
import {
  type OnRemove,
  type TokenRecord,
  type TokenStore,
  TokenStoreFull,
  TokenStoreUnavailable,
} from './token-store.ts';

export interface KvTokenStoreOptions {
  link: NatsLink;
  /** Opens the bucket, and makes it where it is not; its operations fail within two seconds. */
  openBucket: () => Promise<KV>;
  /** Removes an identifier from the bucket without a mark. */
  purge: (id: string) => Promise<unknown>;
  /** Bound on the tokens of an API key, the same on all nodes. */
  maxTokensPerKey: number;
  /** Most tokens that the bucket holds. */
  maxTokens: number;
  log: Log;
}

/** What a bucket takes as a key, and every token's identifier is. */
const KEY = /^[\w-]{1,64}$/;
/** Expiry, API key's identifier, order. */
const VALUE = /^(\d+) ([\w-]+) (\d+)$/;
/** The server's code for a message past the bounds of a stream. */
const STORE_FAILED = 10077;
/** Identifiers that are looked up at once; each is a question to the server. */
const MAX_LOOKUPS = 100;
const MAX_ABSENT = 10_000;
/** Evicted tokens that wait for their purge. Past it an evicted token stays in the bucket until it expires. */
const MAX_EVICTED = 10_000;
/** How long an identifier that the bucket lacks is not asked for again. */
const ABSENT_MS = 1_000;
/** A revocation is remembered for longer than what was read before it may be under way. */
const REVOKED_MS = 10_000;
const RETRY_MS = 250;
const CHECK_MS = 5_000;

/**
 * Tokens valid on all nodes, in a bucket of JetStream: the identifier is the key; the value is the time of expiry, the
 * API key's identifier and the token's order among those of the API key.
 *
 * A watch of the bucket keeps all of it in memory here, so that a check asks nobody. The mark that a revocation leaves in the
 * bucket lives as long as the longest token: a watch that begins anew is told of every revocation that it may have missed.
 *
 * Every node evicts the tokens past the bound, the lowest order of an API key first, so all evict the same tokens. Each node
 * purges the evicted token from the bucket, without a mark, so that evictions do not fill it.
 */
export class KvTokenStore implements TokenStore {
  readonly maxTokens: number;
  readonly #replica: MemoryTokenStore;
  readonly #options: KvTokenStoreOptions;
  /** Identifiers that are not good, for the moment given (monotonic), the oldest first. */
  readonly #absent = new Map<string, { until: number; revoked: boolean }>();
  readonly #lookups = new Map<string, Promise<boolean>>();
  /** Evicted tokens to purge from the bucket. */
  readonly #evicted = new Set<string>();
  #purging = false;
  readonly #loaded = Promise.withResolvers<void>();
  readonly #checks: NodeJS.Timeout;
  readonly #forgetLink: () => void;
  #bucket: KV | undefined;
  #stopWatch: () => void = () => {};
  /** The revision that the watch has come to, and the one that it should have come to by the next check. */
  #seen = 0;
  #due = 0;
  #closed = false;

  constructor(options: KvTokenStoreOptions) {
    this.#options = options;
    const { maxTokens, maxTokensPerKey } = options;
    this.maxTokens = maxTokens;
    this.#replica = new MemoryTokenStore({ maxTokens: Number.POSITIVE_INFINITY, maxTokensPerKey });
    this.#forgetLink = options.link.onUp(() => this.#stopWatch());
    this.#checks = setInterval(() => void this.#checkWatch(), CHECK_MS).unref();
    void this.#watch();
  }

  get size(): number {
    return this.#replica.size;
  }

  get onRemove(): OnRemove {
    return this.#replica.onRemove;
  }

  set onRemove(onRemove: OnRemove) {
    this.#replica.onRemove = onRemove;
  }

  /** Fulfilled when all that the bucket held is known here. */
  get loaded(): Promise<void> {
    return this.#loaded.promise;
  }

  async put(record: TokenRecord): Promise<void> {
    const order = this.#replica.nextOrder(record.keyId);
    await this.#ask((bucket) => bucket.put(record.id, `${record.expiresAt} ${record.keyId} ${order}`));
    this.#insert(record, order);
  }

  has(id: string): boolean {
    return this.#replica.has(id);
  }

  find(id: string): Awaitable<boolean> {
    if (this.#replica.has(id)) return true;
    const absent = this.#absent.get(id);
    if (!KEY.test(id) || (absent !== undefined && absent.until > performance.now())) return false;
    const underWay = this.#lookups.get(id);
    if (underWay !== undefined) return underWay;
    if (this.#lookups.size >= MAX_LOOKUPS) throw new TokenStoreUnavailable('too many unknown tokens at once');
    const lookup = this.#lookUp(id).finally(() => this.#lookups.delete(id));
    this.#lookups.set(id, lookup);
    return lookup;
  }

  async revoke(id: string): Promise<void> {
    if (!KEY.test(id)) return;
    await this.#ask((bucket) => bucket.delete(id));
    this.#drop(id);
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#checks);
    this.#forgetLink();
    this.#stopWatch();
    this.#replica.close();
    this.#absent.clear();
    this.#evicted.clear();
    this.#loaded.resolve();
  }

  /** @throws {TokenStoreUnavailable | TokenStoreFull} */
  async #ask<Answer>(question: (bucket: KV) => Promise<Answer>): Promise<Answer> {
    if (this.#closed) throw new TokenStoreUnavailable('the token store is closed');
    if (this.#bucket === undefined || !this.#options.link.up) throw new TokenStoreUnavailable('NATS cannot be reached');
    try {
      return await question(this.#bucket);
    } catch (cause) {
      if (cause instanceof JetStreamApiError && cause.code === STORE_FAILED)
        throw new TokenStoreFull('the token store holds as many tokens as it may', { cause });
      throw new TokenStoreUnavailable('the bucket of the tokens does not answer', { cause });
    }
  }

  async #lookUp(id: string): Promise<boolean> {
    const entry = await this.#ask((bucket) => bucket.get(id));
    if (entry !== null) this.#take(entry);
    if (!this.#replica.has(id) && !this.#absent.get(id)?.revoked) this.#note(id, false);
    return this.#replica.has(id);
  }

  /** Follows the bucket until the store is closed, from its beginning whenever a watch ends. */
  async #watch(): Promise<void> {
    const { link, log } = this.#options;
    while (!this.#closed) {
      try {
        if (link.up) await this.#watchOnce();
      } catch (error) {
        log.warn({ err: error }, 'the tokens of other nodes cannot be followed: it is tried again');
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
    }
  }

  async #watchOnce(): Promise<void> {
    let ended = false;
    // A watch that was begun over a connection that is gone hears nothing.
    this.#stopWatch = () => {
      ended = true;
    };
    const bucket = await this.#options.openBucket();
    this.#bucket = bucket;
    const { streamInfo } = await bucket.status();
    const entries = await bucket.watch();
    this.#stopWatch = () => entries.stop();
    if (ended || this.#closed) entries.stop();
    this.#seen = streamInfo.state.last_seq;
    if (streamInfo.state.messages === 0) this.#loaded.resolve();
    for await (const entry of entries) {
      this.#seen = Math.max(this.#seen, entry.revision);
      this.#take(entry);
      if (entry.delta === 0) this.#loaded.resolve();
    }
  }

  /** Ends a watch that has fallen silent though there is news, as it may when the server of its consumer is lost. */
  async #checkWatch(): Promise<void> {
    if (!this.#options.link.up || this.#bucket === undefined) return;
    try {
      const { last_seq: last } = (await this.#bucket.status()).streamInfo.state;
      if (this.#seen < this.#due || last < this.#seen) this.#stopWatch();
      this.#due = last;
    } catch {
      this.#stopWatch();
    }
  }

  #take(entry: Pick<KvWatchEntry, 'key' | 'operation' | 'string'>): void {
    if (this.#closed) return;
    if (entry.operation !== 'PUT') {
      this.#drop(entry.key);
      return;
    }
    const [, expiry, keyId, order] = VALUE.exec(entry.string()) ?? [];
    const expiresAt = Number(expiry);
    // It may have been read before the revocation, and come after it.
    if (this.#absent.get(entry.key)?.revoked || keyId === undefined || !(expiresAt > Date.now())) return;
    this.#absent.delete(entry.key);
    this.#insert({ id: entry.key, keyId, expiresAt }, Number(order));
  }

  #insert(record: TokenRecord, order: number): void {
    const evicted = this.#replica.insert(record, order);
    if (evicted === undefined) return;
    this.#note(evicted, true);
    if (this.#evicted.size < MAX_EVICTED) this.#evicted.add(evicted);
    if (!this.#purging) void this.#purgeEvicted();
  }

  /** Purges evicted tokens one after the other. After a failed purge the token stays in the bucket, evicted on every node. */
  async #purgeEvicted(): Promise<void> {
    this.#purging = true;
    for (const id of this.#evicted) {
      this.#evicted.delete(id);
      if (this.#options.link.up) await this.#options.purge(id).catch(() => {});
    }
    this.#purging = false;
  }

  #drop(id: string): void {
    if (this.#closed) return;
    this.#note(id, true);
    this.#replica.revoke(id);
  }

  #note(id: string, revoked: boolean): void {
    this.#absent.delete(id);
    this.#absent.set(id, { until: performance.now() + (revoked ? REVOKED_MS : ABSENT_MS), revoked });
    const [oldest] = this.#absent.keys();
    if (this.#absent.size > MAX_ABSENT && oldest !== undefined) this.#absent.delete(oldest);
  }
}

import { JetStreamApiError } from '@nats-io/jetstream';
import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { Awaitable } from '../awaitable.ts';
import { MemoryTokenStore } from '../ticker/memory-token-store.ts';
import {
  type OnRemove,
  type TokenRecord,
  type TokenStore,
  TokenStoreFull,
  TokenStoreUnavailable,
} from '../ticker/token-store.ts';
import { KvWatch } from './kv-watch.ts';
import { type NatsLink, STORE_FAILED } from './nats-link.ts';
import { TokenPurges } from './token-purges.ts';

export interface TokenBounds {
  /** Maximum number of tokens per API key. Beyond the limit, the key's oldest token is evicted. */
  maxTokensPerKey: number;
  /** Maximum number of tokens. Beyond the limit, new tokens are refused. */
  maxTokens: number;
  /** Maximum number of delete markers in the bucket, which do not count toward `maxTokens`. */
  maxRevocations: number;
}

export interface KvTokenStoreOptions extends TokenBounds {
  link: NatsLink;
  /** Opens or creates the KV bucket. Bucket operations must time out within two seconds. */
  openBucket: () => Promise<KV>;
  /** Removes an entry from the bucket permanently, including its delete marker. */
  purge: (id: string) => Promise<unknown>;
}

/** Format of a token identifier. The identifier is also the token's key in the KV bucket. */
const KEY = /^[\w-]{1,64}$/;
/** Format of an entry's value: token expiry, API key identifier, and the token's position in the eviction order. */
const VALUE = /^(\d+) ([\w-]+) (\d+)$/;
const MAX_LOOKUPS = 100;
const MAX_INVALID = 10_000;
/** Time for which an unknown token identifier is not looked up again. */
const MISSING_MS = 1_000;
/** Time for which a revoked token is ignored, because a read of the bucket that began earlier may still return it. */
const REVOKED_MS = 10_000;
/** Delay before a revoked token's delete marker is purged. Other nodes learn of the revocation from the marker. */
const MARKER_MS = 30_000;
/** Assumed number of nodes. A node purges its oldest delete marker beyond `maxRevocations / REVOKING_NODES` markers. */
const REVOKING_NODES = 10;

/**
 * Token store in a JetStream KV bucket, which all nodes share and copy into memory. A revoked token leaves a delete
 * marker, from which other nodes learn of the revocation. An evicted token leaves none, because all nodes evict the
 * same token.
 */
export class KvTokenStore implements TokenStore {
  onRemove: OnRemove = () => {};
  readonly maxTokens: number;
  /** Fulfilled when the bucket's entries have been loaded into memory. */
  readonly loaded: Promise<void>;
  readonly #replica: MemoryTokenStore;
  readonly #options: KvTokenStoreOptions;
  /** Invalid token identifiers, oldest first. `until` is a monotonic time in milliseconds. */
  readonly #invalid = new Map<string, { until: number; revoked: boolean }>();
  readonly #lookups = new Map<string, Promise<boolean>>();
  readonly #evicted: TokenPurges;
  readonly #markers: TokenPurges;
  readonly #watch: KvWatch;
  /** Tokens in memory that the current watch has not yet found in the bucket. */
  #unlisted = new Set<string>();
  #closed = false;

  constructor(options: KvTokenStoreOptions) {
    this.#options = options;
    const { maxTokens, maxTokensPerKey, purge } = options;
    this.maxTokens = maxTokens;
    this.#evicted = new TokenPurges(purge, 0);
    this.#markers = new TokenPurges(purge, MARKER_MS);
    this.#replica = new MemoryTokenStore({ maxTokens: Number.POSITIVE_INFINITY, maxTokensPerKey });
    this.#replica.onRemove = (id, reason) => this.onRemove(id, reason);
    this.#watch = new KvWatch({
      ...options,
      onBegin: (sameBucket) => {
        this.#unlisted = new Set(sameBucket ? this.#replica.ids() : []);
      },
      onEntry: (entry, isListed) => (isListed ? this.#load(entry) : this.#apply(entry)),
      onLoaded: () => this.#finishLoading(),
      onCheck: () => {
        void this.#evicted.run();
        void this.#markers.run();
      },
    });
    this.loaded = this.#watch.loaded;
  }

  /** Estimated number of tokens in the KV bucket. Never less than the number of tokens in memory. */
  get size(): number {
    return Math.max(this.#replica.size, this.#watch.entries - this.#options.maxRevocations);
  }

  async put(record: TokenRecord): Promise<void> {
    if (this.#replica.size >= this.maxTokens && !this.#replica.isFull(record.keyId)) throw full();
    const order = this.#replica.nextOrder(record.keyId);
    await this.#request((bucket) => bucket.put(record.id, `${record.expiresAt} ${record.keyId} ${order}`));
    this.#insert(record, order);
  }

  has(id: string): boolean {
    return this.#replica.has(id);
  }

  find(id: string): Awaitable<boolean> {
    if (this.#replica.has(id)) return true;
    const known = this.#invalid.get(id);
    if (!KEY.test(id) || (known !== undefined && known.until > performance.now())) return false;
    const pending = this.#lookups.get(id);
    if (pending !== undefined) return pending;
    if (this.#lookups.size >= MAX_LOOKUPS) throw new TokenStoreUnavailable('too many unknown tokens at once');
    const lookup = this.#lookUp(id).finally(() => this.#lookups.delete(id));
    this.#lookups.set(id, lookup);
    return lookup;
  }

  async revoke(id: string): Promise<void> {
    if (!KEY.test(id)) return;
    await this.#request((bucket) => bucket.delete(id));
    this.#remove(id);
    this.#markers.add(id);
    // A client that revokes tokens in a loop could create delete markers faster than the timer purges markers.
    await this.#markers.trim(this.#options.maxRevocations / REVOKING_NODES);
  }

  close(): void {
    this.#closed = true;
    this.#watch.close();
    this.#replica.close();
    this.#invalid.clear();
    this.#evicted.clear();
    this.#markers.clear();
  }

  async #request<Result>(operation: (bucket: KV) => Promise<Result>): Promise<Result> {
    if (this.#closed) throw new TokenStoreUnavailable('the token store is closed');
    const { bucket } = this.#watch;
    if (bucket === undefined || !this.#options.link.up) throw new TokenStoreUnavailable('NATS cannot be reached');
    try {
      return await operation(bucket);
    } catch (cause) {
      if (cause instanceof JetStreamApiError && cause.code === STORE_FAILED) throw full(cause);
      throw new TokenStoreUnavailable('the bucket of tokens does not respond', { cause });
    }
  }

  async #lookUp(id: string): Promise<boolean> {
    const entry = await this.#request((bucket) => bucket.get(id));
    if (entry !== null) this.#apply(entry);
    if (!this.#replica.has(id) && !this.#invalid.get(id)?.revoked) this.#markInvalid(id, false);
    return this.#replica.has(id);
  }

  #load(entry: KvWatchEntry): void {
    this.#unlisted.delete(entry.key);
    this.#apply(entry);
    // Every node that loads a delete marker purges the marker, because the revoking node may have stopped.
    if (entry.operation !== 'PUT') this.#markers.add(entry.key);
  }

  /** Removes from memory the tokens that were revoked or evicted while this node was not watching the KV bucket. */
  #finishLoading(): void {
    for (const id of this.#unlisted) this.#remove(id);
    this.#unlisted.clear();
  }

  #apply(entry: Pick<KvWatchEntry, 'key' | 'operation' | 'string'>): void {
    if (this.#closed) return;
    if (entry.operation !== 'PUT') return void this.#remove(entry.key);
    const [, expiry, keyId, order] = VALUE.exec(entry.string()) ?? [];
    const expiresAt = Number(expiry);
    // A token revoked on this node stays invalid, even if its entry was read from the bucket before the revocation.
    if (this.#invalid.get(entry.key)?.revoked || keyId === undefined || !(expiresAt > Date.now())) return;
    if (this.#evicted.has(entry.key)) return;
    this.#invalid.delete(entry.key);
    this.#insert({ id: entry.key, keyId, expiresAt }, Number(order));
  }

  #insert(record: TokenRecord, order: number): void {
    const evicted = this.#replica.insert(record, order);
    if (evicted === undefined) return;
    this.#markInvalid(evicted, true);
    this.#evicted.add(evicted);
    void this.#evicted.run();
  }

  #remove(id: string): void {
    if (this.#closed) return;
    this.#markInvalid(id, true);
    this.#replica.revoke(id);
  }

  #markInvalid(id: string, revoked: boolean): void {
    this.#invalid.delete(id);
    this.#invalid.set(id, { until: performance.now() + (revoked ? REVOKED_MS : MISSING_MS), revoked });
    const [oldest] = this.#invalid.keys();
    if (this.#invalid.size > MAX_INVALID && oldest !== undefined) this.#invalid.delete(oldest);
  }
}

function full(cause?: unknown): TokenStoreFull {
  return new TokenStoreFull('the token store is full', { cause });
}

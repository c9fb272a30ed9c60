import { JetStreamApiError } from '@nats-io/jetstream';
import type { KV, KvWatchEntry } from '@nats-io/kv';
import type { Awaitable } from '../awaitable.ts';
import type { Log } from '../log.ts';
import { MemoryTokenStore } from '../ticker/memory-token-store.ts';
import {
  type OnRemove,
  type TokenRecord,
  type TokenStore,
  TokenStoreFull,
  TokenStoreUnavailable,
} from '../ticker/token-store.ts';
import { KvPurges } from './kv-purges.ts';
import { KvWatch } from './kv-watch.ts';
import type { NatsLink } from './nats-link.ts';

export interface KvTokenStoreOptions {
  link: NatsLink;
  /** Opens or creates the KV bucket. Its operations must time out within two seconds. */
  openBucket: () => Promise<KV>;
  /** Removes an entry from the bucket without leaving a delete marker. */
  purge: (id: string) => Promise<unknown>;
  /** Maximum number of tokens per API key. Past it, the key's oldest token is evicted. Must be the same on all nodes. */
  maxTokensPerKey: number;
  /** Maximum number of tokens. Past it, a new token is refused. */
  maxTokens: number;
  /** Number of delete markers of revoked tokens for which the bucket has room, in addition to `maxTokens`. */
  maxRevocations: number;
  log: Log;
}

/** Format of a token identifier, which is also the key of the token's entry in the bucket. */
const KEY = /^[\w-]{1,64}$/;
/** Format of an entry's value: expiry, API key identifier, order of the token among those of the API key. */
const VALUE = /^(\d+) ([\w-]+) (\d+)$/;
/** JetStream's error code for a message past the bounds of a stream. */
const STORE_FAILED = 10077;
/** Maximum number of concurrent lookups of unknown tokens, each a request to the server. */
const MAX_LOOKUPS = 100;
/** Maximum number of token identifiers that are remembered as invalid. */
const MAX_INVALID = 10_000;
/** Time for which a token identifier missing from the bucket is not looked up again. */
const MISSING_MS = 1_000;
/** Time for which a node remembers a revocation. Longer than any read, so that an earlier read cannot restore the token. */
const REVOKED_MS = 10_000;
/** Time before the delete marker of a revoked token is purged. A node that misses the marker reloads the bucket. */
const MARKER_MS = 30_000;
/** Number of nodes that may revoke tokens at once. Each leaves at most its share of the delete markers in the bucket. */
const REVOKING_NODES = 10;

/**
 * Tokens valid on all nodes, in a KV bucket of JetStream. The key of an entry is the token's identifier. The value is the time of
 * expiry, the API key's identifier, and the token's order among the tokens of that API key.
 *
 * A watch of the bucket keeps all entries in memory, so that a check needs no request. A revocation leaves a delete marker in the
 * bucket for the watches of other nodes. The revoking node purges the marker after `MARKER_MS`, or earlier if it has left too many.
 * A new watch removes the tokens that the bucket no longer holds, so it needs no marker. A gap in the revisions restarts the watch.
 *
 * Past `maxTokensPerKey`, every node evicts the API key's token with the lowest order, so all nodes evict the same tokens. Each
 * node purges the evicted token from the bucket, without a marker, so that evictions do not fill the bucket.
 */
export class KvTokenStore implements TokenStore {
  readonly maxTokens: number;
  /** Copy of the bucket's tokens in memory. */
  readonly #replica: MemoryTokenStore;
  readonly #options: KvTokenStoreOptions;
  /** Token identifiers known to be invalid until the monotonic time `until`, oldest first. */
  readonly #invalid = new Map<string, { until: number; revoked: boolean }>();
  /** Lookups of unknown tokens in the bucket that are in progress, by token identifier. */
  readonly #lookups = new Map<string, Promise<boolean>>();
  /** Evicted tokens whose entries must be purged from the bucket. */
  readonly #evicted: KvPurges;
  /** Revoked tokens whose delete markers must be purged from the bucket. */
  readonly #markers: KvPurges;
  readonly #watch: KvWatch;
  /** Tokens in memory that the watch has not listed yet while it loads the bucket. */
  #unlisted = new Set<string>();
  #closed = false;

  constructor(options: KvTokenStoreOptions) {
    this.#options = options;
    const { maxTokens, maxTokensPerKey, purge } = options;
    this.maxTokens = maxTokens;
    this.#evicted = new KvPurges(purge, 0);
    this.#markers = new KvPurges(purge, MARKER_MS);
    this.#replica = new MemoryTokenStore({ maxTokens: Number.POSITIVE_INFINITY, maxTokensPerKey });
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
  }

  /** Number of tokens in memory, or number of entries in the bucket minus `maxRevocations`, whichever is larger. */
  get size(): number {
    return Math.max(this.#replica.size, this.#watch.entries - this.#options.maxRevocations);
  }

  get onRemove(): OnRemove {
    return this.#replica.onRemove;
  }

  set onRemove(onRemove: OnRemove) {
    this.#replica.onRemove = onRemove;
  }

  /** Fulfilled when the entries of the bucket have been loaded into memory. */
  get loaded(): Promise<void> {
    return this.#watch.loaded;
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
    // Awaited, so that a client that revokes in a loop cannot create delete markers faster than they are purged.
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

  /** Runs an operation on the bucket. @throws {TokenStoreUnavailable | TokenStoreFull} */
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
    // This node purges the delete marker as well, because the revoking node may have ended before purging it.
    if (entry.operation !== 'PUT') this.#markers.add(entry.key);
  }

  /** Removes the tokens that were revoked or evicted while no watch of the bucket ran. */
  #finishLoading(): void {
    for (const id of this.#unlisted) this.#remove(id);
    this.#unlisted.clear();
  }

  #apply(entry: Pick<KvWatchEntry, 'key' | 'operation' | 'string'>): void {
    if (this.#closed) return;
    if (entry.operation !== 'PUT') {
      this.#remove(entry.key);
      return;
    }
    const [, expiry, keyId, order] = VALUE.exec(entry.string()) ?? [];
    const expiresAt = Number(expiry);
    // Skips a revoked token, because its entry may have been read before the revocation and arrive after it.
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

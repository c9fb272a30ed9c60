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
  /** Opens the bucket, and makes it where it is not; its operations fail within two seconds. */
  openBucket: () => Promise<KV>;
  /** Removes an identifier from the bucket without a mark. */
  purge: (id: string) => Promise<unknown>;
  /** Bound on the tokens of an API key, the same on all nodes. */
  maxTokensPerKey: number;
  /** Most tokens that the bucket holds. */
  maxTokens: number;
  /** Entries of revoked tokens that the bucket has room for beside `maxTokens`. */
  maxRevocations: number;
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
/** How long an identifier that the bucket lacks is not asked for again. */
const ABSENT_MS = 1_000;
/** A revocation is remembered for longer than what was read before it may be under way. */
const REVOKED_MS = 10_000;
/** Time for all nodes to learn of a revocation before its mark is purged. A node that misses the mark reads the bucket again. */
const MARK_MS = 30_000;
/** Nodes that can leave as many marks as each may without using the room for tokens. */
const MARKING_NODES = 10;

/**
 * Tokens valid on all nodes, in a bucket of JetStream: the identifier is the key; the value is the time of expiry, the
 * API key's identifier and the token's order among those of the API key.
 *
 * A watch of the bucket keeps all entries in memory, so that a check needs no request. A revocation leaves a mark in the bucket for
 * the watches of other nodes. The revoking node purges the mark after `MARK_MS`, or earlier if it has left too many. A new watch
 * removes the tokens that the bucket no longer holds, so it needs no mark; a gap in the revisions makes a watch start again.
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
  readonly #evicted: KvPurges;
  /** Marks of revoked tokens to purge from the bucket. */
  readonly #marks: KvPurges;
  readonly #watch: KvWatch;
  /** Known tokens that the load under way has not listed yet. */
  #unlisted = new Set<string>();
  #closed = false;

  constructor(options: KvTokenStoreOptions) {
    this.#options = options;
    const { maxTokens, maxTokensPerKey, purge } = options;
    this.maxTokens = maxTokens;
    this.#evicted = new KvPurges(purge, 0);
    this.#marks = new KvPurges(purge, MARK_MS);
    this.#replica = new MemoryTokenStore({ maxTokens: Number.POSITIVE_INFINITY, maxTokensPerKey });
    this.#watch = new KvWatch({
      ...options,
      onBegin: (sameBucket) => this.#beginLoading(sameBucket),
      onListed: (entry) => this.#load(entry),
      onLoaded: () => this.#finishLoading(),
      onUpdate: (entry) => this.#take(entry),
      onCheck: () => this.#purgeDue(),
    });
  }

  /** Tokens, and the entries of the bucket beyond the room for marks. */
  get size(): number {
    return Math.max(this.#replica.size, this.#watch.entries - this.#options.maxRevocations);
  }

  get onRemove(): OnRemove {
    return this.#replica.onRemove;
  }

  set onRemove(onRemove: OnRemove) {
    this.#replica.onRemove = onRemove;
  }

  /** Fulfilled when the entries of the bucket are in memory. */
  get loaded(): Promise<void> {
    return this.#watch.loaded;
  }

  async put(record: TokenRecord): Promise<void> {
    if (this.#replica.size >= this.maxTokens && !this.#replica.isFull(record.keyId)) throw full();
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
    this.#marks.add(id);
    // Awaited: a client that revokes in a loop leaves marks no faster than they are purged.
    await this.#marks.trim(this.#options.maxRevocations / MARKING_NODES);
  }

  close(): void {
    this.#closed = true;
    this.#watch.close();
    this.#replica.close();
    this.#absent.clear();
    this.#evicted.clear();
    this.#marks.clear();
  }

  /** @throws {TokenStoreUnavailable | TokenStoreFull} */
  async #ask<OpenApiResponse>(question: (bucket: KV) => Promise<OpenApiResponse>): Promise<OpenApiResponse> {
    if (this.#closed) throw new TokenStoreUnavailable('the token store is closed');
    const { bucket } = this.#watch;
    if (bucket === undefined || !this.#options.link.up) throw new TokenStoreUnavailable('NATS cannot be reached');
    try {
      return await question(bucket);
    } catch (cause) {
      if (cause instanceof JetStreamApiError && cause.code === STORE_FAILED) throw full(cause);
      throw new TokenStoreUnavailable('the bucket of the tokens does not answer', { cause });
    }
  }

  async #lookUp(id: string): Promise<boolean> {
    const entry = await this.#ask((bucket) => bucket.get(id));
    if (entry !== null) this.#take(entry);
    if (!this.#replica.has(id) && !this.#absent.get(id)?.revoked) this.#note(id, false);
    return this.#replica.has(id);
  }

  #purgeDue(): void {
    void this.#evicted.run();
    void this.#marks.run();
  }

  #beginLoading(sameBucket: boolean): void {
    this.#unlisted = new Set(sameBucket ? this.#replica.ids() : []);
  }

  #load(entry: KvWatchEntry): void {
    this.#unlisted.delete(entry.key);
    this.#take(entry);
    // A mark whose node may be gone.
    if (entry.operation !== 'PUT') this.#marks.add(entry.key);
  }

  /** Removes the tokens that were revoked or evicted while no watch ran. */
  #finishLoading(): void {
    for (const id of this.#unlisted) this.#drop(id);
    this.#unlisted.clear();
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
    if (this.#evicted.has(entry.key)) return;
    this.#absent.delete(entry.key);
    this.#insert({ id: entry.key, keyId, expiresAt }, Number(order));
  }

  #insert(record: TokenRecord, order: number): void {
    const evicted = this.#replica.insert(record, order);
    if (evicted === undefined) return;
    this.#note(evicted, true);
    this.#evicted.add(evicted);
    void this.#evicted.run();
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

function full(cause?: unknown): TokenStoreFull {
  return new TokenStoreFull('the token store holds as many tokens as it may', { cause });
}

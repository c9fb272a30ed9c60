import { EvictionOrder } from './eviction-order.ts';
import {
  type OnRemove,
  type RemovalReason,
  type TokenRecord,
  type TokenStore,
  TokenStoreFull,
  TokenStoreUnavailable,
} from './token-store.ts';

/** Maximum delay of a Node timer in milliseconds. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * In-memory store of valid tokens. While the store is full, new tokens are refused, unless they replace the oldest
 * token of the same API key. Tokens expire in the order of issue, because all have the same lifetime.
 */
export class MemoryTokenStore implements TokenStore {
  onRemove: OnRemove = () => {};
  readonly maxTokens: number;
  readonly #records = new Map<string, TokenRecord>();
  readonly #maxTokensPerKey: number;
  /** Tokens of each API key. Tokens issued concurrently on two nodes may have the same `order`. */
  readonly #byKey = new Map<string, EvictionOrder>();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor({ maxTokens = 100_000, maxTokensPerKey = 1000 }: { maxTokens?: number; maxTokensPerKey?: number } = {}) {
    this.maxTokens = maxTokens;
    this.#maxTokensPerKey = maxTokensPerKey;
  }

  get size(): number {
    return this.#records.size;
  }

  put(record: TokenRecord): void {
    this.insert(record, this.nextOrder(record.keyId));
  }

  ids(): IterableIterator<string> {
    return this.#records.keys();
  }

  /** Whether a new token of the API key would evict the key's oldest token. */
  isFull(keyId: string): boolean {
    return (this.#byKey.get(keyId)?.size ?? 0) >= this.#maxTokensPerKey;
  }

  nextOrder(keyId: string): number {
    return (this.#byKey.get(keyId)?.newestOrder ?? 0) + 1;
  }

  /**
   * Adds a token. If its API key then has too many tokens, evicts the one with the lowest `order`, which is the same on
   * all nodes, and returns its id.
   */
  insert(record: TokenRecord, order: number): string | undefined {
    this.#check();
    const { id, keyId, expiresAt } = record;
    if (this.#records.has(id)) return undefined;
    if (this.#records.size >= this.maxTokens && !this.isFull(keyId))
      throw new TokenStoreFull(`the token store holds ${this.maxTokens} tokens`);
    this.#records.set(id, record);
    if (this.#timer === undefined) this.#arm(expiresAt);
    const tokens = this.#byKey.get(keyId) ?? new EvictionOrder();
    this.#byKey.set(keyId, tokens);
    tokens.add(id, order);
    const evicted = tokens.size > this.#maxTokensPerKey ? tokens.oldest : undefined;
    if (evicted !== undefined) this.revoke(evicted);
    return evicted;
  }

  has(id: string): boolean {
    this.#check();
    const record = this.#records.get(id);
    return record !== undefined && record.expiresAt > Date.now();
  }

  find(id: string): boolean {
    return this.has(id);
  }

  revoke(id: string): void {
    this.#check();
    const record = this.#records.get(id);
    if (record !== undefined) this.#remove(record, 'token revoked');
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#records.clear();
    this.#byKey.clear();
  }

  #check(): void {
    if (this.#closed) throw new TokenStoreUnavailable('the token store is closed');
  }

  #arm(expiresAt: number): void {
    const wait = Math.min(Math.max(expiresAt - Date.now(), 1), MAX_TIMER_MS);
    this.#timer = setTimeout(() => this.#dropExpired(), wait).unref();
  }

  #dropExpired(): void {
    this.#timer = undefined;
    const now = Date.now();
    for (const record of this.#records.values()) {
      if (record.expiresAt > now) {
        this.#arm(record.expiresAt);
        return;
      }
      this.#remove(record, 'token expired');
    }
  }

  #remove({ id, keyId }: TokenRecord, end: RemovalReason): void {
    this.#records.delete(id);
    const tokens = this.#byKey.get(keyId);
    tokens?.remove(id);
    if (tokens?.size === 0) this.#byKey.delete(keyId);
    this.onRemove(id, end);
  }
}

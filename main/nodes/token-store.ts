import { type PostgresDatabase, reasonOf } from '../../db/postgres/database.ts';
import * as tokens from '../../db/postgres/tokens.ts';
import type { Awaitable } from '../../db/task-rows.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { Log } from '../log/log.ts';
import {
  MemoryTokenStore,
  type OnRemove,
  type TokenRecord,
  type TokenStore,
  TokenStoreFull,
  TokenStoreUnavailable,
} from '../ticker/token-store.ts';
import type { Bus } from './bus.ts';

export interface NodeTokenStoreOptions {
  database: Pick<PostgresDatabase, 'query'>;
  bus: Bus;
  /** Maximum number of tokens. Exceeded slightly if several nodes issue at once. */
  maxTokens?: number;
  /** Beyond this number, the key's oldest token is evicted. */
  maxTokensPerKey: number;
  clock: Clock;
  log: Log;
}

/** Format of a token identifier. */
const ID = /^[\w-]{1,64}$/;
const MAX_LOOKUPS = 100;
const REREAD_SLICE = 5000;
const SWEEP_MS = 120_000;
/** Expired rows are kept a little longer, because the clocks of the nodes differ. */
const EXPIRY_TOLERANCE_MS = 60_000;

/**
 * Token store in PostgreSQL. Each node caches the tokens that it has issued or looked up, and removes a token when its
 * revocation is announced. While announcements may be missed, the cache is not trusted.
 */
export class NodeTokenStore implements TokenStore {
  onRemove: OnRemove = () => {};
  readonly maxTokens: number;
  readonly #options: NodeTokenStoreOptions;
  readonly #cache: MemoryTokenStore;
  /** Reads and writes of the table in progress, by token id. A revocation removes one, whose token is not cached then. */
  readonly #pending = new Map<string, Promise<boolean>>();
  /** Number of lookups in progress. Bounded, because anybody can ask for unknown tokens. */
  #lookups = 0;
  /** Number of tokens in the table, as last counted, with this node's changes since. */
  #size = 0;
  #isClosed = false;
  /** Number of times that revocations may have been missed. */
  #losses = 0;
  /** Value of `#losses` from which the newest finished reread started. The cache is trusted while both are equal. */
  #lossesRead = -1;
  #cancelTimer = () => {};

  constructor(options: NodeTokenStoreOptions) {
    const { bus, maxTokens = 100_000, clock } = options;
    this.#options = options;
    this.maxTokens = maxTokens;
    this.#cache = new MemoryTokenStore({ maxTokens: 2 * maxTokens, maxTokensPerKey: Number.POSITIVE_INFINITY, clock });
    this.#cache.onRemove = (id, reason) => {
      this.#size -= 1;
      this.onRemove(id, reason);
    };
    bus.on('message', (message) => {
      if (message.topic === 'revoked') this.#revoked(message.id);
    });
    bus.receiving.on('lost', () => {
      this.#losses += 1;
    });
    // Not at `missed`: revocations are announced by the transactions that delete tokens, so none is dropped.
    bus.receiving.on('up', () => void this.#reread());
  }

  get size(): number {
    return this.#isClosed ? 0 : Math.max(this.#cache.size, this.#size);
  }

  /** Counts the tokens, and starts to delete expired ones. */
  async open(): Promise<this> {
    await this.#sweep();
    // Otherwise read when the connection is back.
    if (this.#options.bus.receiving.isUp) await this.#reread();
    return this;
  }

  async put(token: TokenRecord): Promise<void> {
    const { database, maxTokensPerKey } = this.#options;
    const hasRoom = this.#size < this.maxTokens;
    await this.#read(token.id, async () => {
      const { isAdded, evicted } = await tokens.put(database.query, token, maxTokensPerKey, hasRoom);
      if (!isAdded) throw new TokenStoreFull('the token store is full');
      this.#size += 1;
      for (const each of evicted) this.#revoked(each);
      return token;
    });
  }

  has(id: string): boolean {
    this.#check();
    return this.#cache.has(id);
  }

  find(id: string): Awaitable<boolean> {
    if (this.has(id)) return true;
    if (!ID.test(id)) return false;
    const pending = this.#pending.get(id);
    if (pending !== undefined) return pending;
    if (this.#lookups >= MAX_LOOKUPS) throw new TokenStoreUnavailable('too many unknown tokens at once');
    this.#lookups += 1;
    const { database } = this.#options;
    return this.#read(id, () => tokens.find(database.query, id)).finally(() => {
      this.#lookups -= 1;
    });
  }

  async revoke(id: string): Promise<void> {
    this.#check();
    if (!ID.test(id)) return;
    await this.#request(() => tokens.revoke(this.#options.database.query, id));
    this.#revoked(id);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelTimer();
    this.#cache.close();
  }

  /** Removes a token that was revoked, on this node or on another one. */
  #revoked(id: string): void {
    if (this.#isClosed) return;
    this.#pending.delete(id);
    this.#cache.revoke(id);
  }

  /** Removes the tokens that were revoked while announcements may have been missed, and trusts the cache again. */
  async #reread(): Promise<void> {
    const losses = ++this.#losses;
    const { database, clock, log } = this.#options;
    const ids = this.#cache.records().map(({ id }) => id);
    while (losses === this.#losses && !this.#isClosed) {
      try {
        for (let start = 0; start < ids.length; start += REREAD_SLICE) {
          const slice = ids.slice(start, start + REREAD_SLICE);
          const present = await tokens.present(database.query, slice);
          for (const id of slice) if (!present.has(id)) this.#revoked(id);
        }
        // An earlier reread may end after a newer one.
        this.#lossesRead = Math.max(this.#lossesRead, losses);
        return;
      } catch (error) {
        if (losses !== this.#losses || this.#isClosed) return;
        log.warn({ reason: reasonOf(error) }, 'the tokens cannot be read again: retrying');
        await clock.sleep(1000);
      }
    }
  }

  /** Caches the token that `read` returns. Returns whether there is one. */
  #read(id: string, read: () => Promise<TokenRecord | undefined>): Promise<boolean> {
    this.#check();
    const losses = this.#losses;
    const isPending = () => this.#pending.get(id) === result;
    const result: Promise<boolean> = this.#request(read)
      .then((row) => isPending() && this.#insert(row, losses !== this.#losses))
      .finally(() => isPending() && this.#pending.delete(id));
    this.#pending.set(id, result);
    return result;
  }

  #insert(token: TokenRecord | undefined, isStale: boolean): boolean {
    if (token === undefined || token.expiresAt <= this.#options.clock.now()) return false;
    this.#check();
    if (isStale) throw new TokenStoreUnavailable('the connection to PostgreSQL was lost');
    if (this.#cache.size >= this.#cache.maxTokens) throw new TokenStoreUnavailable('too many tokens');
    this.#cache.put(token);
    return true;
  }

  #check(): void {
    if (this.#isClosed) throw new TokenStoreUnavailable('the token store is closed');
    if (this.#lossesRead !== this.#losses)
      throw new TokenStoreUnavailable('revoked tokens are not known: PostgreSQL cannot be reached');
  }

  async #request<Result>(operation: () => Promise<Result>): Promise<Result> {
    try {
      return await operation();
    } catch (error) {
      if (error instanceof TokenStoreFull) throw error;
      throw new TokenStoreUnavailable(`the table of tokens cannot be used: ${reasonOf(error)}`);
    }
  }

  async #sweep(): Promise<void> {
    const { database, clock, log } = this.#options;
    try {
      await tokens.deleteExpired(database.query, clock.now() - EXPIRY_TOLERANCE_MS);
      this.#size = await tokens.count(database.query, clock.now());
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, 'expired tokens cannot be deleted: retrying');
    }
    if (!this.#isClosed) this.#cancelTimer = clock.timer(SWEEP_MS, () => void this.#sweep());
  }
}

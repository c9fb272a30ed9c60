import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Awaitable } from '../../db/task-rows.ts';
import { alarm, type Clock } from '../../workers/shared/clock.ts';
import { HttpError } from '../http/errors.ts';
import type { Log } from '../log/log.ts';

export interface TokenRecord {
  id: string;
  keyId: string;
  /** Unix time in milliseconds. */
  expiresAt: number;
}

export class TokenStoreUnavailable extends HttpError {
  override name = 'TokenStoreUnavailable';

  constructor(reason: string) {
    super('tokensUnavailable', { cause: new Error(reason) });
  }
}

export class TokenStoreFull extends Error {
  override name = 'TokenStoreFull';
}

/** Why a token was removed. An evicted token counts as revoked. */
export type RemovalReason = 'token revoked' | 'token expired';

export type OnRemove = (id: string, end: RemovalReason) => void;

export interface TokenStore {
  readonly size: number;
  readonly maxTokens: number;
  onRemove: OnRemove;
  /** Adds a token. May evict the oldest token of the API key. @throws {TokenStoreUnavailable | TokenStoreFull} */
  put(record: TokenRecord): Awaitable<void>;
  /** Whether this node knows the token and the token has not expired. @throws {TokenStoreUnavailable} */
  has(id: string): boolean;
  /** Like `has`, but also finds tokens issued by other nodes. @throws {TokenStoreUnavailable} */
  find(id: string): Awaitable<boolean>;
  /** Removes a token before it expires. @throws {TokenStoreUnavailable} */
  revoke(id: string): Awaitable<void>;
  close(): Awaitable<void>;
}

/** Minimum interval between two removals of expired tokens, each of which reads all tokens. */
const REMOVAL_INTERVAL_MS = 50;

export interface MemoryTokenStoreOptions {
  maxTokens?: number;
  maxTokensPerKey?: number;
  clock: Clock;
}

/**
 * In-memory store of valid tokens. While the store is full, new tokens are refused, unless they replace the oldest
 * token of the same API key.
 */
export class MemoryTokenStore implements TokenStore {
  onRemove: OnRemove = () => {};
  readonly maxTokens: number;
  readonly #records = new Map<string, TokenRecord>();
  readonly #maxTokensPerKey: number;
  readonly #clock: Clock;
  /** Tokens of each API key, oldest first. */
  readonly #byKey = new Map<string, Set<string>>();
  readonly #alarm: ReturnType<typeof alarm>;
  #closed = false;

  constructor({ maxTokens = 100_000, maxTokensPerKey = 1000, clock }: MemoryTokenStoreOptions) {
    this.maxTokens = maxTokens;
    this.#maxTokensPerKey = maxTokensPerKey;
    this.#clock = clock;
    this.#alarm = alarm(clock, () => this.#removeExpired());
  }

  get size(): number {
    return this.#records.size;
  }

  /** Returns the tokens, oldest first. */
  records(): TokenRecord[] {
    return [...this.#records.values()];
  }

  put(record: TokenRecord): void {
    this.#check();
    const { id, keyId, expiresAt } = record;
    if (this.#records.has(id)) return;
    const tokens = this.#byKey.get(keyId) ?? new Set();
    const isKeyFull = tokens.size >= this.#maxTokensPerKey;
    if (this.#records.size >= this.maxTokens && !isKeyFull)
      throw new TokenStoreFull(`the token store holds ${this.maxTokens} tokens`);
    const [oldest] = isKeyFull ? tokens : [];
    if (oldest !== undefined) this.revoke(oldest);
    this.#records.set(id, record);
    this.#byKey.set(keyId, tokens.add(id));
    this.#alarm.set(expiresAt);
  }

  has(id: string): boolean {
    this.#check();
    const record = this.#records.get(id);
    return record !== undefined && record.expiresAt > this.#clock.now();
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
    this.#alarm.stop();
    this.#records.clear();
    this.#byKey.clear();
  }

  #check(): void {
    if (this.#closed) throw new TokenStoreUnavailable('the token store is closed');
  }

  #removeExpired(): void {
    const now = this.#clock.now();
    let next = Number.POSITIVE_INFINITY;
    for (const record of this.#records.values()) {
      if (record.expiresAt <= now) this.#remove(record, 'token expired');
      else next = Math.min(next, record.expiresAt);
    }
    this.#alarm.set(Math.max(next, now + REMOVAL_INTERVAL_MS));
  }

  #remove({ id, keyId }: TokenRecord, end: RemovalReason): void {
    this.#records.delete(id);
    const tokens = this.#byKey.get(keyId);
    tokens?.delete(id);
    if (tokens?.size === 0) this.#byKey.delete(keyId);
    this.onRemove(id, end);
  }
}

export interface KeptTokens {
  /** Secret of the tokens. Undefined if the secret is a setting. */
  key?: string | undefined;
  records: TokenRecord[];
}

/**
 * Reads the tokens that a single node has kept at an orderly stop, and deletes the file, so that a start after a crash
 * accepts no token revoked in the meantime. A missing file, and with a warning a damaged one, has no tokens.
 */
export function takeTokens(file: string, log: Log): KeptTokens {
  try {
    const { key, records }: KeptTokens = JSON.parse(readFileSync(file, 'utf8'));
    rmSync(file);
    if (key !== undefined && typeof key !== 'string') throw new TypeError('the key is no text');
    return { key, records: records.map((record) => ({ ...record })) };
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code !== 'ENOENT') {
      log.warn({ err, file }, 'the tokens of the last run cannot be used: users must sign in again');
      rmSync(file, { force: true, recursive: true });
    }
    return { records: [] };
  }
}

/** Writes the tokens, readable for the owner of the file only. A failure is logged. */
export function keepTokens(file: string, tokens: KeptTokens, log: Log): void {
  if (tokens.records.length === 0) return;
  try {
    writeFileSync(file, JSON.stringify(tokens), { mode: 0o600 });
  } catch (err) {
    log.warn({ err, file }, 'the tokens cannot be kept: users must sign in again after the next start');
  }
}

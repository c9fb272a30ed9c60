import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Log } from '../log/log.ts';
import type { TokenRecord } from './token-store.ts';

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

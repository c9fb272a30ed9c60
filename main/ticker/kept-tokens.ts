import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Log } from '../log/log.ts';
import type { TokenRecord } from './token-store.ts';

export interface KeptTokens {
  /** Secret of the tokens. Undefined if the secret is a setting. */
  key?: string | undefined;
  records: TokenRecord[];
}

/** File in which a single node keeps its tokens from an orderly stop to the next start. */
export class TokensFile {
  readonly #path: string;
  readonly #log: Log;

  constructor(path: string, log: Log) {
    this.#path = path;
    this.#log = log;
  }

  /**
   * Reads the tokens and deletes the file, so that a start after a crash accepts no token revoked in the meantime.
   * A missing file, and with a warning a damaged one, has no tokens.
   */
  take(): KeptTokens {
    try {
      const { key, records } = JSON.parse(readFileSync(this.#path, 'utf8')) as KeptTokens;
      rmSync(this.#path);
      return { key, records: records.map((record) => ({ ...record })) };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
        const fields = { err: error, file: this.#path };
        this.#log.warn(fields, 'the tokens of the last run cannot be used: users must sign in again');
        rmSync(this.#path, { force: true });
      }
      return { records: [] };
    }
  }

  /** Writes the tokens, readable for the owner of the file only. A failure is logged. */
  keep(tokens: KeptTokens): void {
    if (tokens.records.length === 0) return;
    try {
      writeFileSync(this.#path, JSON.stringify(tokens), { mode: 0o600 });
    } catch (error) {
      const fields = { err: error, file: this.#path };
      this.#log.warn(fields, 'the tokens cannot be kept: users must sign in again after the next start');
    }
  }
}

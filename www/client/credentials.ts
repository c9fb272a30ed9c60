import { UnreachableError } from './errors.ts';

/** Neither is needed if the service requires no token. */
export interface CredentialOptions {
  /** API key, which is exchanged for tokens. Visitors of a page must not get one. */
  apiKey?: string | undefined;
  /** Token, or a function that returns one. The function is called again after the service has refused its last token. */
  token?: string | (() => string | undefined | Promise<string>) | undefined;
}

/** A new token. `expires_in` is in seconds. */
export interface Grant {
  token: string;
  expires_in: number;
}

/** Part of a token's lifetime after which the API key is exchanged again. */
const RENEWED_AFTER = 0.9;

/** Token of a client, shared by all of its requests and connections. */
export class Credentials {
  readonly #options: CredentialOptions;
  readonly #exchange: (apiKey: string) => Promise<Grant>;
  #token: Promise<string | undefined> = Promise.resolve(undefined);
  /** Milliseconds since the epoch, so that a token also expires while a laptop sleeps. */
  #renewAt = 0;

  constructor(options: CredentialOptions, exchange: (apiKey: string) => Promise<Grant>) {
    this.#options = options;
    this.#exchange = exchange;
  }

  /** Returns a token, or undefined if there are no credentials. */
  token(): Promise<string | undefined> {
    if (Date.now() >= this.#renewAt) {
      this.#renewAt = Number.POSITIVE_INFINITY;
      this.#token = this.#renew().catch((error) => {
        this.#renewAt = 0;
        throw error;
      });
    }
    return this.#token;
  }

  /** Discards a token that the service has refused. @returns whether there can be another one */
  async refuse(token: string | undefined): Promise<boolean> {
    const isRenewable = this.#options.apiKey !== undefined || typeof this.#options.token === 'function';
    // Another request may have replaced the token since.
    if (isRenewable && (await this.#token.catch(() => undefined)) === token) this.#renewAt = 0;
    return isRenewable;
  }

  async #renew(): Promise<string | undefined> {
    const { apiKey, token: given } = this.#options;
    if (apiKey === undefined) {
      if (typeof given !== 'function') return given;
      try {
        return await given();
      } catch (cause) {
        // Transient, because the function probably uses the network.
        throw new UnreachableError('no token could be had', { cause });
      }
    }
    const { token, expires_in } = await this.#exchange(apiKey);
    this.#renewAt = Date.now() + RENEWED_AFTER * 1000 * expires_in;
    return token;
  }
}

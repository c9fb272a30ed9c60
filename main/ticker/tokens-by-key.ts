export interface OrderedToken {
  id: string;
  keyId: string;
  /** Position among the tokens of the API key; higher is newer. Tokens issued concurrently on two nodes may share a position. */
  order: number;
}

/** Tokens by API key, oldest first, with a maximum of `max` for each key. The caller evicts the tokens that `add` returns. */
export class TokensByKey {
  readonly #max: number;
  readonly #tokens = new Map<string, OrderedToken[]>();

  constructor(max: number) {
    this.#max = max;
  }

  next(keyId: string): number {
    return (this.#tokens.get(keyId)?.at(-1)?.order ?? 0) + 1;
  }

  /** Whether adding a token of the key evicts another token. */
  isFull(keyId: string): boolean {
    return (this.#tokens.get(keyId)?.length ?? 0) >= this.#max;
  }

  /** Adds a token and returns the token to evict, if any. Nodes that add the same tokens, in any order, keep the same ones. */
  add(token: OrderedToken): OrderedToken | undefined {
    const tokens = this.#tokens.get(token.keyId) ?? [];
    this.#tokens.set(token.keyId, tokens);
    // The position is searched from the end, because almost every added token is the newest.
    tokens.splice(tokens.findLastIndex((other) => precedes(other, token)) + 1, 0, token);
    return tokens.length > this.#max ? tokens.shift() : undefined;
  }

  delete({ id, keyId }: Pick<OrderedToken, 'id' | 'keyId'>): void {
    const tokens = this.#tokens.get(keyId);
    const index = tokens?.findIndex((token) => token.id === id) ?? -1;
    if (tokens === undefined || index < 0) return;
    tokens.splice(index, 1);
    if (tokens.length === 0) this.#tokens.delete(keyId);
  }

  clear(): void {
    this.#tokens.clear();
  }
}

function precedes(one: OrderedToken, other: OrderedToken): boolean {
  return one.order < other.order || (one.order === other.order && one.id < other.id);
}

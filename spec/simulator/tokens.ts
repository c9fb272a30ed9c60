import type { World } from './world.ts';

const REVOKED = 'A revoked token opens nothing.';
const EXPIRED = 'An expired token opens nothing.';
const VALID = 'While revocations may have been missed, a node answers 503, never 401.';

/** Time after which each node knows of a revocation, or knows that it may have missed one. */
const KNOWN_MS = 3000;

interface KnownToken {
  expiresAt: number;
  /** When a revocation was requested, and when it was answered. */
  revoking: number | undefined;
  revokedAt: number | undefined;
}

/** Checks the answers of the token stores. */
export class TokenOracle {
  readonly #world: World;
  readonly #tokens = new Map<string, KnownToken>();

  constructor(world: World) {
    this.#world = world;
  }

  get ids(): string[] {
    return [...this.#tokens.keys()];
  }

  onIssued(id: string, expiresAt: number): void {
    this.#tokens.set(id, { expiresAt, revoking: undefined, revokedAt: undefined });
  }

  onRevoking(id: string, now: number): void {
    const token = this.#tokens.get(id);
    if (token !== undefined) token.revoking ??= now;
  }

  onRevoked(id: string, now: number): void {
    const token = this.#tokens.get(id);
    if (token !== undefined) token.revokedAt ??= now;
  }

  /** @param awakeSince time from which on the node has run without standing still */
  onFound(id: string, isValid: boolean, asked: number, now: number, awakeSince: number, node: string): void {
    const token = this.#tokens.get(id);
    if (token === undefined) return;
    const { expiresAt, revoking, revokedAt } = token;
    if (isValid && expiresAt <= asked) this.#world.broken(EXPIRED, `${node} accepted ${id} after its expiry`);
    const knownAt = revokedAt === undefined ? Number.POSITIVE_INFINITY : Math.max(revokedAt, awakeSince) + KNOWN_MS;
    if (isValid && asked > knownAt) this.#world.broken(REVOKED, `${node} accepted ${id} after its revocation`);
    if (!isValid && revoking === undefined && now < expiresAt) {
      this.#world.broken(VALID, `${node} refused ${id}, which is valid`);
    }
  }
}

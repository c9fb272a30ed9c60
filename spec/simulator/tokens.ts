import type { Node, NodeServer } from './node.ts';
import type { SeededRandom } from './random.ts';
import type { World } from './world.ts';

const REVOKED = 'A revoked token opens nothing.';
const EXPIRED = 'An expired token opens nothing.';
const VALID = 'While revocations may have been missed, a node answers 503, never 401.';
const ANSWERS = 'After the faults, each node answers for tokens.';

const TOKEN_MS = 120_000;

/** Time after which each node knows of a revocation, or knows that it may have missed one. */
const KNOWN_MS = 3000;

interface KnownToken {
  expiresAt: number;
  /** When a revocation was requested, and when it was answered. */
  revokingAt?: number;
  revokedAt?: number;
}

/** Clients of the token stores, which check the answers. */
export class TokenClients {
  readonly #world: World;
  readonly #server: NodeServer;
  readonly #tokens = new Map<string, KnownToken>();

  constructor(world: World, server: NodeServer) {
    this.#world = world;
    this.#server = server;
  }

  /** The newest tokens. */
  get ids(): string[] {
    return [...this.#tokens.keys()].slice(-10);
  }

  issue({ tokens, name, isStill }: Node, id: string, random: SeededRandom): void {
    const keyId = `key${random.below(2)}`;
    const expiresAt = this.#world.now + TOKEN_MS;
    if (isStill || tokens === undefined) return;
    this.#ask(`${name} issues ${id}`, async () => {
      await tokens.put({ id, keyId, expiresAt });
      // The oldest token of the key may have been evicted by now.
      if (await this.#server.hasToken(id)) this.#tokens.set(id, { expiresAt });
      for (const [known, token] of this.#tokens)
        if (!(await this.#server.hasToken(known))) token.revokingAt ??= this.#world.now;
    });
  }

  revoke({ tokens, name, isStill }: Node, random: SeededRandom): void {
    if (this.#tokens.size === 0) return;
    const id = random.pick(this.ids);
    const token = this.#tokens.get(id);
    if (isStill || tokens === undefined || token === undefined) return;
    token.revokingAt ??= this.#world.now;
    this.#ask(`${name} revokes ${id}`, async () => {
      await tokens.revoke(id);
      token.revokedAt ??= this.#world.now;
    });
  }

  find(node: Node, id: string, mustAnswer = false): void {
    const { tokens, name, isStill } = node;
    const token = this.#tokens.get(id);
    if (isStill || tokens === undefined || token === undefined) return;
    const { awakeSince } = node;
    const find = async () => {
      const isSure = await this.#server.hasToken(id);
      const askedAt = this.#world.now;
      const isValid = await tokens.find(id);
      // A token that was evicted, or deleted after its expiry, counts as revoked.
      if (!(await this.#server.hasToken(id))) token.revokingAt ??= askedAt;
      if (isValid || isSure) this.#check(token, isValid, askedAt, awakeSince, `${name} for ${id}`);
      return isValid;
    };
    this.#ask(`${name} looks up ${id}`, find, mustAnswer);
  }

  /** @param awakeSince time from which on the node has run without standing still */
  #check(token: KnownToken, isValid: boolean, askedAt: number, awakeSince: number, answer: string): void {
    const { expiresAt, revokingAt, revokedAt = Number.POSITIVE_INFINITY } = token;
    const isKnown = askedAt > Math.max(revokedAt, awakeSince) + KNOWN_MS;
    if (isValid && expiresAt <= askedAt) this.#world.broken(EXPIRED, answer);
    if (isValid && isKnown) this.#world.broken(REVOKED, answer);
    if (!isValid && revokingAt === undefined && this.#world.now < expiresAt) this.#world.broken(VALID, answer);
  }

  #ask(what: string, run: () => Promise<unknown>, mustAnswer = false): void {
    run().then(
      (answer) => this.#world.note(`    ${what}: ${answer ?? 'done'}`),
      (error: Error) => {
        this.#world.note(`    ${what}: ${error.name}`);
        if (mustAnswer) this.#world.broken(ANSWERS, `${what}: ${error.message}`);
      },
    );
  }
}

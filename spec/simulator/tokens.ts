import type { Node, NodeServer } from './nodes.ts';
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
export function tokenClients(world: World, server: NodeServer) {
  const known = new Map<string, KnownToken>();
  /** Returns the newest tokens. */
  const ids = () => [...known.keys()].slice(-10);

  function issue({ tokens, process: { name, isStill } }: Node, id: string, random: SeededRandom): void {
    const keyId = `key${random.below(2)}`;
    const expiresAt = world.now + TOKEN_MS;
    if (isStill || tokens === undefined) return;
    ask(`${name} issues ${id}`, async () => {
      await tokens.put({ id, keyId, expiresAt });
      // The oldest token of the key may have been evicted by now.
      if (await server.hasToken(id)) known.set(id, { expiresAt });
      for (const [other, token] of known) if (!(await server.hasToken(other))) token.revokingAt ??= world.now;
    });
  }

  /** Returns the id of the token that is revoked, if any. */
  function revoke({ tokens, process: { name, isStill } }: Node, random: SeededRandom): string | undefined {
    if (known.size === 0) return undefined;
    const id = random.pick(ids());
    const token = known.get(id);
    if (isStill || tokens === undefined || token === undefined) return undefined;
    token.revokingAt ??= world.now;
    ask(`${name} revokes ${id}`, async () => {
      await tokens.revoke(id);
      token.revokedAt ??= world.now;
    });
    return id;
  }

  function find({ tokens, process: { name, isStill, awakeSince } }: Node, id: string, mustAnswer = false): void {
    const token = known.get(id);
    if (isStill || tokens === undefined || token === undefined) return;
    const lookUp = async () => {
      const isSure = await server.hasToken(id);
      const askedAt = world.now;
      const isValid = await tokens.find(id);
      // A token that was evicted, or deleted after its expiry, counts as revoked.
      if (!(await server.hasToken(id))) {
        token.revokingAt ??= askedAt;
        // Its request may have no answer.
        token.revokedAt ??= world.now;
      }
      if (isValid || isSure) check(token, isValid, askedAt, awakeSince, `${name} for ${id}`);
      return isValid;
    };
    ask(`${name} looks up ${id}`, lookUp, mustAnswer);
  }

  /** @param awakeSince time from which on the node has run without standing still */
  function check(token: KnownToken, isValid: boolean, askedAt: number, awakeSince: number, answer: string): void {
    const { expiresAt, revokingAt, revokedAt = Number.POSITIVE_INFINITY } = token;
    const isKnown = askedAt > Math.max(revokedAt, awakeSince) + KNOWN_MS;
    if (isValid && expiresAt <= askedAt) world.broken(EXPIRED, answer);
    if (isValid && isKnown) world.broken(REVOKED, answer);
    if (!isValid && revokingAt === undefined && world.now < expiresAt) world.broken(VALID, answer);
  }

  function ask(what: string, run: () => Promise<unknown>, mustAnswer = false): void {
    run().then(
      (answer) => world.note(`    ${what}: ${answer ?? 'done'}`),
      (error: Error) => {
        world.note(`    ${what}: ${error.name}`);
        if (mustAnswer) world.broken(ANSWERS, `${what}: ${error.message}`);
      },
    );
  }

  return { ids, issue, revoke, find };
}

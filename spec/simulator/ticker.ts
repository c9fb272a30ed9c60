import type { Tick } from '../../main/ticker/ticker.ts';
import type { TokenStore } from '../../main/ticker/token-store.ts';
import type { SeededRandom } from '../support/random.ts';
import type { NodeServer } from './nodes.ts';
import type { Process } from './process.ts';
import type { World } from './world.ts';

const ONE_LEADER = 'At most one node makes ticks at a time.';
const ONE_PRICE = 'No second has two prices.';
const NOT_BACK = 'A tick never goes back, unless a node had none for 3.5 seconds.';
const RESUME = 'After the faults, every node gets the ticks of one leader.';
const REVOKED = 'A revoked token opens nothing.';
const EXPIRED = 'An expired token opens nothing.';
const VALID = 'While revocations may have been missed, a node answers 503, never 401.';
const ANSWERS = 'After the faults, each node answers for tokens.';

/** Time without ticks after which a node accepts an earlier one, because its database may have been restored. */
const ORDER_MS = 3500;
const TOKEN_MS = 120_000;
/** Time after which each node knows of a revocation, or knows that it may have missed one. */
const KNOWN_MS = 3000;

export function tickOracle(world: World) {
  /** Second of the last tick that any node has made. */
  let made = 0;
  /** Second of the last tick that a node's clients got, and when they got it. */
  const last = new Map<string, { second: number; at: number }>();

  /** Called with each tick that goes to the clients of a node. */
  function onDelivered({ timestamp }: Tick, node: string): void {
    const { now } = world;
    const { second, at } = last.get(node) ?? { second: 0, at: 0 };
    if (timestamp < second && now - at < ORDER_MS)
      world.broken(NOT_BACK, `${node} got second ${timestamp} after ${second}`);
    last.set(node, { second: timestamp, at: now });
  }

  function onPublished(tick: Tick, node: string): void {
    const isOther = ({ name, isStill, isDead, feed }: Process) =>
      name !== node && !isStill && !isDead && feed?.isLeader;
    const other = world.processes.find(isOther);
    if (other !== undefined) world.broken(ONE_LEADER, `${node} makes a tick, and ${other.name} is the leader`);
    if (tick.timestamp <= made) world.broken(ONE_PRICE, `${node} makes second ${tick.timestamp} after ${made}`);
    made = tick.timestamp;
    onDelivered(tick, node);
  }

  function checkRest(resting: readonly Process[]): void {
    for (const { name } of resting) {
      const { second = 0 } = last.get(name) ?? {};
      if (Math.floor(world.now / 1000) - second > 2)
        world.broken(RESUME, `${name} got its last tick at second ${second}`);
    }
  }

  return { onDelivered, onPublished, checkRest };
}

interface KnownToken {
  expiresAt: number;
  /** When a revocation was requested, and when it was answered. */
  revokingAt?: number;
  revokedAt?: number;
}

export function tokenClients(world: World, server: NodeServer) {
  const known = new Map<string, KnownToken>();
  const ids = () => [...known.keys()].slice(-10);

  /** Sends a request to a node, if it can answer. Returns whether it can. */
  function ask(node: Process, what: string, send: (tokens: TokenStore) => Promise<unknown>, mustAnswer = false) {
    const { name, isStill, tokens } = node;
    if (isStill || tokens === undefined) return false;
    const note = (answer: unknown) => world.note(`    ${name} ${what}: ${answer ?? 'done'}`);
    send(tokens).then(note, (error: Error) => {
      note(error.name);
      if (mustAnswer) world.broken(ANSWERS, `${name} ${what}: ${error.message}`);
    });
    return true;
  }

  function issue(node: Process, id: string, random: SeededRandom): void {
    const keyId = `key${random.below(2)}`;
    const expiresAt = world.now + TOKEN_MS;
    ask(node, `issues ${id}`, async (tokens) => {
      await tokens.put({ id, keyId, expiresAt });
      // The oldest token of the key may have been evicted by now.
      if (await server.hasToken(id)) known.set(id, { expiresAt });
      for (const [other, token] of known) if (!(await server.hasToken(other))) token.revokingAt ??= world.now;
    });
  }

  /** Returns the id of the token that is revoked, if any. */
  function revoke(node: Process, random: SeededRandom): string | undefined {
    if (known.size === 0) return undefined;
    const id = random.pick(ids());
    const token = known.get(id) as KnownToken;
    const isAsked = ask(node, `revokes ${id}`, async (tokens) => {
      token.revokingAt ??= world.now;
      await tokens.revoke(id);
      token.revokedAt ??= world.now;
    });
    return isAsked ? id : undefined;
  }

  function find(node: Process, id: string, mustAnswer = false): void {
    const token = known.get(id);
    if (token === undefined) return;
    const { awakeSince } = node;
    const lookUp = async (tokens: TokenStore) => {
      const isSure = await server.hasToken(id);
      const askedAt = world.now;
      const isValid = await tokens.find(id);
      // A token that was evicted, or deleted after its expiry, counts as revoked.
      if (!(await server.hasToken(id))) {
        token.revokingAt ??= askedAt;
        // Its request may have no answer.
        token.revokedAt ??= world.now;
      }
      const { expiresAt, revokingAt, revokedAt = Number.POSITIVE_INFINITY } = token;
      const isKnown = askedAt > Math.max(revokedAt, awakeSince) + KNOWN_MS;
      const answer = `${node.name} for ${id}`;
      if (isValid && expiresAt <= askedAt) world.broken(EXPIRED, answer);
      if (isValid && isKnown) world.broken(REVOKED, answer);
      if (!isValid && isSure && revokingAt === undefined && world.now < expiresAt) world.broken(VALID, answer);
      return isValid;
    };
    ask(node, `looks up ${id}`, lookUp, mustAnswer);
  }

  return { ids, issue, revoke, find };
}

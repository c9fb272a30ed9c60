import type { PostgresDatabase } from '../../db/postgres/database.ts';
import type { Awaitable } from '../../db/task-store.ts';
import { Bus } from '../../main/nodes/bus.ts';
import { Heartbeat } from '../../main/nodes/heartbeat.ts';
import type { Connect } from '../../main/nodes/link.ts';
import { NodeTickFeed } from '../../main/nodes/tick-feed.ts';
import { NodeTokenStore } from '../../main/nodes/token-store.ts';
import type { Tick, TickFeed } from '../../main/ticker/ticker.ts';
import type { TokenStore } from '../../main/ticker/token-store.ts';
import { type Clock, startSchedule } from '../../workers/shared/clock.ts';
import { SeededRandom } from '../support/random.ts';
import type { Backend, Process } from './process.ts';
import type { ObservedStore } from './rules.ts';
import { simulatedServer } from './server.ts';
import { SimulatedTime, type Time } from './time.ts';
import { type Setting, type SimulationOptions, type Site, type Steps, settingOf, World } from './world.ts';

const INTERVAL_MS = 1000;
const TOKENS_PER_KEY = 5;

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

export type NodeStore = ObservedStore & Required<Pick<ObservedStore, 'recover'>>;

const NO_FAULTS = {
  isUp: true,
  /** Probability that a request, or its answer, is lost. */
  lossRate: 0,
  /** Longest time in one direction. 0 if the server is as fast as usual. */
  latencyMs: 0,
  /** Whether notifications arrive twice and in another order, except for those of revocations. */
  isDisordered: false,
};

/** Faults, and their delays and losses, drawn for each fault, so that they depend on few of the steps before. */
export type ServerFaults = typeof NO_FAULTS & { random: SeededRandom };

/** The server of several nodes, simulated or real. */
export interface NodeServer extends Pick<Site, 'isReal' | 'store' | 'read' | 'close'> {
  connector(node: number, clock: Clock): Connect;
  database(node: number, clock: Clock): Pick<PostgresDatabase, 'query'>;
  openStore(node: number, owner: string, clock: Clock): NodeStore;
  cut(node?: number): void;
  /** Ends all connections of a node whose process has died. */
  end(node: number): void;
  hasToken(id: string): Awaitable<boolean>;
}

export async function simulateNodes(
  options: SimulationOptions,
  time: Time = new SimulatedTime(),
  openServer: (time: Time, faults: ServerFaults, setting: Setting) => Awaitable<NodeServer> = simulatedServer,
  pace = 1,
) {
  const random = new SeededRandom(`nodes ${options.seed}`);
  // Without eviction of keys and rows, because the order of the commits of several nodes is unknown.
  const setting = { ...settingOf(random.fork('setting'), options.seed), rows: 0 };
  setting.bounds.maxKeys = 1000;
  const faults: ServerFaults = { ...NO_FAULTS, random: random.fork('server') };
  const server = await openServer(time, faults, setting);
  const world = new World({ ...options, time, random, setting }, pace);
  return await world.run(nodeSite(world, server, faults), options);
}

function nodeSite(world: World, server: NodeServer, faults: ServerFaults): Site {
  const size = world.random.fork('nodes').between(2, 4);
  const { log, processes: nodes } = world;
  const ticks = tickOracle(world);
  const tokens = tokenClients(world, server);

  const repair = () => Object.assign(faults, NO_FAULTS);

  function steps(): Steps {
    const at = (run: (node: Process, random: SeededRandom) => unknown) => (random: SeededRandom) => {
      faults.random = random.fork('server');
      return run(nodes[random.below(size)] as Process, random);
    };
    const set = (fault: Partial<ServerFaults>) => at(() => void Object.assign(faults, fault));
    const failServer = () => {
      faults.isUp = false;
      server.cut();
    };
    const find = (node: Process, random: SeededRandom) => {
      for (const id of tokens.ids()) if (random.chance(0.4)) tokens.find(node, id);
    };
    const revoke = (node: Process, random: SeededRandom) => {
      const id = tokens.revoke(node, random);
      // Some look the token up while it is being revoked.
      for (const other of nodes) if (id !== undefined && random.chance(0.5)) tokens.find(other, id);
    };
    const goOn = async () => {
      for (const node of nodes) await node.goOn();
    };
    return {
      issue: [4, at((node, random) => tokens.issue(node, `token${world.step}`, random))],
      ...{ find: [10, at(find)], revoke: [3, at(revoke)] },
      kill: [1.5, at(({ place }) => world.restart(place, world.kill))],
      stop: [0.5, at(({ place }) => world.restart(place, world.stop))],
      ...{ standStill: [2, at((node) => void Object.assign(node, { isStill: true }))], goOn: [3, at(goOn)] },
      cut: [3, at(({ place }, random) => server.cut(random.chance(0.5) ? place : undefined))],
      ...{ failServer: [0.7, at(failServer)], repairServer: [4, at(repair)] },
      loseMessages: [2, set({ lossRate: 0.3 })],
      slowDown: [2, at((_, random) => Object.assign(faults, { latencyMs: random.pick([50, 300, 600, 4000]) }))],
      disorder: [1, set({ isDisordered: true })],
    };
  }

  /** Opens the parts in the order of a node. @throws {Error} if the server cannot be reached */
  async function openBackend(process: Process): Promise<Backend> {
    const { clock, place, random } = process;
    const [database, connect] = [server.database(place, clock), server.connector(place, clock)];
    const bus = new Bus({ databaseUrl: '', database, connect, clock, random, log });
    process.owner = bus.id;
    process.onKill = () => {
      // Not `close`, which would send the waiting messages of a killed process.
      bus.receiving.close();
      void process.tokens?.close();
      server.end(place);
    };
    await bus.open();
    const store = server.openStore(place, bus.id, clock);
    const heartbeat = new Heartbeat({ pool: database, store, bus, clock, log });
    await heartbeat.open();
    return {
      store,
      bus: {
        ...{ send: bus.send.bind(bus), follow: bus.follow.bind(bus) },
        // Each event is reported once, by the node that sends it.
        listen: (onMessage, onMissed) => bus.listen((each) => each.topic !== 'event' && onMessage(each), onMissed),
      },
      async start() {
        const feed = await new NodeTickFeed({ intervalMs: INTERVAL_MS, bus, clock, log }).open();
        const tokens = new NodeTokenStore({ database, bus, maxTokensPerKey: TOKENS_PER_KEY, clock, log });
        process.tokens = await tokens.open();
        process.feed = feed;
        bus.follow(true);
        makeTicks(process, feed);
      },
      async stop() {
        await store.close();
        await process.feed?.close();
        await heartbeat.close();
        return true;
      },
    };
  }

  /** Makes ticks at whole seconds as the ticker thread does, whose messages take a moment. */
  function makeTicks({ name, clock, random }: Process, feed: TickFeed): void {
    let price = 100;
    const onPrices = ({ prices }: Pick<Tick, 'prices'>) => {
      price = prices[0] ?? 0;
    };
    const onTick = (tick: Tick) => {
      onPrices(tick);
      ticks.onDelivered(tick, name);
    };
    feed.follow({ onTick, onPrices });
    feed.setLeaseWanted(true);
    startSchedule(clock, INTERVAL_MS, async () => {
      if (!feed.isLeader) return;
      const made = Math.round(price * (1 + (random.number() - 0.5) / 500) * 100) / 100;
      const timestamp = Math.floor(clock.now() / INTERVAL_MS);
      await clock.sleep(random.below(300));
      const tick = { symbols: 'BTC-USD', prices: [made], timestamp, data: '' };
      if (!feed.publish(tick)) return;
      price = made;
      world.note(`    ${name} ticks ${timestamp}`);
      ticks.onPublished(tick, name);
    });
  }

  async function checkRest(): Promise<void> {
    const resting = nodes.filter(({ awakeSince }) => world.now - awakeSince > 5000);
    for (const node of resting) {
      const { second = 0 } = ticks.last.get(node.name) ?? {};
      const isLate = Math.floor(world.now / 1000) - second > 2;
      if (isLate) world.broken(RESUME, `${node.name} got its last tick at second ${second}`);
      for (const id of tokens.ids()) tokens.find(node, id, true);
    }
    await world.pass(5000);
  }

  return {
    ...{ ...server, size, steps, openBackend, repair, checkRest },
    ended: (process) => process.kill(),
    // A node looks for messages only each second.
    hasFault: () => true,
  };
}

function tickOracle(world: World) {
  /** Second of the last tick that any node has made. */
  let made = 0;
  /** Second of the last tick that a node's clients got, and when they got it. */
  const last = new Map<string, { second: number; at: number }>();

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

  return { last, onDelivered, onPublished };
}

function tokenClients(world: World, server: NodeServer) {
  /** When each token expires, and when its revocation was requested and answered. */
  const known = new Map<string, { expiresAt: number; revokingAt?: number; revokedAt?: number }>();
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

  function revoke(node: Process, random: SeededRandom): string | undefined {
    if (known.size === 0) return undefined;
    const [id, token] = random.pick([...known].slice(-10));
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

import type { PostgresDatabase } from '../../db/postgres/database.ts';
import type { Awaitable, QueueCounts } from '../../db/task-store.ts';
import { Bus } from '../../main/nodes/bus.ts';
import { Heartbeat } from '../../main/nodes/heartbeat.ts';
import type { Connect } from '../../main/nodes/link.ts';
import { NodeTickFeed } from '../../main/nodes/tick-feed.ts';
import { NodeTokenStore } from '../../main/nodes/token-store.ts';
import type { Tick, TickFeed } from '../../main/ticker/ticker.ts';
import type { TokenStore } from '../../main/ticker/token-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { ObservedStore, Tables } from './history.ts';
import { Process, type ProcessOptions, silent } from './process.ts';
import type { SeededRandom } from './random.ts';
import type { TickOracle } from './ticks.ts';

const INTERVAL_MS = 1000;
const TOKENS_PER_KEY = 5;

export type NodeStore = ObservedStore & Required<Pick<ObservedStore, 'recover'>>;

/** The server of several nodes, simulated or real, with faults that the simulation controls. */
export abstract class NodeServer {
  /** Whether connections can be opened and used. */
  isUp = true;
  /** Probability that a request, or its answer, is lost. */
  lossRate = 0;
  /** Longest time in one direction. */
  latencyMs = 0;
  /** Whether notifications arrive twice and in another order, except for those of revocations. */
  isDisordered = false;
  /** Delays and losses. Set for each fault, so that they depend on few of the steps before. */
  random: SeededRandom;

  constructor(random: SeededRandom) {
    this.random = random;
    this.repair();
  }

  /** Ends the faults. */
  repair(): void {
    Object.assign(this, { isUp: true, lossRate: 0, latencyMs: 0, isDisordered: false });
  }

  abstract connector(node: number, clock: Clock): Connect;
  abstract database(node: number, clock: Clock): Pick<PostgresDatabase, 'query' | 'session'>;
  abstract openStore(node: number, owner: string, clock: Clock): NodeStore;
  /** Ends connections, all or those of a node. */
  abstract cut(node?: number): void;
  /** Ends all connections of a node whose process has died. */
  abstract end(node: number): void;
  abstract hasToken(id: string): Awaitable<boolean>;
  /** Returns the number of messages without the dead letters. */
  abstract unfinished(): Awaitable<number>;
  /** Reads all tables of tasks. */
  abstract read(): Awaitable<Tables & { counts: QueueCounts }>;
  /** Removes all tables. */
  abstract close(): Awaitable<void>;
}

export interface NodeOptions extends ProcessOptions {
  /** Number of the node among the others. Its processes follow one another. */
  place: number;
  server: NodeServer;
  ticks: TickOracle;
}

/** One process of several: the parts that `main/nodes` starts. */
export class Node extends Process<NodeOptions> {
  awakeSince: number;
  feed: TickFeed | undefined;
  tokens: TokenStore | undefined;
  readonly #bus: Bus;
  #heartbeat: Heartbeat | undefined;
  #store: ObservedStore | undefined;
  /** When the last message of the ticker thread arrives. */
  #publishedAt = 0;
  #price = 100;

  constructor(options: NodeOptions) {
    super(options);
    const { world, place, server, random } = options;
    this.awakeSince = world.now;
    const { clock } = this;
    const [database, connect] = [server.database(place, clock), server.connector(place, clock)];
    this.#bus = new Bus({ databaseUrl: '', database, connect, clock, random, log: silent });
    this.owner = this.#bus.id;
  }

  get name(): string {
    return this.options.name;
  }

  /** Opens all parts. @throws {Error} if the server cannot be reached */
  async open(): Promise<void> {
    const { place, name, server, ticks } = this.options;
    const { clock } = this;
    const bus = this.#bus;
    const parts = { clock, log: silent };
    await bus.open();
    const store = server.openStore(place, bus.id, clock);
    const database = server.database(place, clock);
    const heartbeat = new Heartbeat({ bus, pool: database, store, ...parts });
    await heartbeat.open();
    const dispatcher = await this.openQueue(store, this.#observedBus());
    await store.start();
    const feed = await new NodeTickFeed({ bus, intervalMs: INTERVAL_MS, ...parts }).open();
    this.tokens = await new NodeTokenStore({ database, bus, maxTokensPerKey: TOKENS_PER_KEY, ...parts }).open();
    const onPrices = ({ prices: [price = 0] }: Pick<Tick, 'prices'>) => {
      this.#price = price;
    };
    const onTick = (tick: Tick) => {
      onPrices(tick);
      ticks.onDelivered(tick, name);
    };
    feed.follow({ onTick, onPrices });
    feed.setLeaseWanted(true);
    bus.follow(true);
    this.feed = feed;
    this.#heartbeat = heartbeat;
    this.#store = store;
    this.dispatcher = dispatcher;
    dispatcher.start();
    this.#scheduleTick();
    if (this.options.world.setting.schedules.length > 0) await this.startSchedules();
  }

  /** Stops as at SIGTERM. */
  async stop(): Promise<void> {
    if (this.dispatcher === undefined) return;
    this.isStopping = true;
    await this.scheduler.stop();
    await this.dispatcher.stop(this.clock.sleep(5000));
    this.queue.close();
    await this.#store?.close();
    await this.feed?.close();
    await this.#heartbeat?.close();
  }

  override kill(): void {
    super.kill();
    // Not `close`, which would send the waiting messages of a killed process.
    this.#bus.receiving.close();
    void this.tokens?.close();
    this.options.server.end(this.options.place);
  }

  /** Returns the bus, which reports the events of this node only. */
  #observedBus() {
    const bus = this.#bus;
    const send: Bus['send'] = (message) => {
      if (message.topic === 'event') this.options.history.onEvent(message.event);
      bus.send(message);
    };
    return { send, listen: bus.listen.bind(bus), follow: bus.follow.bind(bus) };
  }

  /** Makes ticks at whole seconds as the ticker thread does, whose messages take a moment. */
  #scheduleTick(former = 0): void {
    const { clock, feed, name } = this;
    const { world, random, ticks } = this.options;
    if (feed === undefined) return;
    const next = Math.max(former, Math.floor(clock.now() / INTERVAL_MS)) + 1;
    clock.timer(next * INTERVAL_MS - clock.now(), () => {
      // A real timer may be a little early.
      const timestamp = Math.max(next, Math.floor(clock.now() / INTERVAL_MS));
      this.#scheduleTick(timestamp);
      if (!feed.isLeader) return;
      const price = Math.round(this.#price * (1 + (random.number() - 0.5) / 500) * 100) / 100;
      const tick = { symbols: 'BTC-USD', prices: [price], timestamp, data: '' };
      // Messages of a thread keep their order.
      this.#publishedAt = Math.max(this.#publishedAt, clock.now() + random.below(300));
      clock.timer(this.#publishedAt - clock.now(), () => {
        if (!feed.publish(tick)) return;
        this.#price = price;
        world.note(`    ${name} ticks ${timestamp}`);
        ticks.onPublished(tick, this);
      });
    });
  }
}

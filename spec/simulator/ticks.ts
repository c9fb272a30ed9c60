import type { Tick } from '../../main/ticker/ticker.ts';
import type { Node } from './node.ts';
import type { World } from './world.ts';

const ONE_LEADER = 'At most one node makes ticks at a time.';
const ONE_PRICE = 'No second has two prices.';
const NOT_BACK = 'A tick never goes back, unless a node had none for 3.5 seconds.';
const RESUME = 'After the faults, every node gets the ticks of one leader.';

/** Time without ticks after which a node accepts an earlier one, because its database may have been restored. */
const ORDER_MS = 3500;

/** Checks the ticks of several nodes. */
export class TickOracle {
  readonly #world: World;
  readonly #nodes: readonly Node[];
  /** Second of the last tick that any node has made. */
  #made = 0;
  /** Second of the last tick that a node's clients got, and when they got it. */
  readonly #last = new Map<string, { second: number; at: number }>();

  constructor(world: World, nodes: readonly Node[]) {
    this.#world = world;
    this.#nodes = nodes;
  }

  /** @param maker node that makes a tick now, which must be the only leader */
  checkLeaders(maker?: Node): void {
    const leaders = this.#nodes.filter((node) => node === maker || (!node.isStill && node.feed?.isLeader));
    if (leaders.length > 1) this.#world.broken(ONE_LEADER, `${leaders.map(({ name }) => name)} are leaders`);
  }

  onPublished(tick: Tick, node: Node): void {
    this.checkLeaders(node);
    if (tick.timestamp <= this.#made)
      this.#world.broken(ONE_PRICE, `${node.name} makes second ${tick.timestamp} after ${this.#made}`);
    this.#made = tick.timestamp;
    this.onDelivered(tick, node.name);
  }

  /** Called with each tick that goes to the clients of a node. */
  onDelivered({ timestamp }: Tick, node: string): void {
    const { now } = this.#world;
    const { second, at } = this.#last.get(node) ?? { second: 0, at: 0 };
    if (timestamp < second && now - at < ORDER_MS)
      this.#world.broken(NOT_BACK, `${node} got second ${timestamp} after ${second}`);
    this.#last.set(node, { second: timestamp, at: now });
  }

  /** Called after the faults. */
  checkRest(nodes: readonly Node[]): void {
    for (const { name } of nodes) {
      const last = this.#last.get(name)?.second ?? 0;
      if (Math.floor(this.#world.now / 1000) - last > 2)
        this.#world.broken(RESUME, `${name} got its last tick at second ${last}`);
    }
  }
}

import type { Tick } from '../../main/ticker/ticker.ts';
import type { World } from './world.ts';

const ONE_LEADER = 'At most one node makes ticks at a time.';
const ONE_PRICE = 'No second has two prices.';
const NOT_BACK = 'A tick never goes back, unless a node had none for 3.5 seconds.';
/** Time without ticks after which a node accepts an earlier one, because its database may have been restored. */
const ORDER_MS = 3500;
const RESUME = 'After the faults, every node gets the ticks of one leader.';

/** Checks the ticks of several nodes. */
export class TickOracle {
  readonly #world: World;
  /** Ticks by their times. */
  readonly #made = new Map<number, { prices: string; node: string }>();
  /** Time of the last tick that a node's clients got, and when they got it. */
  readonly #last = new Map<string, { second: number; at: number }>();

  constructor(world: World) {
    this.#world = world;
  }

  onLeaders(names: readonly string[]): void {
    if (names.length > 1) this.#world.broken(ONE_LEADER, `${names.join(' and ')} are leaders`);
  }

  onPublished({ timestamp, prices }: Tick, node: string, now: number): void {
    const text = prices.join();
    const other = this.#made.get(timestamp);
    if (other !== undefined && other.prices !== text) {
      this.#world.broken(ONE_PRICE, `second ${timestamp} has ${other.prices} of ${other.node} and ${text} of ${node}`);
    }
    this.#made.set(timestamp, { prices: text, node });
    this.onDelivered({ timestamp, prices }, node, now);
  }

  /** Called with each tick that goes to the clients of a node. */
  onDelivered({ timestamp, prices }: Pick<Tick, 'timestamp' | 'prices'>, node: string, now: number): void {
    const { second, at } = this.#last.get(node) ?? { second: 0, at: 0 };
    if (timestamp < second && now - at < ORDER_MS) {
      this.#world.broken(NOT_BACK, `${node} got second ${timestamp} after ${second}`);
    }
    this.#last.set(node, { second: timestamp, at: now });
    const made = this.#made.get(timestamp);
    if (made !== undefined && made.prices !== prices.join()) {
      this.#world.broken(
        ONE_PRICE,
        `${node} got ${prices} for second ${timestamp}, which ${made.node} made ${made.prices}`,
      );
    }
  }

  /** @param lastSeconds times of the last ticks of all nodes */
  onRest(now: number, nodes: readonly string[]): void {
    for (const node of nodes) {
      const last = this.#last.get(node)?.second ?? 0;
      if (Math.floor(now / 1000) - last > 2) this.#world.broken(RESUME, `${node} got its last tick at second ${last}`);
    }
  }
}

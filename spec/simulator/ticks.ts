import type { Tick } from '../../main/ticker/ticker.ts';
import type { Node } from './nodes.ts';
import type { World } from './world.ts';

const ONE_LEADER = 'At most one node makes ticks at a time.';
const ONE_PRICE = 'No second has two prices.';
const NOT_BACK = 'A tick never goes back, unless a node had none for 3.5 seconds.';
const RESUME = 'After the faults, every node gets the ticks of one leader.';

/** Time without ticks after which a node accepts an earlier one, because its database may have been restored. */
const ORDER_MS = 3500;

/** Checks the ticks of several nodes. */
export function tickOracle(world: World, nodes: readonly Node[]) {
  /** Second of the last tick that any node has made. */
  let made = 0;
  /** Second of the last tick that a node's clients got, and when they got it. */
  const last = new Map<string, { second: number; at: number }>();

  /** @param maker node that makes a tick now, which must be the only leader */
  function checkLeaders(maker?: string): void {
    const leaders = nodes.flatMap(({ process: { name, isStill, isDead }, feed }) =>
      name === maker || (!isStill && !isDead && feed?.isLeader) ? name : [],
    );
    if (leaders.length > 1) world.broken(ONE_LEADER, `${leaders} are leaders`);
  }

  /** Called with each tick that goes to the clients of a node. */
  function onDelivered({ timestamp }: Tick, node: string): void {
    const { now } = world;
    const { second, at } = last.get(node) ?? { second: 0, at: 0 };
    if (timestamp < second && now - at < ORDER_MS)
      world.broken(NOT_BACK, `${node} got second ${timestamp} after ${second}`);
    last.set(node, { second: timestamp, at: now });
  }

  function onPublished(tick: Tick, node: string): void {
    checkLeaders(node);
    if (tick.timestamp <= made) world.broken(ONE_PRICE, `${node} makes second ${tick.timestamp} after ${made}`);
    made = tick.timestamp;
    onDelivered(tick, node);
  }

  /** Called after the faults. */
  function checkRest(resting: readonly Node[]): void {
    for (const { process } of resting) {
      const { second = 0 } = last.get(process.name) ?? {};
      if (Math.floor(world.now / 1000) - second > 2)
        world.broken(RESUME, `${process.name} got its last tick at second ${second}`);
    }
  }

  return { checkLeaders, onDelivered, onPublished, checkRest };
}

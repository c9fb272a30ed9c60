import { type PostgresDatabase, reasonOf } from '../../db/postgres/database.ts';
import { beat, deleteNode, lostOwners, type NodeRow } from '../../db/postgres/nodes.ts';
import type { PostgresStore } from '../../db/postgres/store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { Log } from '../log/log.ts';
import type { Bus } from './bus.ts';

export interface HeartbeatOptions {
  /** Its receiving connection is the link over which this node observes the others. Its id is the owner's. */
  bus: Pick<Bus, 'id' | 'receiving' | 'changed'>;
  /** Pool over which this node takes tasks. Its connections may outlive the link. */
  pool: Pick<PostgresDatabase, 'query'>;
  store: Pick<PostgresStore, 'recover'>;
  clock: Clock;
  log: Log;
}

const BEAT_MS = 1000;
/**
 * Number of this node's own beats after which another node whose counter has not changed is gone. Beats instead of
 * time, because this node may itself have stood still.
 */
const LIMIT_BEATS = 10;

/**
 * Tells the other nodes that this one runs, and recovers the messages of nodes that are gone.
 *
 * A node whose link is down beats over its pool, because it takes tasks as long as the pool has a connection.
 *
 * The rule: a running message whose owner has no row in `nodes` has lost its owner. A node is gone if another one has
 * seen its counter unchanged over an unbroken connection. Its row is then deleted, and after that its messages are
 * recovered, by any node and again if that fails. A node that only stood still writes its row again with its next beat.
 * It keeps its owner id: the messages that it took before have other delivery numbers now, so it completes none of
 * them, and the messages that it takes later have an owner with a row.
 */
export class Heartbeat {
  readonly #options: HeartbeatOptions;
  #counter = 0;
  /** Last counter of each other node, and the number of beats for which it has not changed. */
  #seen = new Map<string, NodeRow & { beats: number }>();
  #beatsToRecovery = 0;
  #beating = Promise.resolve();
  readonly #closed = new AbortController();

  constructor(options: HeartbeatOptions) {
    this.#options = options;
    // So that no node counts as gone after an outage of the server.
    options.bus.receiving.on('lost', () => this.#seen.clear());
  }

  /** Writes the first heartbeat. Called before this node takes messages. @throws {Error} if it cannot be written */
  async open(): Promise<void> {
    const { id, receiving: link } = this.#options.bus;
    await beat(link.query, id, this.#counter);
    this.#beating = this.#beatUntilClosed();
  }

  /** Deletes this node's row. Called after the last settlement. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#beating;
    const { id, receiving: link } = this.#options.bus;
    await deleteNode(link.query, { id, counter: this.#counter }).catch(() => {});
  }

  async #beatUntilClosed(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#closed;
    for (;;) {
      await clock.sleep(BEAT_MS, signal);
      if (signal.aborted) return;
      await this.#beat();
    }
  }

  async #beat(): Promise<void> {
    const { bus, pool, log } = this.#options;
    const { id, receiving: link } = bus;
    // Over the pool, this node only tells the others that it still takes tasks, and observes none of them.
    const isObserving = link.isUp;
    let nodes: NodeRow[];
    this.#counter += 1;
    try {
      nodes = await beat(isObserving ? link.query : pool.query, id, this.#counter);
    } catch (error) {
      if (isObserving) link.drop(reasonOf(error));
      else log.debug({ reason: reasonOf(error) }, 'the heartbeat cannot be written');
      return;
    }
    if (!isObserving) return;
    try {
      if (!nodes.some((node) => node.id === id)) {
        log.warn('this node stood still and was taken for dead: what it had in flight runs again');
      }
      await this.#deleteGone(nodes.filter((node) => node.id !== id));
      if (this.#beatsToRecovery-- > 0) return;
      this.#beatsToRecovery = LIMIT_BEATS;
      await this.#recover();
    } catch (error) {
      log.warn({ reason: reasonOf(error) }, 'messages of nodes that are gone could not be recovered: retrying');
      this.#beatsToRecovery = 0;
    }
  }

  async #deleteGone(others: readonly NodeRow[]): Promise<void> {
    const { bus, log } = this.#options;
    const seen = others.map((node) => {
      const last = this.#seen.get(node.id);
      return { ...node, beats: last?.counter === node.counter ? last.beats + 1 : 0 };
    });
    this.#seen = new Map(seen.map((node) => [node.id, node]));
    for (const node of seen) {
      if (node.beats < LIMIT_BEATS || !(await deleteNode(bus.receiving.query, node))) continue;
      log.warn({ node: node.id }, 'a node is gone: its tasks in flight run again');
      this.#beatsToRecovery = 0;
    }
  }

  async #recover(): Promise<void> {
    const { bus, store, log } = this.#options;
    const owners = await lostOwners(bus.receiving.query);
    for (const owner of owners) {
      for (const { id: task, action } of await store.recover(owner))
        log.warn({ task, action, decision: 'discard' }, 'task failed: its processes died');
    }
    if (owners.length > 0) bus.changed();
  }
}

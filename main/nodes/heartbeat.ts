import { type Query, reasonOf } from '../../db/postgres/database.ts';
import { beat, deleteNode, lostOwners, type NodeRow } from '../../db/postgres/nodes.ts';
import type { TaskSubject } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { Log } from '../log/log.ts';

export interface HeartbeatOptions {
  /** Connection over which this node observes the others. */
  link: { readonly isUp: boolean; readonly query: Query; drop(reason: string): void };
  /** Pool over which this node takes tasks. Its connections may outlive the link. */
  pool: { readonly query: Query };
  /** Owner id of this start of the process. */
  id: string;
  /**
   * Makes the running messages of a lost owner available again (db/message-change.ts says how). Returns the new dead
   * letters.
   */
  recover: (owner: string) => Promise<readonly TaskSubject[]>;
  /** Called after messages were recovered. */
  onRecovered: () => void;
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
  }

  /** Writes the first heartbeat. Called before this node takes messages. @throws {Error} if it cannot be written */
  async open(): Promise<void> {
    const { link, id } = this.#options;
    await beat(link.query, id, this.#counter);
    this.#beating = this.#beatUntilClosed();
  }

  /** Forgets the counters seen over a lost connection, so that after an outage of the server no node counts as gone. */
  forget(): void {
    this.#seen.clear();
  }

  /** Deletes this node's row. Called after the last settlement. */
  async close(): Promise<void> {
    this.#closed.abort();
    await this.#beating;
    const { link, id } = this.#options;
    await deleteNode(link.query, { id, counter: this.#counter }).catch(() => {});
  }

  async #beatUntilClosed(): Promise<void> {
    const { link, clock } = this.#options;
    const { signal } = this.#closed;
    for (;;) {
      await clock.sleep(BEAT_MS, signal);
      if (signal.aborted) return;
      await (link.isUp ? this.#beat() : this.#beatOverPool());
    }
  }

  /** Tells the other nodes that this one still takes tasks. Observes none of them, because the link is down. */
  async #beatOverPool(): Promise<void> {
    const { pool, id, log } = this.#options;
    this.#counter += 1;
    try {
      await beat(pool.query, id, this.#counter);
    } catch (error) {
      log.debug({ reason: reasonOf(error) }, 'the heartbeat cannot be written');
    }
  }

  async #beat(): Promise<void> {
    const { link, id, log } = this.#options;
    let nodes: NodeRow[];
    try {
      this.#counter += 1;
      nodes = await beat(link.query, id, this.#counter);
    } catch (error) {
      return link.drop(reasonOf(error));
    }
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
    const { link, log } = this.#options;
    const seen = others.map((node) => {
      const last = this.#seen.get(node.id);
      return { ...node, beats: last?.counter === node.counter ? last.beats + 1 : 0 };
    });
    this.#seen = new Map(seen.map((node) => [node.id, node]));
    for (const node of seen) {
      if (node.beats < LIMIT_BEATS || !(await deleteNode(link.query, node))) continue;
      log.warn({ node: node.id }, 'a node is gone: its tasks in flight run again');
      this.#beatsToRecovery = 0;
    }
  }

  async #recover(): Promise<void> {
    const { link, recover, onRecovered, log } = this.#options;
    const owners = await lostOwners(link.query);
    for (const owner of owners) {
      for (const { id } of await recover(owner))
        log.warn({ task: id, decision: 'discard' }, 'task failed: its processes died');
    }
    if (owners.length > 0) onRecovered();
  }
}

import { EXHAUSTED } from '../../db/message-change.ts';
import type { SqliteStore } from '../../db/sqlite/store.ts';
import {
  type Awaitable,
  type BulkResult,
  type DeadLetterSelection,
  type Delivery,
  type IdempotencyKey,
  type Message,
  type MessageFilter,
  type Published,
  type RetentionLimits,
  type Settled,
  type Settlement,
  type SettleResult,
  SUSPECT_DEATHS,
  SUSPECT_INTERVAL_MS,
  type Submission,
  type Taken,
  type TaskStore,
  type TaskSubject,
} from '../../db/task-store.ts';

interface Taking {
  max: number;
  isIdle: boolean;
  /** Whether a suspect is taken before other messages. */
  isSuspectsTurn: boolean;
}

/** The tables that several nodes share: those of one process, with the owner and the deaths of each message. */
export class SharedTables {
  readonly store: SqliteStore;
  /** Running messages by arrival. */
  readonly #owned = new Map<number, { owner: string; delivery: Delivery }>();
  readonly #deaths = new Map<number, number>();
  /** Number of each message's last delivery. */
  readonly #deliveries = new Map<number, number>();
  /** Number of the delivery that completed or acked each task. */
  readonly #completedBy = new Map<string, number>();
  readonly #ackedBy = new Map<string, number>();

  constructor(store: SqliteStore) {
    this.store = store;
    store.start();
  }

  /** @returns also the number of messages that this owner was running before */
  async take(owner: string, { max, isIdle, isSuspectsTurn }: Taking): Promise<Taken & { owned: number }> {
    const owned = this.#ownedBy(owner).length;
    const { deliveries, nextRunAt } = await this.store.take(max, isIdle);
    const all = deliveries.map((delivery) => {
      this.#deliveries.set(delivery.arrival, delivery.delivery);
      return { ...delivery, isSuspect: (this.#deaths.get(delivery.arrival) ?? 0) >= SUSPECT_DEATHS };
    });
    const suspects = all.filter(({ isSuspect }) => isSuspect);
    const others = all.filter(({ isSuspect }) => !isSuspect);
    const alone = isIdle ? suspects.slice(0, 1) : [];
    const chosen = others.length === 0 || (isSuspectsTurn && suspects.length > 0) ? alone : others;
    for (const delivery of chosen) this.#owned.set(delivery.arrival, { owner, delivery });
    const rest = all.filter((delivery) => !chosen.includes(delivery));
    await this.#settleAll(rest, () => ({ kind: 'release' }));
    return { deliveries: chosen, nextRunAt, owned };
  }

  async settle(settled: readonly Settled[]): Promise<SettleResult> {
    const result = await this.store.settle(settled);
    for (const [index, { delivery, settlement }] of settled.entries()) {
      if (result.effects[index] === 'late') continue;
      this.#owned.delete(delivery.arrival);
      if (settlement.kind === 'complete') this.#completedBy.set(delivery.id, delivery.delivery);
      if (settlement.kind === 'ack') this.#ackedBy.set(delivery.id, delivery.delivery);
      if (settlement.kind === 'retry' || settlement.kind === 'discard') this.#deaths.delete(delivery.arrival);
    }
    return result;
  }

  /** Whether a settlement whose answer was lost counts as applied. A cancellation leaves no trace. */
  hasApplied({ delivery: { id, arrival, delivery, attempt }, settlement }: Settled): boolean {
    const { kind } = settlement;
    if (kind === 'complete') return this.store.rows.find(id) !== undefined && this.#completedBy.get(id) === delivery;
    if (kind === 'ack') return this.#ackedBy.get(id) === delivery;
    const [message] = this.store.read([id], 1);
    if (message === undefined || this.#deliveries.get(arrival) !== delivery) return false;
    const attempts = attempt - Number(kind === 'release');
    const state = kind === 'discard' ? 'failed' : kind === 'cancel' ? undefined : 'waiting';
    return message.state === state && message.attempts === attempts;
  }

  /** Releases the messages that an owner does not have in flight, because the answer to a take was lost. */
  releaseLost(owner: string, held: ReadonlySet<number>): Promise<void> {
    const lost = this.#ownedBy(owner).filter(({ arrival }) => !held.has(arrival));
    return this.#settleAll(lost, () => ({ kind: 'release' }));
  }

  /** Counts the death of an owner. Returns the tasks that were dead-lettered. */
  async recover(owner: string): Promise<TaskSubject[]> {
    const lost = this.#ownedBy(owner);
    const isLast = ({ id, arrival }: Delivery) => {
      return this.#deaths.get(arrival) === SUSPECT_DEATHS && this.store.cancelRequests([id]).length === 0;
    };
    const failed = lost.filter(isLast);
    await this.#settleAll(lost, (delivery) => {
      if (failed.includes(delivery)) return { kind: 'discard', reason: EXHAUSTED, failure: 'crash' };
      this.#deaths.set(delivery.arrival, (this.#deaths.get(delivery.arrival) ?? 0) + 1);
      return { kind: 'release' };
    });
    return failed;
  }

  /** Returns the owners of running messages. */
  owners(): Set<string> {
    return new Set([...this.#owned.values()].map(({ owner }) => owner));
  }

  #ownedBy(owner: string): Delivery[] {
    return [...this.#owned.values()].filter((each) => each.owner === owner).map(({ delivery }) => delivery);
  }

  async #settleAll(deliveries: readonly Delivery[], how: (delivery: Delivery) => Settlement): Promise<void> {
    if (deliveries.length > 0)
      await this.settle(deliveries.map((delivery) => ({ delivery, settlement: how(delivery) })));
  }
}

export interface SharedStoreOptions {
  tables: SharedTables;
  /** Runs a transaction at the server. @throws {DatabaseUnavailable} if no answer arrives */
  ask: <T>(run: () => Awaitable<T>) => Promise<T>;
  owner: string;
  now: () => number;
}

/**
 * Store of one node of several, with the rules of `db/postgres`: a message is settled once, messages that a node owns and
 * does not have in flight are released, and a settlement without an answer is repeated.
 */
export class SharedStore implements TaskStore {
  readonly rows;
  readonly isShared = true;
  readonly isDurable = true;
  readonly #options: SharedStoreOptions;
  /** Deliveries that were taken and are not settled, by arrival. */
  readonly #held = new Map<number, Delivery>();
  /** Settled deliveries without an answer. */
  readonly #unanswered = new Set<Delivery>();
  #mayOwnMore = false;
  #nextSuspectAt: number;
  /** Takes and settlements run one after another. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: SharedStoreOptions) {
    this.#options = options;
    this.rows = options.tables.store.rows;
    this.#nextSuspectAt = options.now() + SUSPECT_INTERVAL_MS;
  }

  start() {
    return [];
  }

  async publish(message: Message, key?: IdempotencyKey, onAccepted = () => {}): Promise<Published> {
    const published = await this.#ask(({ store }) => store.publish(message, key));
    if (published.isNew) onAccepted();
    return published;
  }

  async publishAll(submissions: readonly Submission[], onAccepted = (_: readonly Message[]) => {}) {
    const accepted: Message[] = [];
    const results = await this.#ask(({ store }) => store.publishAll(submissions, (all) => accepted.push(...all)));
    if (accepted.length > 0) onAccepted(accepted);
    return results;
  }

  take(max: number, isIdle: boolean): Promise<Taken> {
    return this.#inTurn(async () => {
      const { owner, now } = this.#options;
      const held = new Set(this.#held.keys());
      if (this.#mayOwnMore) await this.#ask((tables) => tables.releaseLost(owner, held));
      this.#mayOwnMore = false;
      if ([...this.#held.values()].some(({ isSuspect }) => isSuspect)) return { deliveries: [], nextRunAt: undefined };
      // Stays set if no answer arrives.
      this.#mayOwnMore = true;
      const isSuspectsTurn = now() >= this.#nextSuspectAt;
      const taken = await this.#ask((tables) => tables.take(owner, { max, isIdle, isSuspectsTurn }));
      this.#mayOwnMore = taken.owned > this.#held.size;
      for (const delivery of taken.deliveries) {
        this.#held.set(delivery.arrival, delivery);
        if (delivery.isSuspect) this.#nextSuspectAt = now() + SUSPECT_INTERVAL_MS;
      }
      return taken;
    });
  }

  settle(settled: readonly Settled[]): Promise<SettleResult> {
    return this.#inTurn(async () => {
      const repeated = settled.filter(({ delivery }) => this.#unanswered.has(delivery));
      for (const { delivery } of settled) this.#unanswered.add(delivery);
      const { effects, evicted } = await this.#ask(async (tables) => {
        const result = await tables.settle(settled);
        const applied = new Set(repeated.filter((each) => tables.hasApplied(each)));
        const isApplied = (index: number) => applied.has(settled[index] as Settled);
        return {
          effects: result.effects.map((effect, index) => (effect === 'late' && isApplied(index) ? 'applied' : effect)),
          evicted: result.evicted,
        };
      });
      for (const { delivery } of settled) {
        this.#unanswered.delete(delivery);
        if (this.#held.get(delivery.arrival) === delivery) this.#held.delete(delivery.arrival);
      }
      return { effects, evicted };
    });
  }

  recover(owner: string): Promise<TaskSubject[]> {
    return this.#ask((tables) => tables.recover(owner));
  }

  async runNow(id: string, onDue = (_: TaskSubject) => {}) {
    const due: TaskSubject[] = [];
    const outcome = await this.#ask(({ store }) => store.runNow(id, (task) => due.push(task)));
    for (const task of due) onDue(task);
    return outcome;
  }

  cancel(id: string) {
    return this.#ask(({ store }) => store.cancel(id));
  }

  cancelRequests(ids: readonly string[]) {
    return this.#ask(({ store }) => store.cancelRequests(ids));
  }

  isPaused() {
    return this.#ask(({ store }) => store.isPaused());
  }

  setPaused(isPaused: boolean) {
    return this.#ask(({ store }) => store.setPaused(isPaused));
  }

  find(id: string) {
    return this.#ask(({ store }) => store.find(id));
  }

  locate(filter: MessageFilter, limit: number) {
    return this.#ask(({ store }) => store.locate(filter, limit));
  }

  read(ids: readonly string[], bodyLength?: number) {
    return this.#ask(({ store }) => store.read(ids, bodyLength));
  }

  deadLetterReasons() {
    return this.#ask(({ store }) => store.deadLetterReasons());
  }

  async redrive(selection: DeadLetterSelection, onRequeued = (_: readonly TaskSubject[]) => {}): Promise<BulkResult> {
    const result = await this.#ask(({ store }) => store.redrive(selection));
    onRequeued(result.done);
    return result;
  }

  purge(selection: DeadLetterSelection) {
    return this.#ask(({ store }) => store.purge(selection));
  }

  counts() {
    return this.#ask(({ store }) => store.counts());
  }

  deleteOldRows(limits: RetentionLimits) {
    return this.#ask(({ store }) => store.deleteOldRows(limits));
  }

  problem() {
    return undefined;
  }

  async close() {
    return true;
  }

  #ask<T>(run: (tables: SharedTables) => Awaitable<T>): Promise<T> {
    const { ask, tables } = this.#options;
    return ask(() => run(tables));
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#last.then(run);
    this.#last = result.catch(() => {});
    return result;
  }
}

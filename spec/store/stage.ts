import { expect } from 'chai';
import type { SearchFilter } from '../../db/task-rows.ts';
import type * as db from '../../db/task-store.ts';
import { afterTest } from '../support/cleanup.ts';
import { discard } from './settlements.ts';
import { type LetterSelection, purgeIn, redriveIn, searchIn } from './store-calls.ts';

/** Time at which each test begins, in milliseconds since the epoch. */
export const START = 1_800_000_000_000;
export const HOUR = 3_600_000;
export const roomy: db.QueueBounds = { maxLength: 7000, maxBytes: 10_000_000, maxKeys: 100 };

export interface OpenOptions {
  bounds: db.QueueBounds;
  now: () => number;
}

/** Opens stores, and starts them. Several stores can be open over the same tables. */
export interface Driver {
  /** Whether messages survive the death of the process. */
  isDurable: boolean;
  /** Opens a store with tables of its own, which are empty. */
  open(options: OpenOptions): Promise<db.TaskStore>;
  /** Opens another store over the tables of a store that is closed, or whose process is gone. */
  reopen(former: db.TaskStore, options: OpenOptions): Promise<db.TaskStore>;
  /** Writes rows into the tables of a store, as only other programs do. They arrive after all rows but those of tasks. */
  insertRows(store: db.TaskStore, rows: readonly ForeignRow[]): Promise<void>;
  /** Reads the tables of a durable store on another connection. */
  read(store: db.TaskStore, sql: string): Promise<unknown[]>;
}

type Opener = Pick<Driver, 'open' | 'reopen'>;

/** A row that another program writes. Times are Unix seconds. */
export interface ForeignRow {
  id: string;
  createdAt: number;
  processedAt?: number | null;
  status?: string;
  payload?: string;
  result?: string;
}

let arrivals = 0;

export function columnsOf({ id, createdAt, ...row }: ForeignRow) {
  const { payload = '{}', status = 'completed', result = null, processedAt = null } = row;
  arrivals += 1;
  return [arrivals, id, payload, status, result, createdAt, processedAt] as const;
}

/** Returns a driver, and a function that defines tests of the driver. Each test gets a queue with empty tables. */
export function testsOf(driver: Driver) {
  const define = (title: string, test: (queue: TestQueue) => Promise<void>) =>
    it(title, async () => test(await new TestQueue(driver).open()));
  return { it: define, driver };
}

export type QueueTests = ReturnType<typeof testsOf>;

/** Deliveries of which a test names up to six. */
type SixOrMore = [db.Delivery, db.Delivery, db.Delivery, db.Delivery, db.Delivery, db.Delivery, ...db.Delivery[]];
export type AttemptTimes = Pick<db.Settled, 'startedAt' | 'endedAt'>;

/** Consecutive stores over the same tables, whose time only the test changes. All are closed after the test. */
export class TestQueue {
  now = START;
  readonly #driver: Opener;
  #bounds: db.QueueBounds;
  #store: db.TaskStore | undefined;

  constructor(driver: Opener, bounds: db.QueueBounds = roomy) {
    this.#driver = driver;
    this.#bounds = bounds;
  }

  get store(): db.TaskStore {
    if (this.#store === undefined) throw new Error('no store is open');
    return this.#store;
  }

  async open(): Promise<this> {
    await this.#use(this.#driver.open(this.#options));
    return this;
  }

  /** Closes the store and opens the next one, with other bounds if they are given. */
  async restart(bounds: Partial<db.QueueBounds> = {}): Promise<void> {
    this.#bounds = { ...this.#bounds, ...bounds };
    expect(await this.store.close()).to.equal(true);
    await this.die();
  }

  /** Opens the next store, as if the process of this one had been killed. */
  async die(): Promise<void> {
    await this.#use(this.#driver.reopen(this.store, this.#options));
  }

  async publish(ids: Iterable<string>, options: Partial<db.Message> = {}): Promise<void> {
    for (const id of ids) {
      const message = { ...messageOf(id, options.action), ...options };
      expect(await this.store.publish(message)).to.deep.equal({ id, isNew: true });
    }
  }

  async publishTogether(ids: readonly string[], options?: Partial<db.Message>): Promise<void> {
    await Promise.all(ids.map((id) => this.publish([id], options)));
  }

  /** Publishes a message with an idempotency key, if one is given. Returns the id of the accepted task, or the error. */
  async publishKeyed(id: string, key: string | undefined, fingerprint = 'x'): Promise<string | Error> {
    try {
      return (await this.store.publish(messageOf(id), key === undefined ? undefined : { key, fingerprint })).id;
    } catch (error) {
      return error as Error;
    }
  }

  async take(max: number, isIdle = false): Promise<db.Delivery[]> {
    return (await this.store.take(max, isIdle)).deliveries;
  }

  async takeAll(count: number): Promise<SixOrMore> {
    const deliveries = await this.take(count);
    expect(deliveries).to.have.length(count);
    return deliveries as SixOrMore;
  }

  async takeIds(max: number, isIdle = false): Promise<string> {
    return idsOf(await this.take(max, isIdle));
  }

  takenAt(time: number): Promise<string> {
    this.now = time;
    return this.takeIds(9);
  }

  async running(ids: string, options: Partial<db.Message> = {}) {
    await this.publish(ids, options);
    return this.takeAll(ids.length);
  }

  async next(isIdle = false): Promise<db.Delivery> {
    const [delivery] = await this.take(1, isIdle);
    if (delivery === undefined) throw new Error('no message is due');
    return delivery;
  }

  async settle(delivery: db.Delivery, settlement: db.Settlement, times: AttemptTimes = {}) {
    const { effects } = await this.store.settle([{ delivery, settlement, ...times }]);
    expect(effects).to.have.length(1);
    return effects[0];
  }

  /** Settles deliveries alike. Returns the ids of dead letters that were evicted. */
  async settleAll(deliveries: readonly db.Delivery[], settlement: db.Settlement): Promise<string[]> {
    const { effects, evicted } = await this.store.settle(deliveries.map((delivery) => ({ delivery, settlement })));
    expect(effects).to.deep.equal(deliveries.map(() => 'applied'));
    return evicted.map(({ id }) => id);
  }

  /** Publishes messages and discards them in this order, a millisecond apart. Upper case ids fail transiently. */
  async discard(ids: Iterable<string>): Promise<void> {
    for (const id of ids) {
      this.now += 1;
      await this.publish([id]);
      const isUpper = /[A-Z]/.test(id);
      const settlement = discard(isUpper ? 'timeout' : 'bad data', isUpper ? 'transient' : 'permanent');
      expect(await this.settle(await this.next(), settlement)).to.equal('applied');
    }
  }

  async message(id: string): Promise<db.StoredMessage> {
    const found = await this.store.reads.find(id);
    if (found === undefined || !('message' in found)) throw new Error(`no message has the id ${id}`);
    return found.message;
  }

  async stateOf(id: string): Promise<string | undefined> {
    const found = await this.store.reads.find(id);
    return found && ('row' in found ? found.row.status : found.message.state);
  }

  async resultOf(id: string): Promise<string | null | undefined> {
    return (await this.store.reads.rows.find(id))?.result;
  }

  async located(filter: SearchFilter, limit = 100): Promise<string> {
    return idsOf(await searchIn(this.store, filter, limit));
  }

  /** Returns the ids of all dead letters, oldest first. */
  async letterIds(): Promise<string> {
    return idsOf((await searchIn(this.store, { state: 'failed' })).reverse());
  }

  /** Returns the ids of the redriven tasks, and the number of the remaining dead letters. */
  async redrive(selection: LetterSelection, pace?: db.Pace): Promise<[string, number]> {
    const { done, remaining } = await redriveIn(this.store, selection, undefined, pace);
    return [idsOf(done), remaining];
  }

  async purge(selection: LetterSelection): Promise<string> {
    const { done, remaining } = await purgeIn(this.store, selection);
    expect(remaining).to.equal(0);
    return sorted(idsOf(done));
  }

  async cancel(id: string) {
    return (await this.store.cancel(id))?.outcome;
  }

  /** Expects these counts, and that every accepted task is in exactly one of them. */
  async expectCounts(expected: Partial<db.QueueCounts>): Promise<void> {
    const counts = await this.store.counts();
    expect(counts).to.include(expected);
    const { completed, dead, dropped, cancelled, waiting, limited, scheduled, retrying, inFlight } = counts;
    const unfinished = waiting + limited + scheduled + retrying + inFlight;
    expect(counts.accepted).to.equal(completed + dead + dropped + cancelled + unfinished);
  }

  /** Expects that all tasks in the store have ended in this way. */
  async expectEnded(ended: Partial<db.QueueCounts>): Promise<void> {
    const left = { waiting: 0, limited: 0, scheduled: 0, retrying: 0, inFlight: 0, bytes: 0 };
    await this.expectCounts({ completed: 0, dead: 0, dropped: 0, cancelled: 0, ...left, ...ended });
  }

  async unchanged<Value>(change: () => Promise<Value>): Promise<Value> {
    const before = await this.store.counts();
    const value = await change();
    expect(await this.store.counts()).to.deep.equal(before);
    return value;
  }

  get #options(): OpenOptions {
    return { bounds: this.#bounds, now: () => this.now };
  }

  async #use(opening: Promise<db.TaskStore>): Promise<void> {
    const store = await opening;
    this.#store = store;
    afterTest(() => store.close());
  }
}

export function messageOf(id: string, action = 'sum', data: object = {}, createdAt = START / 1000): db.Message {
  return { id, action: action.slice(0, 256), body: JSON.stringify({ id, action, data, created_at: createdAt }) };
}

export const idsOf = (found: readonly { id: string }[]) => found.map(({ id }) => id).join('');
export const sorted = (ids: string) => [...ids].sort().join('');
export const numbers = (count: number, from = 0) => Array.from({ length: count }, (_, index) => `${from + index}`);
export const reasonsOf = ({ history }: Pick<db.StoredMessage, 'history'>) =>
  history.attempts.map(({ reason }) => reason);

/** Returns the error of a call that must fail. */
export async function errorOf(call: () => unknown): Promise<Error> {
  try {
    await call();
  } catch (error) {
    return error as Error;
  }
  throw new Error(`${call} did not fail`);
}

import { expect } from 'chai';
import fc from 'fast-check';
import type { PostgresTasks } from '../../db/postgres/tasks.ts';
import { DatabaseUnavailable } from '../../db/sqlite/database.ts';
import type { OrderedTask, TaskRecord, Tasks } from '../../db/sqlite/tasks.ts';

/** A new store of one test, with direct access to its table. */
export interface FreshTasks {
  tasks: Tasks | PostgresTasks;
  /** Inserts the row of a task that was not processed. */
  insert(id: string, status: string, createdAt: number): Promise<void>;
  dropTable(): Promise<void>;
  /** Closes the store's connection. */
  close(): Promise<void>;
}

export function completed(id: string, created_at: number, more: Partial<OrderedTask> = {}): OrderedTask {
  return { id, payload: '{}', status: 'completed', result: '{"output":0}', created_at, processed_at: 9, ...more };
}

export const ids = (rows: readonly { id: string }[]) => rows.map(({ id }) => id);

/** Defines the conformance specs of a task store. `fresh` opens an empty store for each test. */
export function describeTaskStore(fresh: () => Promise<FreshTasks>): void {
  /** Stores rows as a task thread does. Fails the test if a row is not written. */
  const store = async ({ tasks }: FreshTasks, ...rows: OrderedTask[]) => {
    for (const row of rows) expect(await tasks.storeAll([row])).to.deep.equal([undefined]);
  };

  it('stores a row of which every field comes back', async () => {
    const made = await fresh();
    const task = completed('a', 5, { payload: '{"id":"a" }', result: '{"output":"ü"}', processed_at: 7 });
    await store(made, task);
    const listed = await made.tasks.list();
    expect(listed).to.deep.equal([task]);
    expect(Object.keys(listed[0] ?? {})).to.deep.equal(Object.keys(task));
    expect(await made.tasks.find('a')).to.deep.equal(task);
    expect(await made.tasks.find('b')).to.equal(undefined);
  });

  it('keeps payload and result to the letter, alone and beside others', async () => {
    const { tasks } = await fresh();
    const text = fc.string({
      unit: fc.oneof(fc.string({ unit: 'grapheme', maxLength: 3 }), fc.constantFrom(...UNITS)),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(text, text), { minLength: 1, maxLength: 4 }), async (texts) => {
        const rows = texts.map(([data, output], index) => {
          return completed(`${index}`, 1, { payload: JSON.stringify({ data }), result: JSON.stringify({ output }) });
        });
        expect(await tasks.storeAll(rows)).to.deep.equal(rows.map(() => undefined));
        for (const row of rows) expect(await tasks.find(row.id)).to.deep.equal(row);
      }),
      { numRuns: 50 },
    );
  });

  it('replaces the row that has the id already, whole', async () => {
    const made = await fresh();
    await made.insert('a', 'pending', 1);
    await made.insert('b', 'pending', 2);
    await store(made, completed('a', 3, { payload: 'new' }));
    expect(ids(await made.tasks.list())).to.deep.equal(['a', 'b']);
    expect(await made.tasks.find('a')).to.deep.equal(completed('a', 3, { payload: 'new' }));
  });

  it('lists nothing where nothing is stored', async () => {
    const { tasks } = await fresh();
    for (const status of [undefined, 'completed']) {
      expect(await tasks.list(status)).to.deep.equal([]);
      expect(await tasks.locate(status)).to.deep.equal([]);
    }
    expect(await tasks.storeAll([])).to.deep.equal([]);
  });

  it('lists the newest first, those of one second by arrival with the last first', async () => {
    const made = await fresh();
    const times = [2, 3, 2, 1, 2];
    await store(made, ...times.map((time, index) => completed('abcde'[index] as string, time)));
    for (const status of [undefined, 'completed']) {
      expect(ids(await made.tasks.list(status))).to.deep.equal(['b', 'e', 'c', 'a', 'd']);
      expect(ids(await made.tasks.locate(status))).to.deep.equal(['b', 'e', 'c', 'a', 'd']);
    }
  });

  it('lists rows of the same second by arrival, no matter when they were stored or stored again', async () => {
    const made = await fresh();
    const [a, b, c] = ['a', 'b', 'c'].map((id, index) => completed(id, 1, { arrival: 10 + index }));
    expect(await made.tasks.storeAll([c, a] as OrderedTask[])).to.deep.equal([undefined, undefined]);
    await store(made, b as OrderedTask);
    expect(ids(await made.tasks.list())).to.deep.equal(['c', 'b', 'a']);
    await store(made, a as OrderedTask);
    expect(ids(await made.tasks.list())).to.deep.equal(['c', 'b', 'a']);
  });

  it('accepts a duplicate arrival number, and a missing one as the latest', async () => {
    const { tasks } = await fresh();
    const rows = [completed('a', 1, { arrival: 10 }), completed('b', 1, { arrival: 10 }), completed('c', 1)];
    expect(await tasks.storeAll(rows)).to.deep.equal([undefined, undefined, undefined]);
    expect(ids(await tasks.list())).to.have.members(['a', 'b', 'c']);
    expect(ids(await tasks.list())[0]).to.equal('c');
  });

  it('lists the newest 100 of more, whatever the order they came in', async () => {
    const { tasks } = await fresh();
    const order = Array.from({ length: 130 }, (_, index) => (index * 37) % 130);
    await tasks.storeAll(order.map((time) => completed(`t${time}`, time)));
    const newest = Array.from({ length: 100 }, (_, index) => `t${129 - index}`);
    for (const status of [undefined, 'completed']) {
      expect(ids(await tasks.list(status))).to.deep.equal(newest);
      expect(ids(await tasks.locate(status))).to.deep.equal(newest);
    }
  });

  it('lists 100 of one status although newer ones have another', async () => {
    const { tasks, insert } = await fresh();
    await tasks.storeAll(Array.from({ length: 101 }, (_, time) => completed(`c${time}`, time)));
    for (let time = 101; time < 221; time++) await insert(`p${time}`, 'pending', time);
    expect(ids(await tasks.list('completed'))).to.deep.equal(
      Array.from({ length: 100 }, (_, place) => `c${100 - place}`),
    );
    expect(await tasks.list('pending')).to.have.length(100);
  });

  it('lists only rows whose status is the one asked for, to the letter', async () => {
    const { tasks, insert } = await fresh();
    await tasks.storeAll([completed('a', 1)]);
    await insert('b', 'pending', 2);
    await insert('c', '', 3);
    expect(ids(await tasks.list('completed'))).to.deep.equal(['a']);
    const pending: TaskRecord = { ...completed('b', 2), status: 'pending', result: null, processed_at: null };
    expect(await tasks.list('pending')).to.deep.equal([pending]);
    expect(ids(await tasks.list(''))).to.deep.equal(['c']);
    for (const status of ['Completed', 'complete', '%', '*', "' OR 1=1 --", '\0', 'completed\0', '\ud800']) {
      expect(await tasks.list(status), status).to.deep.equal([]);
      expect(await tasks.locate(status), status).to.deep.equal([]);
      expect(await tasks.find(status), status).to.equal(undefined);
    }
  });

  it('tells how many bytes the texts of a row have', async () => {
    const { tasks, insert } = await fresh();
    await tasks.storeAll([
      completed('a', 2, { payload: 'üü', result: '€' }),
      completed('b', 3, { payload: 'x'.repeat(1e6) }),
    ]);
    await insert('c', 'pending', 1);
    expect(await tasks.locate()).to.deep.equal([
      { id: 'b', bytes: 1_000_012 },
      { id: 'a', bytes: 7 },
      { id: 'c', bytes: 2 },
    ]);
  });

  it('stores the others of a batch when one row is refused, and says which', async () => {
    const { tasks } = await fresh();
    const refused = completed('b', 1, { payload: null as unknown as string });
    const [a, b, c] = await tasks.storeAll([completed('a', 1), refused, completed('c', 1)]);
    expect([a, c]).to.deep.equal([undefined, undefined]);
    expect(b).to.have.property('ofRow', true);
    expect(b?.error)
      .to.be.instanceOf(Error)
      .with.property('message')
      .that.matches(/not.null constraint/i);
    expect(ids(await tasks.list())).to.have.members(['a', 'c']);
    expect(await tasks.storeAll([refused])).to.have.nested.property('[0].ofRow', true);
  });

  it('tells a query that fails from a database that cannot be had', async () => {
    const { tasks, dropTable, close } = await fresh();
    await tasks.list();
    await dropTable();
    const calls = [() => tasks.list(), () => tasks.list('x'), () => tasks.locate(), () => tasks.find('x')];
    const failures = async () => [
      ...(await Promise.all(calls.map((call) => outcome(call)))),
      ...(await tasks.storeAll([completed('a', 1), completed('b', 1)])).map((failure) => {
        expect(failure?.ofRow).to.equal(false);
        return failure?.error;
      }),
    ];
    for (const error of await failures()) {
      expect(error).to.be.instanceOf(Error).and.not.instanceOf(DatabaseUnavailable);
      expect((error as Error).message).to.match(/no such table|relation "tasks" does not exist/);
    }
    await close();
    for (const error of await failures()) expect(error).to.be.instanceOf(DatabaseUnavailable);
  });
}

/** Returns the error of a call, thrown or rejected. */
export async function outcome(call: () => unknown): Promise<unknown> {
  try {
    await call();
    return undefined;
  } catch (error) {
    return error;
  }
}

/**
 * Characters that some databases or encodings reject or escape: NUL, unpaired surrogates, and the quotes of array
 * literals.
 */
const UNITS = [
  '\0',
  '\ud800',
  '\udc00',
  '\ud83d\ude00',
  '"',
  '\\',
  '{',
  '}',
  ',',
  'NULL',
  '\n',
  "'",
  '$1',
  '\u{10ffff}',
];

import { expect } from 'chai';
import fc from 'fast-check';
import type { PostgresTasks } from '../../db/postgres/tasks.ts';
import { DatabaseUnavailable } from '../../db/sqlite/database.ts';
import type { OrderedTask, TaskRecord, Tasks } from '../../db/sqlite/tasks.ts';
import { MAX_ACTION_LENGTH } from '../../db/task-filter.ts';

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
      expect(await tasks.list({ status })).to.deep.equal([]);
      expect(await tasks.locate({ status })).to.deep.equal([]);
    }
    expect(await tasks.storeAll([])).to.deep.equal([]);
  });

  it('lists the newest first, those of one second by arrival with the last first', async () => {
    const made = await fresh();
    const times = [2, 3, 2, 1, 2];
    await store(made, ...times.map((time, index) => completed('abcde'[index] as string, time)));
    for (const status of [undefined, 'completed']) {
      expect(ids(await made.tasks.list({ status }))).to.deep.equal(['b', 'e', 'c', 'a', 'd']);
      expect(ids(await made.tasks.locate({ status }))).to.deep.equal(['b', 'e', 'c', 'a', 'd']);
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
      expect(ids(await tasks.list({ status }))).to.deep.equal(newest);
      expect(ids(await tasks.locate({ status }))).to.deep.equal(newest);
    }
  });

  it('lists 100 of one status although newer ones have another', async () => {
    const { tasks, insert } = await fresh();
    await tasks.storeAll(Array.from({ length: 101 }, (_, time) => completed(`c${time}`, time)));
    for (let time = 101; time < 221; time++) await insert(`p${time}`, 'pending', time);
    expect(ids(await tasks.list({ status: 'completed' }))).to.deep.equal(
      Array.from({ length: 100 }, (_, place) => `c${100 - place}`),
    );
    expect(await tasks.list({ status: 'pending' })).to.have.length(100);
  });

  it('lists only rows whose status is the one asked for, to the letter', async () => {
    const { tasks, insert } = await fresh();
    await tasks.storeAll([completed('a', 1)]);
    await insert('b', 'pending', 2);
    await insert('c', '', 3);
    expect(ids(await tasks.list({ status: 'completed' }))).to.deep.equal(['a']);
    const pending: TaskRecord = { ...completed('b', 2), status: 'pending', result: null, processed_at: null };
    expect(await tasks.list({ status: 'pending' })).to.deep.equal([pending]);
    expect(ids(await tasks.list({ status: '' }))).to.deep.equal(['c']);
    for (const status of ['Completed', 'complete', '%', '*', "' OR 1=1 --", '\0', 'completed\0', '\ud800']) {
      expect(await tasks.list({ status }), status).to.deep.equal([]);
      expect(await tasks.locate({ status }), status).to.deep.equal([]);
      expect(await tasks.find(status), status).to.equal(undefined);
    }
  });

  /** Returns a completed task with an action, in the form that a worker stores. */
  const acted = (number: number, action: string, created_at: number, more: Partial<OrderedTask> = {}) => {
    const id = `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
    const payload = JSON.stringify({ id, action, data: { text: '","data":' }, created_at });
    return completed(id, created_at, { payload, ...more });
  };

  it('lists only rows whose action is the one asked for, to the letter', async () => {
    const { tasks } = await fresh();
    const long = 'a'.repeat(MAX_ACTION_LENGTH);
    const actions = [
      'sum',
      'Sum',
      'su',
      '',
      '"',
      '\\',
      '\\"',
      '","data":',
      '","data":{}',
      '\0',
      '\ud800',
      'ü',
      '\u{1f600}'.repeat(MAX_ACTION_LENGTH),
      long,
    ];
    const longer = [`${long}b`, `${long}","data":`, '\u{1f600}'.repeat(300), 'x'.repeat(5000)];
    const all = [...actions, ...longer];
    await tasks.storeAll(all.map((action, index) => acted(index, action, index)));
    for (const [index, action] of actions.entries()) {
      for (const status of [undefined, 'completed'])
        expect(await tasks.list({ action, status }), action).to.deep.equal([acted(index, action, index)]);
      expect(await tasks.list({ action, status: 'pending' })).to.deep.equal([]);
    }
    for (const action of ['summ', '%', "' OR 1=1 --", 'x'.repeat(MAX_ACTION_LENGTH)])
      expect(await tasks.list({ action }), action).to.deep.equal([]);
  });

  it('finds no action in a payload of another form, and stores and lists its row', async () => {
    const { tasks } = await fresh();
    const payloads = ['', '{}', 'x'.repeat(1000), '[1]', `{"action":"sum","id":"${'x'.repeat(36)}"}`];
    const rows = payloads.map((payload, index) => completed(`${index}`, 9 - index, { payload }));
    expect(await tasks.storeAll(rows)).to.deep.equal(rows.map(() => undefined));
    expect(await tasks.list({ action: 'sum' })).to.deep.equal([]);
    expect(await tasks.list()).to.deep.equal(rows);
  });

  it('continues a listing before any of its rows, with rows of the same second, without gap or repetition', async () => {
    const { tasks } = await fresh();
    const rows = Array.from({ length: 260 }, (_, number) => {
      const more = { arrival: 1000 + number };
      return acted(number, number % 2 === 0 ? 'sum' : 'uppercase', Math.floor(number / 120), more);
    });
    await tasks.storeAll(rows);
    const newest = ids(rows).reverse();
    for (const filter of [{}, { status: 'completed' }, { action: 'sum' }, { action: 'sum', status: 'completed' }]) {
      const expected = 'action' in filter ? newest.filter((_, index) => index % 2 === 1) : newest;
      const pages: string[] = [];
      for (;;) {
        const last = pages.at(-1);
        const before = last === undefined ? undefined : await tasks.position(last);
        const page = ids(await tasks.list({ ...filter, before }));
        expect(ids(await tasks.locate({ ...filter, before }))).to.deep.equal(page);
        expect(ids(await tasks.summarize({ ...filter, before }))).to.deep.equal(page);
        if (page.length === 0) break;
        pages.push(...page);
      }
      expect(pages).to.deep.equal(expected);
    }
    expect(await tasks.position('none')).to.equal(undefined);
    expect(await tasks.position('\0')).to.equal(undefined);
  });

  it('cuts payload and result of a summary, and tells their sizes in bytes', async () => {
    const made = await fresh();
    const payload = 'ü'.repeat(3000);
    await store(made, completed('a', 1, { payload, result: `"${'€'.repeat(300)}"` }), completed('b', 2));
    await made.insert('c', 'pending', 0);
    const a = {
      ...completed('a', 1, { payload: 'ü'.repeat(256), result: `"${'€'.repeat(255)}` }),
      payload_bytes: 6000,
      result_bytes: 902,
      head: 'ü'.repeat(2048),
    };
    const b = { ...completed('b', 2), payload_bytes: 2, result_bytes: 12, head: '{}' };
    const c = { id: 'c', payload: '{}', status: 'pending', result: null, created_at: 0, processed_at: null };
    expect(await made.tasks.summarize()).to.deep.equal([
      b,
      a,
      { ...c, payload_bytes: 2, result_bytes: null, head: '{}' },
    ]);
    expect(await made.tasks.findSummary('a')).to.deep.equal(a);
    expect(await made.tasks.findSummary('d')).to.equal(undefined);
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
    const calls = [() => tasks.list(), () => tasks.list({ status: 'x' }), () => tasks.locate(), () => tasks.find('x')];
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

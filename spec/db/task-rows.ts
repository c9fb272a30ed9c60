import { expect } from 'chai';
import fc from 'fast-check';
import { DatabaseUnavailable } from '../../db/database-unavailable.ts';
import {
  type Awaitable,
  LISTING_SIZE,
  MAX_ACTION_LENGTH,
  type Position,
  type RowParts,
  type SearchFilter,
  type TaskRow,
  type TaskRows,
} from '../../db/task-rows.ts';
import { select } from '../../main/tasks/search.ts';

/** An empty table of one test. */
export interface FreshRows {
  rows: TaskRows;
  /** Writes the row of a completed task. `arrival` is its position in the order of acceptance. */
  store(row: TaskRow, arrival: number): Awaitable<void>;
  /** Inserts a row with another status, as only other programs do. */
  insert(id: string, status: string, createdAt: number): Awaitable<void>;
  dropTable(): Awaitable<void>;
  /** Closes the connection. */
  close(): Awaitable<void>;
}

export function completed(id: string, created_at: number, more: Partial<TaskRow> = {}): TaskRow {
  return { id, payload: '{}', status: 'completed', result: '{"output":0}', created_at, processed_at: 9, ...more };
}

/** Returns the newest matching rows. */
export async function listIn<Part extends keyof RowParts = 'whole'>(
  rows: TaskRows,
  { before, ...filter }: SearchFilter & { before?: Position | undefined } = {},
  part = 'whole' as Part,
): Promise<RowParts[Part][]> {
  const found = await select(rows, filter, async () => {}, { limit: LISTING_SIZE, after: before });
  return rows.read(ids(found), part);
}

export const ids = (rows: readonly { id: string }[]) => rows.map(({ id }) => id);

/** Defines the conformance specs of the result rows. `fresh` opens an empty table for each test. */
export function describeTaskRows(fresh: () => Promise<FreshRows>): void {
  /** Opens a table with these rows, the last one accepted last. */
  const withRows = async (...stored: TaskRow[]) => {
    const made = await fresh();
    for (const [arrival, row] of stored.entries()) await made.store(row, arrival + 1);
    return made;
  };

  it('returns every field of a row as it was written', async () => {
    const row = completed('a', 5, { payload: '{"id":"a" }', result: '{"output":"ü"}', processed_at: 7 });
    const { rows } = await withRows(row);
    const listed = await listIn(rows);
    expect(listed).to.deep.equal([row]);
    expect(Object.keys(listed[0] ?? {})).to.deep.equal(Object.keys(row));
    expect(await rows.find('a')).to.deep.equal(row);
    expect(await rows.find('b')).to.equal(undefined);
  });

  it('keeps payload and result to the letter', async () => {
    const { rows, store } = await fresh();
    const unit = fc.oneof(fc.string({ unit: 'grapheme', maxLength: 3 }), fc.constantFrom(...UNITS));
    const text = fc.string({ unit });
    await fc.assert(
      fc.asyncProperty(text, text, async (data, output) => {
        const row = completed('a', 1, { payload: JSON.stringify({ data }), result: JSON.stringify({ output }) });
        await store(row, 1);
        expect(await rows.find('a')).to.deep.equal(row);
      }),
      { numRuns: 150 },
    );
  });

  it('replaces the row that has the id already, whole', async () => {
    const { rows, store, insert } = await fresh();
    await insert('a', 'pending', 1);
    await insert('b', 'pending', 2);
    await store(completed('a', 3, { payload: 'new' }), 3);
    expect(ids(await listIn(rows))).to.deep.equal(['a', 'b']);
    expect(await rows.find('a')).to.deep.equal(completed('a', 3, { payload: 'new' }));
  });

  it('keeps both rows if two tasks have the same arrival number', async () => {
    const { rows, store } = await fresh();
    await store(completed('a', 1), 10);
    await store(completed('b', 1), 10);
    expect(ids(await listIn(rows))).to.have.members(['a', 'b']);
  });

  it('lists the newest first, those of one second by arrival, no matter when they were stored or stored again', async () => {
    const { rows, store } = await fresh();
    const tasks = [2, 3, 2, 1, 2].map(
      (time, index) => [completed('abcde'[index] as string, time), 10 + index] as const,
    );
    for (const index of [2, 0, 3, 4, 1, 0]) await store(...(tasks[index] as (typeof tasks)[0]));
    for (const status of [undefined, 'completed']) {
      expect(ids(await listIn(rows, { status }))).to.deep.equal(['b', 'e', 'c', 'a', 'd']);
    }
  });

  it('lists only rows whose status is the one asked for, to the letter', async () => {
    const { rows, insert } = await withRows(completed('a', 1));
    await insert('b', 'pending', 2);
    await insert('c', '', 3);
    expect(ids(await listIn(rows, { status: 'completed' }))).to.deep.equal(['a']);
    const pending: TaskRow = { ...completed('b', 2), status: 'pending', result: null, processed_at: null };
    expect(await listIn(rows, { status: 'pending' })).to.deep.equal([pending]);
    expect(ids(await listIn(rows, { status: '' }))).to.deep.equal(['c']);
    for (const status of ['Completed', 'complete', '%', '*', "' OR 1=1 --", '\0', 'completed\0', '\ud800']) {
      expect(await listIn(rows, { status }), status).to.deep.equal([]);
      expect(await rows.find(status), status).to.equal(undefined);
    }
  });

  /** Returns a completed task with an action, in the form that a worker stores. */
  const acted = (number: number, action: string, created_at: number, more: Partial<TaskRow> = {}) => {
    const id = `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;
    const payload = JSON.stringify({ id, action, data: { text: '","data":' }, created_at });
    return completed(id, created_at, { payload, ...more });
  };

  it('lists only rows whose action is the one asked for, to the letter', async () => {
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
    const { rows } = await withRows(...all.map((action, index) => acted(index, action, index)));
    for (const [index, action] of actions.entries()) {
      for (const status of [undefined, 'completed'])
        expect(await listIn(rows, { action, status }), action).to.deep.equal([acted(index, action, index)]);
      expect(await listIn(rows, { action, status: 'pending' })).to.deep.equal([]);
    }
    for (const action of ['summ', '%', "' OR 1=1 --", 'x'.repeat(MAX_ACTION_LENGTH)])
      expect(await listIn(rows, { action }), action).to.deep.equal([]);
  });

  it('finds no action in a payload of another form, and stores and lists its row', async () => {
    const payloads = ['', '{}', 'x'.repeat(1000), '[1]', `{"action":"sum","id":"${'x'.repeat(36)}"}`];
    const stored = payloads.map((payload, index) => completed(`${index}`, 9 - index, { payload }));
    const { rows } = await withRows(...stored);
    expect(await listIn(rows, { action: 'sum' })).to.deep.equal([]);
    expect(await listIn(rows)).to.deep.equal(stored);
  });

  it('continues a listing before any of its rows, with rows of the same second, without gap or repetition', async () => {
    const stored = Array.from({ length: 260 }, (_, number) =>
      acted(number, number % 2 === 0 ? 'sum' : 'uppercase', Math.floor(number / 120)),
    );
    const { rows } = await withRows(...stored);
    const newest = ids(stored).reverse();
    for (const filter of [{}, { status: 'completed' }, { action: 'sum' }, { action: 'sum', status: 'completed' }]) {
      const expected = 'action' in filter ? newest.filter((_, index) => index % 2 === 1) : newest;
      const pages: string[] = [];
      for (;;) {
        const last = pages.at(-1);
        const before = last === undefined ? undefined : await rows.position(last);
        const page = ids(await listIn(rows, { ...filter, before }));
        expect(ids(await listIn(rows, { ...filter, before }, 'summary'))).to.deep.equal(page);
        if (page.length === 0) break;
        pages.push(...page);
      }
      expect(pages).to.deep.equal(expected);
    }
    expect(await rows.position('none')).to.equal(undefined);
    expect(await rows.position('\0')).to.equal(undefined);
  });

  it('cuts payload and result of a summary, and tells their sizes in bytes', async () => {
    const long = { payload: 'ü'.repeat(3000), result: `"${'€'.repeat(300)}"` };
    const { rows, insert } = await withRows(completed('a', 1, long), completed('b', 2));
    await insert('c', 'pending', 0);
    const a = {
      ...completed('a', 1, { payload: 'ü'.repeat(256), result: `"${'€'.repeat(255)}` }),
      payload_bytes: 6000,
      result_bytes: 902,
      head: 'ü'.repeat(2048),
    };
    const b = { ...completed('b', 2), payload_bytes: 2, result_bytes: 12, head: '{}' };
    const c = { id: 'c', payload: '{}', status: 'pending', result: null, created_at: 0, processed_at: null };
    expect(await listIn(rows, {}, 'summary')).to.deep.equal([
      b,
      a,
      { ...c, payload_bytes: 2, result_bytes: null, head: '{}' },
    ]);
    expect(await rows.find('a', 'summary')).to.deep.equal(a);
    expect(await rows.find('d', 'summary')).to.equal(undefined);
  });

  it('tells how many bytes the texts of a row have', async () => {
    const { rows, insert } = await withRows(
      completed('a', 2, { payload: 'üü', result: '€' }),
      completed('b', 3, { payload: 'x'.repeat(1e6) }),
    );
    await insert('c', 'pending', 1);
    const { found } = await rows.search({}, undefined, 9);
    expect(found.map(({ id, bytes }) => ({ id, bytes }))).to.deep.equal([
      { id: 'b', bytes: 1_000_012 },
      { id: 'a', bytes: 7 },
      { id: 'c', bytes: 2 },
    ]);
  });

  it('tells a query that fails from a database that cannot be had', async () => {
    const { rows, dropTable, close } = await fresh();
    await listIn(rows);
    await dropTable();
    const calls = [() => listIn(rows), () => listIn(rows, { status: 'x' }), () => rows.find('x')];
    for (const call of calls) {
      const error = await outcome(call);
      expect(error).to.be.instanceOf(Error).and.not.instanceOf(DatabaseUnavailable);
      expect((error as Error).message).to.match(/no such table|relation "tasks" does not exist/);
    }
    await close();
    for (const call of calls) expect(await outcome(call)).to.be.instanceOf(DatabaseUnavailable);
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

import { expect } from 'chai';
import fc from 'fast-check';
import { UnknownPosition } from '../../db/search.ts';
import { MAX_ACTION_LENGTH, type Position, type SearchFilter } from '../../db/task-rows.ts';
import { ack, complete, discard, release, retry, row } from './settlements.ts';
import { errorOf, idsOf, messageOf, numbers, type QueueTests, START, type TestQueue } from './stage.ts';
import { listIn, purgeIn, redriveIn, searchIn } from './store-calls.ts';

/** Returns a UUID, because rows are found by the place of the action behind it. */
const idOf = (number: number | string) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Publishes tasks with these actions, and completes the last one first. */
async function completeAll(queue: TestQueue, actions: readonly string[], secondOf = (number: number) => number) {
  const messages = actions.map((action, number) => messageOf(idOf(number), action, {}, secondOf(number)));
  await queue.store.publishAll(messages.map((message) => ({ message, key: undefined })));
  await queue.settleAll((await queue.takeAll(actions.length)).toReversed(), complete());
}

/** Characters that some databases or encodings refuse or escape, such as NUL and unpaired surrogates. */
const UNITS = ['\0', '\ud800', '\udc00', '\u{1f600}', '"', '\\', '{', '}', ',', 'NULL', '\n', "'", '$1', '\u{10ffff}'];

const ID = '0123abcd-0000-4000-8000-00000000000';

export function describeReading({ it, driver }: QueueTests): void {
  it('rows keep payload and result to the letter', async (queue) => {
    const text = fc.string({
      unit: fc.oneof(fc.string({ unit: 'grapheme', maxLength: 3 }), fc.constantFrom(...UNITS)),
    });
    let count = 0;
    await fc.assert(
      fc.asyncProperty(text, text, async (data, output) => {
        const id = `${count++}`;
        const { body: payload } = messageOf(id, 'sum', { data });
        await queue.publish([id], { body: payload });
        await queue.settle(await queue.next(), complete(output));
        expect(await queue.store.reads.rows.find(id)).to.include({ payload, result: JSON.stringify({ output }) });
      }),
      { numRuns: 60 },
    );
  });

  it('rows replace those of other programs with the same id, whole', async (queue) => {
    const rows = [...'ab'].map((id) => ({ id, status: 'pending', createdAt: 1 }));
    await driver.insertRows(queue.store, rows);
    await queue.settleAll(await queue.running('a'), complete(2));
    expect(idsOf(await listIn(queue.store.reads.rows))).to.equal('ab');
    expect(await queue.store.reads.rows.find('a')).to.deep.include({ status: 'completed', result: '{"output":2}' });
  });

  it('rows are found by their status and action, to the letter', async (queue) => {
    const { rows } = queue.store.reads;
    const long = 'a'.repeat(MAX_ACTION_LENGTH);
    const found = ['sum', 'Sum', '', '"', '\\"', '","data":', '\0', '\ud800', 'ü', '\u{1f600}'.repeat(256), long];
    await completeAll(queue, [...found, `${long}b`, '\u{1f600}'.repeat(300)]);
    for (const [index, action] of found.entries())
      for (const status of [undefined, 'completed'])
        expect(idsOf(await listIn(rows, { action, status })), action).to.equal(idOf(index));
    for (const action of ['su', 'summ', '%', "' OR 1=1 --", '{}'])
      expect(await listIn(rows, { action }), action).to.deep.equal([]);
    const foreign = ['pending', ''].map((status) => ({ id: `x${status}`, status, createdAt: 1 }));
    await driver.insertRows(queue.store, foreign);
    const nothing = { result: null, processed_at: null };
    const pending = { id: 'xpending', payload: '{}', status: 'pending', created_at: 1, ...nothing };
    expect(await listIn(rows, { status: 'pending' })).to.deep.equal([pending]);
    expect(idsOf(await listIn(rows, { status: '' }))).to.equal('x');
    for (const status of ['Completed', '%', "' OR 1=1 --", '\0', 'completed\0', '\ud800'])
      expect([await listIn(rows, { status }), await rows.find(status)], status).to.deep.equal([[], undefined]);
  });

  it('rows are listed page by page, by the time of submission and by arrival, whenever they were completed', async (queue) => {
    const { rows } = queue.store.reads;
    const actions = numbers(260).map((number) => (Number(number) % 2 === 0 ? 'sum' : 'uppercase'));
    await completeAll(queue, actions, (number) => number % 3);
    const byArrival = numbers(260).reverse();
    const newest = [2, 1, 0].flatMap((second) => byArrival.filter((number) => Number(number) % 3 === second));
    for (const [filter, step] of [
      [{}, 1],
      [{ status: 'completed' }, 1],
      [{ action: 'sum' }, 2],
    ] as const) {
      const pages: string[] = [];
      for (let isOver = false; !isOver; ) {
        const before = await rows.position(pages.at(-1) ?? 'none');
        const page = (await listIn(rows, { ...filter, before })).map(({ id }) => id);
        expect((await listIn(rows, { ...filter, before }, 'summary')).map(({ id }) => id)).to.deep.equal(page);
        isOver = page.length === 0;
        pages.push(...page);
      }
      expect(pages).to.deep.equal(newest.filter((number) => Number(number) % step === 0).map(idOf));
    }
    for (const none of ['none', '\0']) expect(await rows.position(none)).to.equal(undefined);
  });

  it('rows have summaries, which cut payload and result, and tell their sizes', async (queue) => {
    const { rows } = queue.store.reads;
    const { body } = messageOf('a', 'sum', { text: 'ü'.repeat(3000) });
    const bytes = Buffer.byteLength(body);
    await queue.settleAll(await queue.running('a', { body }), { kind: 'complete', result: `"${'€'.repeat(300)}"` });
    await driver.insertRows(queue.store, [{ id: 'c', status: 'pending', createdAt: 0 }]);
    const cut = { payload: body.slice(0, 256), result: `"${'€'.repeat(255)}`, head: body.slice(0, 2048) };
    expect(await rows.find('a', 'summary')).to.deep.include({ ...cut, payload_bytes: bytes, result_bytes: 902 });
    const pending = { payload: '{}', status: 'pending', result: null, payload_bytes: 2, result_bytes: null };
    expect(await rows.find('c', 'summary')).to.deep.include({ ...pending, ran_ms: null, head: '{}' });
    expect((await rows.search({}, undefined, 9)).found.map(({ id, bytes }) => [id, bytes])).to.have.deep.members([
      ['a', bytes + 902],
      ['c', 2],
    ]);
  });

  it('listing locates the messages of each state in order', async (queue) => {
    await queue.discard('x');
    await queue.publish('abcdefg');
    const [a, b, c] = await queue.takeAll(5);
    await queue.settle(b, retry(queue.now + 50));
    await queue.settle(a, retry(queue.now + 60));
    await queue.settle(c, complete());
    expect(await queue.located({ state: 'waiting' })).to.equal('fg');
    expect(await queue.located({ state: 'retrying' })).to.equal('ba');
    expect([...(await queue.located({ state: 'running' }))]).to.have.members(['d', 'e']);
    expect(await queue.located({ state: 'failed' })).to.equal('x');
    await queue.publish('h', { priority: 1 });
    await queue.publish('i', { runAt: queue.now + 70 });
    await queue.publish('j', { runAt: queue.now + 60 });
    expect(await queue.located({ state: 'scheduled' })).to.equal('ji');
    expect(await queue.located({ state: 'waiting' })).to.equal('hfg');
    queue.now += 50;
    expect(idsOf(await queue.takeAll(1))).to.equal('h');
    expect(await queue.located({ state: 'retrying' })).to.equal('a');
    expect(await queue.located({ state: 'waiting' })).to.equal('fgb');
    expect(await queue.located({ state: 'waiting' }, 1)).to.equal('f');
  });

  it('listing reads messages in the order asked for, without those that are gone, and cuts long bodies on request', async (queue) => {
    await queue.discard('d');
    await queue.publish('ab');
    const { body, action } = messageOf('c', 'ü'.repeat(300), { text: '€'.repeat(3000) });
    await queue.publish('c', { body, action });
    expect(idsOf(await queue.store.reads.read(['b', 'a']))).to.equal('ba');
    await queue.settle(await queue.next(), complete());
    const [c, ...others] = await queue.store.reads.read(['c', 'x', 'a', 'd', 'b', '__proto__']);
    expect(others.map(({ id, state }) => `${id} ${state}`)).to.deep.equal(['d failed', 'b waiting']);
    expect(c).to.deep.equal(await queue.message('c'));
    expect(c).to.include({ body });
    const bodyBytes = Buffer.byteLength(body);
    const [{ bytes } = { bytes: 0 }] = await searchIn(queue.store, { ids: ['c'] });
    expect(bytes).to.equal(bodyBytes);
    const [cut] = await queue.store.reads.read(['c'], 256);
    expect(cut).to.deep.include({ body: body.slice(0, 256), bodyBytes, action });
    expect(await queue.store.reads.read([])).to.deep.equal([]);
    for (const unknown of ['x', '', '__proto__', "'", '%'])
      expect(await queue.store.reads.find(unknown)).to.equal(undefined);
  });

  it('the history is what was saved last, also for the next process', async (queue) => {
    expect(await queue.store.reads.readHistory(1)).to.equal(undefined);
    for (const text of ['{"a":1}', '{"ü":2}']) await queue.store.saveHistory(1, text);
    await queue.store.saveHistory(2, '{}');
    await queue.restart();
    expect(await queue.store.reads.readHistory(1)).to.equal('{"ü":2}');
    expect(await queue.store.reads.readHistory(2)).to.equal('{}');
  });

  it('counting knows when the longest waiting message became due', async (queue) => {
    const oldest = async () => (await queue.store.counts()).oldest;
    await queue.discard('x');
    await queue.publish('s', { runAt: queue.now + 60_000 });
    expect(await oldest()).to.equal(undefined);
    await queue.publish('a');
    queue.now += 10;
    await queue.publish('b', { priority: 1 });
    expect(await oldest()).to.equal(queue.now - 10);
    const [b, a] = await queue.takeAll(2);
    expect(await oldest()).to.equal(undefined);
    await queue.settle(b, retry(queue.now + 60_000));
    await queue.settle(a, release);
    expect(await oldest()).to.equal(queue.now - 10);
    await queue.cancel('a');
    await queue.redrive({ all: true });
    expect(await oldest()).to.equal(queue.now);
  });

  it('searching finds tasks that match all fields, in a view or not, the last accepted first', async (queue) => {
    const { store } = queue;
    const expectFound = async (cases: Record<string, SearchFilter[]>) => {
      for (const [ids, filters] of Object.entries(cases))
        for (const filter of filters) {
          const found = await searchIn(store, { until: queue.now, ...filter });
          expect(found.map(({ id }) => id.slice(-1)).join(''), JSON.stringify(filter)).to.equal(ids);
        }
    };
    const limitKey = 'ü\0';
    await queue.discard('x');
    await queue.publish('a', { action: 'resize', priority: 5, submitter: 'al' });
    await queue.publish('b', { action: 'resize', limitKey });
    await queue.publish('c', { action: 'callback', limitKey });
    await queue.publish('d', { action: 'mail', runAt: queue.now + 50 });
    await queue.publish([`${ID}e`], { schedule: 'nightly' });
    await expectFound({
      edcbax: [{}],
      edcba: [{ state: 'unfinished' }],
      ba: [{ action: 'resize' }],
      c: [
        { action: 'callback', state: 'waiting' },
        { action: 'callback', limitKey },
      ],
      cb: [{ limitKey }],
      d: [{ state: 'scheduled' }],
      e: [{ schedule: 'nightly' }, { idPrefix: '0123abcd-0' }],
      ca: [{ ids: ['c', 'a', 'y', '\0'] }],
      a: [{ view: { submitter: 'al' } }],
      b: [{ view: { limit_key: limitKey } }, { view: { id: 'b' } }],
      '': [{ schedule: '\0' }, { action: 'none' }, { view: { id: 'b' }, idPrefix: '0' }],
    });
    const [b, e] = await queue.takeAll(2);
    await expectFound({ be: [{ state: 'running' }] });
    await queue.settle(b, retry(queue.now + 50));
    await queue.settle(e, discard());
    await expectFound({ b: [{ state: 'retrying' }], ex: [{ state: 'failed' }] });
    queue.now += 1;
    await queue.publish('f');
    await expectFound({ ex: [{ until: queue.now - 1, action: 'sum' }], f: [{ since: queue.now, until: undefined }] });
  });

  it('searching finds a text in the action, the data, the output and the reason, and nowhere else', async (queue) => {
    const data = { order: 'SKU-20468', note: '100 % "sure" \\ ünï_x' };
    await queue.store.publish(messageOf('a', 'order "x"', data));
    await queue.store.publish(messageOf('b', 'SKU', { note: 'uni-x' }));
    await queue.settleAll(await queue.takeAll(2), discard('Card "4711" 50 % declined'));
    await queue.store.publish(messageOf(`${ID}c`, 'order "x"', data));
    await queue.settle(await queue.next(), complete('DONE € "at" last'));
    const { store } = queue;
    const located = async (text: string) => {
      const rows = await store.reads.rows.search({ text }, undefined, 9);
      return (await queue.located({ text })) + rows.found.map(({ id }) => id.slice(-1)).join('');
    };
    for (const text of ['SKU-20468', 'sku-2', '"sure"', '100 %', '\\ ü', 'order', 'order "x', 'ünï_x"}'])
      expect(await located(text), text).to.equal('ac');
    for (const text of ['done €', 'done € "at"']) expect(await located(text)).to.equal('c');
    for (const text of ['"4711"', 'card', '50 % d']) expect(await located(text), text).to.equal('ba');
    for (const text of ['created_at', `${START / 1000}`, '"action', ':{', '},', 'output', 'SKU_2', '1%0', '\0'])
      expect(await located(text), text).to.equal('');
  });

  it('searching finds rows that match all fields, the last accepted first', async (queue) => {
    const { store } = queue;
    for (const [index, action] of ['a', 'a', 'ü"', 'a'].entries()) {
      const message = messageOf(`${ID}${index}`, action, {}, START / 1000 + index);
      await store.publish({ ...message, limitKey: index > 1 ? 'acme' : undefined, submitter: 'al' });
      await queue.settle(await queue.next(), complete());
    }
    const located = async (filter: SearchFilter, after?: Position) => {
      return (await store.reads.rows.search(filter, after, 9)).found.map(({ id }) => id.slice(-1)).join('');
    };
    for (const [filter, ids] of [
      [{}, '3210'],
      [{ action: 'a' }, '310'],
      [{ action: 'ü"' }, '2'],
      [{ limitKey: 'acme', action: 'a' }, '3'],
      [{ view: { limit_key: 'acme' } }, '32'],
      [{ view: { submitter: 'al' }, action: 'a' }, '310'],
      [{ view: { submitter: 'bob' } }, ''],
      [{ view: { id: `${ID}1` } }, '1'],
      [{ since: START + 1000, until: START + 2500 }, '21'],
      [{ idPrefix: '0123abc' }, '0123'],
      [{ idPrefix: `${ID}2` }, '2'],
      [{ idPrefix: '0124' }, ''],
    ] as const)
      expect(await located(filter), JSON.stringify(filter)).to.equal(ids);
    const { next } = await store.reads.rows.search({ action: 'a' }, undefined, 2);
    expect(await located({ action: 'a' }, next)).to.equal('0');
    expect(await errorOf(() => located({ idPrefix: '0' }, next))).to.be.instanceOf(UnknownPosition);
    expect(await errorOf(() => located({ action: 'a' }, next?.slice(1)))).to.be.instanceOf(UnknownPosition);
  });

  it('searching counts the messages of each action and state', async (queue) => {
    const { reads } = queue.store;
    await queue.publish('abc', { action: 'mail' });
    await queue.publish('d', { action: 'ü"' });
    await queue.settle(await queue.next(), discard());
    const { found, next } = await reads.countActions(undefined);
    const counted = found.map(({ action, state, count }) => `${action} ${state} ${count}`);
    expect(counted.sort()).to.deep.equal(['mail failed 1', 'mail waiting 2', 'ü" waiting 1']);
    expect(await reads.countActions(next)).to.deep.equal({ found: [], next: undefined });
  });

  it('searching reads a bounded number of tasks, and continues after them', async (queue) => {
    for (let from = 0; from < 7000; from += 1000)
      await queue.store.publishAll(numbers(1000, from).map((id) => ({ message: messageOf(id), key: undefined })));
    // The clock of the node that accepted later tasks may be ahead.
    for (const filter of [{}, { text: 'x' }, { state: 'waiting' }, { since: queue.now + 30_000 }] as const) {
      const first = await queue.store.reads.search({ ...filter, action: 'none' }, undefined, 9);
      expect(first.found).to.deep.equal([]);
      expect(first.next).to.have.length('state' in filter ? 4 : 1);
      expect((await queue.store.reads.search(filter.state ? filter : {}, first.next, 9000)).found).to.have.length(2000);
    }
  });

  it('searching for a text reads tasks of a bounded size, but at least one, and continues after them', async (queue) => {
    for (const [id, size] of Object.entries({ a: 1, b: 2.2e6, c: 1e6, d: 1e6 }))
      await queue.publish(id, { body: messageOf(id, 'sum', { text: 'x'.repeat(size) }).body });
    const search = (after?: Position) => queue.store.reads.search({ text: 'x' }, after, 9);
    const first = await search();
    const second = await search(first.next);
    const third = await search(second.next);
    expect([first, second, third].map(({ found }) => idsOf(found))).to.deep.equal(['dc', 'b', 'a']);
  });

  const limitKey = 'ü\0"acme"';
  const owner = { limitKey, submitter: 'alice' };

  it('limit key and submitter stay with a task until its row is written, and select rows', async (queue) => {
    const { store } = queue;
    const [x] = await queue.running('x');
    const [a, b, c] = await queue.running('abc', owner);
    for (const delivery of [a, b, c]) expect(delivery).to.include(owner);
    expect(await queue.message('a')).to.include(owner);
    await queue.settleAll([x, a, c], complete());
    for (const settlement of [ack, row(1)]) await queue.settle(b, settlement);
    for (const filter of [{ limitKey }, { view: { limit_key: limitKey } }, { view: { submitter: 'alice' } }])
      expect([...idsOf(await listIn(store.reads.rows, filter))]).to.have.members(['a', 'b', 'c']);
    const named = { limit_key: 'ü\\u0000\\"acme\\"', submitter: 'alice' };
    expect(await store.reads.find('a'))
      .to.have.property('row')
      .that.includes(named);
    expect(await store.reads.find('x'))
      .to.have.property('row')
      .that.includes({ limit_key: null, submitter: null });
  });

  it('limit key and submitter are told of a task that is cancelled, redriven, purged or made due', async (queue) => {
    const { store } = queue;
    await queue.publish('abc', owner);
    expect(await store.cancel('a')).to.deep.equal({ outcome: 'cancelled', action: 'sum', ...owner });
    await queue.settleAll(await queue.takeAll(2), discard());
    const subject = (id: string) => ({ id, action: 'sum', ...owner });
    const redriven: object[] = [];
    await redriveIn(store, { ids: ['b'] }, (tasks) => redriven.push(...tasks));
    expect(redriven).to.deep.equal([subject('b')]);
    expect((await purgeIn(store, { all: true })).done).to.deep.equal([subject('c')]);
    await queue.publish('d', { ...owner, runAt: queue.now + 1000 });
    const due: object[] = [];
    await store.runNow('d', (task) => due.push(task));
    expect(due).to.deep.equal([subject('d')]);
  });
}

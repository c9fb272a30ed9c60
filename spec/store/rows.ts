import { expect } from 'chai';
import fc from 'fast-check';
import { MAX_ACTION_LENGTH } from '../../db/task-rows.ts';
import { complete, type Driver, idsOf, listIn, messageOf, numbers, type QueueTests, type TestQueue } from './stage.ts';

const idOf = (number: number | string) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Publishes tasks with these actions in one batch, `created_at` from 0 on, `perSecond` of them a second. */
async function publishAll({ store }: TestQueue, actions: readonly string[], perSecond = 1): Promise<void> {
  const messages = actions.map((action, number) => {
    const id = idOf(number);
    const created_at = Math.floor(number / perSecond);
    return { id, action: action.slice(0, 256), body: JSON.stringify({ id, action, data: {}, created_at }) };
  });
  await store.publishAll(messages.map((message) => ({ message, key: undefined })));
}

/** Characters that some databases or encodings refuse or escape, such as NUL and unpaired surrogates. */
const UNITS = ['\0', '\ud800', '\udc00', '\u{1f600}', '"', '\\', '{', '}', ',', 'NULL', '\n', "'", '$1', '\u{10ffff}'];

/** Conformance specs of the rows of completed tasks, and of rows that other programs have written. */
export function describeRows({ it, itWith }: QueueTests, driver: Driver): void {
  describe('rows', () => {
    it('keep payload and result to the letter', async (queue) => {
      const text = fc.string({
        unit: fc.oneof(fc.string({ unit: 'grapheme', maxLength: 3 }), fc.constantFrom(...UNITS)),
      });
      let count = 0;
      await fc.assert(
        fc.asyncProperty(text, text, async (data, output) => {
          const id = `${count++}`;
          const body = JSON.stringify({ data, created_at: 1 });
          await queue.store.publish({ ...messageOf(id), body });
          await queue.settle(await queue.next(), complete(output));
          expect(await queue.store.rows.find(id)).to.include({ payload: body, result: JSON.stringify({ output }) });
        }),
        { numRuns: 60 },
      );
    });

    it('replace those of other programs with the same id, whole', async (queue) => {
      for (const id of 'ab') await driver.insertRow(queue.store, id, 'pending', 1);
      await queue.publish('a');
      await queue.settle(await queue.next(), complete(2));
      expect(idsOf(await listIn(queue.store.rows))).to.equal('ab');
      expect(await queue.store.rows.find('a')).to.deep.include({ status: 'completed', result: '{"output":2}' });
    });

    it('are listed by the time of submission and by arrival, no matter when they were completed', async (queue) => {
      for (const [id, seconds] of Object.entries({ a: 2, b: 3, c: 2, d: 1, e: 2 }))
        await queue.store.publish({ ...messageOf(id), body: JSON.stringify({ id, created_at: seconds }) });
      const taken = await queue.takeAll(5);
      for (const index of [2, 0, 3, 4, 1]) {
        const delivery = taken[index];
        if (delivery !== undefined) await queue.settle(delivery, complete());
      }
      for (const status of [undefined, 'completed'])
        expect(idsOf(await listIn(queue.store.rows, { status }))).to.equal('becad');
    });

    it('are found by their status and action, to the letter', async (queue) => {
      const { rows } = queue.store;
      const long = 'a'.repeat(MAX_ACTION_LENGTH);
      const found = ['sum', 'Sum', '', '"', '\\"', '","data":', '\0', '\ud800', 'ü', '\u{1f600}'.repeat(256), long];
      await publishAll(queue, [...found, `${long}b`, '\u{1f600}'.repeat(300)]);
      await queue.settleAll(await queue.takeAll(found.length + 2), complete());
      for (const [index, action] of found.entries())
        for (const status of [undefined, 'completed'])
          expect(
            (await listIn(rows, { action, status })).map(({ id }) => id),
            action,
          ).to.deep.equal([idOf(index)]);
      for (const action of ['su', 'summ', '%', "' OR 1=1 --", '{}'])
        expect(await listIn(rows, { action }), action).to.deep.equal([]);
      for (const [id, status] of Object.entries({ pending: 'pending', empty: '' }))
        await driver.insertRow(queue.store, id, status, 1);
      const pending = {
        id: 'pending',
        payload: '{}',
        status: 'pending',
        result: null,
        created_at: 1,
        processed_at: null,
      };
      expect(await listIn(rows, { status: 'pending' })).to.deep.equal([pending]);
      expect(idsOf(await listIn(rows, { status: '' }))).to.equal('empty');
      for (const status of ['Completed', '%', "' OR 1=1 --", '\0', 'completed\0', '\ud800'])
        expect([await listIn(rows, { status }), await rows.find(status)], status).to.deep.equal([[], undefined]);
    });

    it('are listed page by page, with rows of the same second, without gap or repetition', async (queue) => {
      const { rows } = queue.store;
      await publishAll(
        queue,
        numbers(260).map((number) => (Number(number) % 2 === 0 ? 'sum' : 'uppercase')),
        120,
      );
      await queue.settleAll(await queue.takeAll(260), complete());
      for (const [filter, step] of [
        [{}, 1],
        [{ status: 'completed' }, 1],
        [{ action: 'sum' }, 2],
      ] as const) {
        const pages: string[] = [];
        for (let isOver = false; !isOver; ) {
          const before = pages.length === 0 ? undefined : await rows.position(pages.at(-1) as string);
          const page = (await listIn(rows, { ...filter, before })).map(({ id }) => id);
          expect((await listIn(rows, { ...filter, before }, 'summary')).map(({ id }) => id)).to.deep.equal(page);
          isOver = page.length === 0;
          pages.push(...page);
        }
        const newest = numbers(260)
          .map(idOf)
          .filter((_, index) => index % step === 0);
        expect(pages).to.deep.equal(newest.reverse());
      }
      for (const none of ['none', '\0']) expect(await rows.position(none)).to.equal(undefined);
    });

    itWith({ maxBytes: 1e8 }, 'have summaries, which cut payload and result, and tell their sizes', async (queue) => {
      const { rows } = queue.store;
      const body = JSON.stringify({ text: 'ü'.repeat(3000), created_at: 1 });
      const bytes = Buffer.byteLength(body);
      await queue.store.publish({ ...messageOf('a'), body });
      await queue.settle(await queue.next(), { kind: 'complete', result: `"${'€'.repeat(300)}"` });
      await driver.insertRow(queue.store, 'c', 'pending', 0);
      const cut = { payload: body.slice(0, 256), result: `"${'€'.repeat(255)}`, head: body.slice(0, 2048) };
      expect(await rows.find('a', 'summary')).to.deep.include({ ...cut, payload_bytes: bytes, result_bytes: 902 });
      const pending = { payload: '{}', status: 'pending', result: null, payload_bytes: 2, result_bytes: null };
      expect(await rows.find('c', 'summary')).to.deep.include({ ...pending, ran_ms: null, head: '{}' });
      const { found } = await rows.search({}, undefined, 9);
      expect(found.map(({ id, bytes }) => [id, bytes])).to.have.deep.members([
        ['a', bytes + 902],
        ['c', 2],
      ]);
    });
  });
}

import { expect } from 'chai';
import { RETENTION_SLICE, type RetentionLimits } from '../../db/task-store.ts';
import { type ForeignRow, numbers, type QueueTests, type TestQueue } from './stage.ts';

const DAY = 86_400;
const LIMIT = 100 * DAY;
const { maxLength, maxBytes } = RETENTION_SLICE;

const rowsAt = (ids: readonly string[], createdAt: number, processedAt: number | null = createdAt): ForeignRow[] =>
  ids.map((id) => ({ id, createdAt, processedAt }));

async function leftIn({ store }: TestQueue): Promise<string[]> {
  const { found } = await store.reads.rows.search({}, undefined, 1000);
  return found.map(({ id }) => id).sort((one, other) => Number(one) - Number(other));
}

/** Deletes rows until none is left to delete. Returns the number of rows that each step deleted. */
export async function runPass(queue: TestQueue, limits: Partial<RetentionLimits>): Promise<number[]> {
  const deleted: number[] = [];
  let { length: before } = await leftIn(queue);
  while (await queue.store.deleteOldRows({ rows: undefined, before: undefined, ...limits })) {
    const { length: after } = await leftIn(queue);
    deleted.push(before - after);
    before = after;
  }
  return deleted;
}

export function describeRetention({ it, driver: { insertRows } }: QueueTests): void {
  it('old rows are deleted if their tasks ended before the time, whenever they were submitted', async (queue) => {
    await insertRows(queue.store, [
      ...[...rowsAt(['1'], LIMIT - 1), ...rowsAt(['2'], LIMIT)],
      ...[...rowsAt(['3'], LIMIT - DAY, LIMIT - 1), ...rowsAt(['4'], LIMIT - DAY, LIMIT)],
      ...[...rowsAt(['5'], 0, LIMIT + DAY), ...rowsAt(['6'], 0, null), ...rowsAt(['7'], LIMIT, null)],
    ]);
    await runPass(queue, { before: LIMIT });
    expect(await leftIn(queue)).to.deep.equal(['2', '4', '5', '7']);
  });

  it('old rows stay only within both limits, of which each may be off', async (queue) => {
    const rows = numbers(50).flatMap((id) => rowsAt([id], LIMIT + Number(id)));
    await insertRows(queue.store, rows);
    for (const [first, limits] of [
      [0, {}],
      [0, { rows: 51 }],
      [0, { rows: 50 }],
      [43, { rows: 20, before: LIMIT + 43 }],
      [45, { rows: 5, before: LIMIT + 43 }],
    ] as const) {
      await runPass(queue, limits);
      expect(await leftIn(queue), JSON.stringify(limits)).to.deep.equal(numbers(50 - first, first));
    }
  });

  it('old rows are deleted in the order of submission, those of one second by arrival', async (queue) => {
    const ids = numbers(2 * maxLength);
    const quarter = maxLength / 2;
    await insertRows(queue.store, [
      ...rowsAt(ids.slice(0, quarter), 3),
      ...rowsAt(ids.slice(quarter, 2 * quarter), 1, null),
      ...rowsAt(ids.slice(2 * quarter), 2),
    ]);
    await queue.store.deleteOldRows({ rows: undefined, before: LIMIT });
    expect(await leftIn(queue)).to.deep.equal([...ids.slice(0, quarter), ...ids.slice(3 * quarter)]);
  });

  it('old rows are deleted in the event loop turn of a submission, which is stored', async (queue) => {
    await insertRows(queue.store, rowsAt(['1'], LIMIT - 1));
    const published = queue.publish(['2']);
    await queue.store.deleteOldRows({ rows: undefined, before: LIMIT });
    await published;
    expect([await leftIn(queue), (await queue.take(1)).length]).to.deep.equal([[], 1]);
  });

  for (const limits of [{ rows: 1 }, { before: LIMIT }])
    it(`old rows are deleted in steps of bounded number and size, large ones alone: ${JSON.stringify(limits)}`, async (queue) => {
      const rows = [1, maxBytes + 1, maxBytes / 2, maxBytes / 2, 1, 1].map((size, index) => {
        const payload = 'x'.repeat(size / 2);
        return { id: `${index}`, createdAt: 1, payload, result: 'x'.repeat(size - payload.length) };
      });
      await insertRows(queue.store, [...rows, ...rowsAt(['1000'], LIMIT)]);
      expect(await runPass(queue, limits)).to.deep.equal([1, 1, 2, 2]);
      expect(await leftIn(queue)).to.deep.equal(['1000']);
      await insertRows(queue.store, rowsAt(numbers(2 * maxLength + 10), 0));
      expect(await runPass(queue, limits)).to.deep.equal([maxLength, maxLength, 10]);
    });
}

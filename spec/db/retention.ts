import { expect } from 'chai';
import { type Awaitable, RETENTION_SLICE, type RetentionLimits } from '../../db/task-store.ts';
import { type Row, range } from '../support/aged-rows.ts';

/** An empty table of one test. */
export interface AgedRows {
  add(...rows: Row[]): Awaitable<void>;
  /** Returns the arrival numbers of the rows, in order. */
  left(): Awaitable<number[]>;
  /** Deletes rows until none is left to delete. Returns the number of rows that each step deleted. */
  runPass(limits: Partial<RetentionLimits>): Awaitable<number[]>;
}

export const DAY = 86_400;
export const LIMIT = 100 * DAY;

export const at = (createdAt: number, processedAt: number | null = createdAt) => ({ createdAt, processedAt });

/** Defines the conformance specs of a pass of the retention. `fresh` opens an empty table for each test. */
export function describeRetention(fresh: () => Promise<AgedRows>): void {
  it('deletes nothing where both limits are off, or there is less', async () => {
    const { add, left, runPass } = await fresh();
    expect(await runPass({ rows: 10, before: LIMIT })).to.deep.equal([]);
    await add(...range(1, 50).map((arrival) => ({ arrival })));
    expect(await runPass({})).to.deep.equal([]);
    for (const rows of [50, 51]) expect(await runPass({ rows })).to.deep.equal([]);
    expect(await left()).to.deep.equal(range(1, 50));
  });

  it('keeps the rows of tasks that were done after the time, whenever they were submitted', async () => {
    const { add, left, runPass } = await fresh();
    await add(
      { arrival: 1, ...at(LIMIT - 1) },
      { arrival: 2, ...at(LIMIT) },
      { arrival: 3, ...at(LIMIT - 50 * DAY, LIMIT - 1) },
      { arrival: 4, ...at(LIMIT - 50 * DAY, LIMIT) },
      { arrival: 5, ...at(0, LIMIT + DAY) },
      { arrival: 6, ...at(0, null) },
      { arrival: 7, ...at(LIMIT, null) },
      { arrival: 8, ...at(LIMIT + DAY) },
    );
    await runPass({ before: LIMIT });
    expect(await left()).to.deep.equal([2, 4, 5, 7, 8]);
  });

  it('keeps what is within both limits', async () => {
    const { add, left, runPass } = await fresh();
    await add(...range(1, 50).map((arrival) => ({ arrival, ...at(LIMIT + arrival) })));
    await runPass({ rows: 20, before: LIMIT + 43 });
    expect(await left()).to.deep.equal(range(43, 50));
    await runPass({ rows: 5, before: LIMIT + 43 });
    expect(await left()).to.deep.equal(range(46, 50));
  });

  for (const limits of [{ rows: 1 }, { before: LIMIT }]) {
    it(`deletes a bounded number of rows a step: ${JSON.stringify(limits)}`, async () => {
      const { add, left, runPass } = await fresh();
      const { maxLength } = RETENTION_SLICE;
      await add(...range(1, 2 * maxLength + 10).map((arrival) => ({ arrival })), { arrival: 1000, ...at(LIMIT) });
      expect(await runPass(limits)).to.deep.equal([maxLength, maxLength, 10]);
      expect(await left()).to.deep.equal([1000]);
    });

    it(`deletes a bounded number of bytes a step, and large rows alone: ${JSON.stringify(limits)}`, async () => {
      const { add, left, runPass } = await fresh();
      const { maxBytes } = RETENTION_SLICE;
      const sizes = [1, maxBytes + 1, maxBytes / 2, maxBytes / 2, 1, 1];
      await add(...sizes.map((bytes, index) => ({ arrival: index + 1, bytes })), { arrival: 1000, ...at(LIMIT) });
      expect(await runPass(limits)).to.deep.equal([1, 1, 2, 2]);
      expect(await left()).to.deep.equal([1000]);
    });
  }
}

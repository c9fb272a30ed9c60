import { expect } from 'chai';
import { excessRows, retentionRound } from '../../../db/sqlite/retention.ts';
import { RETENTION_SLICE } from '../../../db/task-store.ts';
import { freshRows, range } from '../../support/aged-rows.ts';

const DAY = 86_400;
const LIMIT = 100 * DAY;

interface Limits {
  /** Number of newest rows to keep. */
  rows?: number;
  before?: number;
}

/** Creates rows, and functions that start a round or run a whole round over them. */
async function fresh() {
  const rows = await freshRows();
  const { database } = rows;
  const begin = ({ rows: kept, before }: Limits) =>
    retentionRound(database, kept === undefined ? 0 : excessRows(database, kept), before);
  /** Runs a round. Returns the number of rows that each step deleted. */
  const round = (limits: Limits) => {
    const deleted: number[] = [];
    const steps = begin(limits);
    for (let before = rows.rowids().length; !database.transaction(() => steps.next()).done; ) {
      const after = rows.rowids().length;
      deleted.push(before - after);
      before = after;
    }
    return deleted;
  };
  return { ...rows, begin, round };
}

const at = (createdAt: number, processedAt: number | null = createdAt) => ({ createdAt, processedAt });

describe('a round of the retention', () => {
  it('deletes nothing where both limits are off', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 50).map((rowid) => ({ rowid })));
    expect(round({})).to.deep.equal([]);
    expect(rowids()).to.deep.equal(range(1, 50));
  });

  it('keeps the newest rows by arrival, whatever their times', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 50).map((rowid) => ({ rowid, ...at(LIMIT - rowid) })));
    expect(round({ rows: 20 })).to.deep.equal([30]);
    expect(rowids()).to.deep.equal(range(31, 50));
    for (const rows of [20, 21]) expect(round({ rows })).to.deep.equal([]);
  });

  it('keeps the rows of tasks that were done after the time, whenever they were submitted', async () => {
    const { add, rowids, round } = await fresh();
    add({ rowid: 1, ...at(LIMIT - 1) }, { rowid: 2, ...at(LIMIT) }, { rowid: 3, ...at(LIMIT - 50 * DAY, LIMIT - 1) });
    add(
      { rowid: 4, ...at(LIMIT - 50 * DAY, LIMIT) },
      { rowid: 5, ...at(0, LIMIT + DAY) },
      { rowid: 6, ...at(0, null) },
    );
    add({ rowid: 7, ...at(LIMIT, null) }, { rowid: 8, ...at(LIMIT + DAY) });
    round({ before: LIMIT });
    expect(rowids()).to.deep.equal([2, 4, 5, 7, 8]);
  });

  it('keeps what is within both limits', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 50).map((rowid) => ({ rowid, ...at(rowid % 2 === 0 ? LIMIT : LIMIT - 1) })));
    round({ rows: 20, before: LIMIT });
    expect(rowids()).to.deep.equal(range(31, 50).filter((rowid) => rowid % 2 === 0));
  });

  for (const limits of [{ rows: 1 }, { before: LIMIT }]) {
    it(`deletes a bounded number of rows a step: ${JSON.stringify(limits)}`, async () => {
      const { add, rowids, round } = await fresh();
      add(...range(1, 2 * RETENTION_SLICE.maxLength + 10).map((rowid) => ({ rowid })), { rowid: 1000, ...at(LIMIT) });
      expect(round(limits)).to.deep.equal([RETENTION_SLICE.maxLength, RETENTION_SLICE.maxLength, 10]);
      expect(rowids()).to.deep.equal([1000]);
    });

    it(`deletes a bounded number of bytes a step, and large rows alone: ${JSON.stringify(limits)}`, async () => {
      const { add, rowids, round } = await fresh();
      const sizes = [1, RETENTION_SLICE.maxBytes + 1, RETENTION_SLICE.maxBytes / 2, RETENTION_SLICE.maxBytes / 2, 1, 1];
      add(...sizes.map((bytes, index) => ({ rowid: index + 1, bytes })), { rowid: 1000, ...at(LIMIT) });
      expect(round(limits)).to.deep.equal([1, 1, 2, 2]);
      expect(rowids()).to.deep.equal([1000]);
    });
  }

  it('goes on only as it is asked to, while others write', async () => {
    const { add, rowids, begin } = await fresh();
    add(...range(1, 3 * RETENTION_SLICE.maxLength).map((rowid) => ({ rowid })));
    const round = begin({ rows: RETENTION_SLICE.maxLength });
    expect(round.next().done).to.equal(false);
    expect(rowids()).to.have.lengthOf(2 * RETENTION_SLICE.maxLength);
    add({ rowid: 5000 }, { rowid: 5001 });
    expect(round.next().done).to.equal(false);
    expect(round.next().done).to.equal(true);
    expect(rowids()).to.deep.equal([
      ...range(2 * RETENTION_SLICE.maxLength + 1, 3 * RETENTION_SLICE.maxLength),
      5000,
      5001,
    ]);
  });

  it('looks at a bounded number of rows a step where it keeps those that waited for long', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 2 * RETENTION_SLICE.maxLength).map((rowid) => ({ rowid, ...at(0, LIMIT) })), { rowid: 1000 });
    expect(round({ before: LIMIT })).to.deep.equal([0, 0, 1]);
    expect(rowids()).to.have.lengthOf(2 * RETENTION_SLICE.maxLength);
  });

  it('deletes first what was submitted first, and of one second what arrived first', async () => {
    const { add, rowids, begin } = await fresh();
    const count = RETENTION_SLICE.maxLength / 2;
    add(...range(1, count).map((rowid) => ({ rowid, ...at(3) })));
    add(...range(count + 1, 2 * count).map((rowid) => ({ rowid, ...at(1, null) })));
    add(...range(2 * count + 1, 4 * count).map((rowid) => ({ rowid, ...at(2) })));
    const round = begin({ before: LIMIT });
    round.next();
    expect(rowids()).to.deep.equal([...range(1, count), ...range(3 * count + 1, 4 * count)]);
    round.next();
    expect(rowids()).to.deep.equal([]);
  });

  it('counts the bytes of the result, too', async () => {
    const { add, beside, round } = await fresh();
    add({ rowid: 1 }, { rowid: 2 }, { rowid: 1000, ...at(LIMIT) });
    beside.prepare('UPDATE tasks SET result = zeroblob(?) WHERE rowid < 3').run(RETENTION_SLICE.maxBytes - 1);
    expect(round({ rows: 1 })).to.deep.equal([1, 1]);
  });

  it('reads by an index, or by the rowid, and never sorts', async () => {
    const { add, database, round } = await fresh();
    add({ rowid: 1 }, { rowid: 2 });
    const texts = new Set<string>();
    const { statement } = database;
    database.statement = (sql) => {
      texts.add(sql);
      return statement.call(database, sql);
    };
    round({ rows: 1, before: LIMIT });
    const plans = [...texts]
      .filter((sql) => /^(SELECT|DELETE)/.test(sql))
      .map((sql) => {
        const values = sql.match(/\?/g)?.map(() => 1) ?? [];
        return statement
          .call(database, `EXPLAIN QUERY PLAN ${sql}`)
          .all(...values)
          .map(({ detail }) => detail);
      });
    expect(plans).to.deep.equal([
      // Counts the rows with a full scan of the smallest index.
      ['SCAN tasks USING COVERING INDEX tasks_by_creation'],
      // Scans in rowid order from the first row, up to the limit.
      ['SCAN tasks'],
      ['SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)'],
      ['SEARCH tasks USING INDEX tasks_by_creation (created_at>? AND created_at<?)'],
    ]);
  });
});

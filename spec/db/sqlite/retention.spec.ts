import { expect } from 'chai';
import { MAX_STEP_BYTES, MAX_STEP_ROWS, type RetentionLimits } from '../../../db/retention-limits.ts';
import { retentionRound } from '../../../db/sqlite/retention.ts';
import { freshRows, range } from '../../support/aged-rows.ts';

const DAY = 86_400;
const NOW = 100 * DAY;

/** Creates rows, and a function that runs a whole retention round over them. */
async function fresh() {
  const rows = await freshRows();
  /** Runs a round. @returns the number of rows deleted in each step, and the number of transactions */
  const round = (limits: RetentionLimits) => {
    let writes = 0;
    const write = (work: () => void) => {
      writes++;
      work();
    };
    return { steps: [...retentionRound(rows.database, limits, NOW * 1000, write)], writes };
  };
  return { ...rows, round };
}

const at = (createdAt: number, processedAt: number | null = createdAt) => ({ createdAt, processedAt });

describe('a round of the retention', () => {
  it('deletes nothing where both limits are off', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 50).map((rowid) => ({ rowid })));
    expect(round({ rows: 0, days: 0 })).to.deep.equal({ steps: [], writes: 0 });
    expect(rowids()).to.deep.equal(range(1, 50));
  });

  it('keeps the newest rows by arrival, whatever their times', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 50).map((rowid) => ({ rowid, ...at(NOW - rowid) })));
    expect(round({ rows: 20, days: 0 })).to.deep.equal({ steps: [30], writes: 1 });
    expect(rowids()).to.deep.equal(range(31, 50));
    for (const rows of [20, 21]) expect(round({ rows, days: 0 })).to.deep.equal({ steps: [], writes: 0 });
  });

  it('keeps the rows of tasks that were done within the days, whenever they were submitted', async () => {
    const { add, rowids, round } = await fresh();
    const limit = NOW - 7 * DAY;
    add({ rowid: 1, ...at(limit - 1) }, { rowid: 2, ...at(limit) }, { rowid: 3, ...at(limit - 50 * DAY, limit - 1) });
    add({ rowid: 4, ...at(limit - 50 * DAY, limit) }, { rowid: 5, ...at(0, NOW) }, { rowid: 6, ...at(0, null) });
    add({ rowid: 7, ...at(limit, null) }, { rowid: 8, ...at(NOW) });
    round({ rows: 0, days: 7 });
    expect(rowids()).to.deep.equal([2, 4, 5, 7, 8]);
  });

  it('keeps what is within both limits', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 50).map((rowid) => ({ rowid, ...at(rowid % 2 === 0 ? NOW : NOW - 8 * DAY) })));
    round({ rows: 20, days: 7 });
    expect(rowids()).to.deep.equal(range(31, 50).filter((rowid) => rowid % 2 === 0));
  });

  for (const limits of [
    { rows: 1, days: 0 },
    { rows: 0, days: 1 },
  ]) {
    it(`deletes a bounded number of rows a step, a transaction each: ${JSON.stringify(limits)}`, async () => {
      const { add, rowids, round } = await fresh();
      add(...range(1, 2 * MAX_STEP_ROWS + 10).map((rowid) => ({ rowid })), { rowid: 1000, ...at(NOW) });
      expect(round(limits)).to.deep.equal({ steps: [MAX_STEP_ROWS, MAX_STEP_ROWS, 10], writes: 3 });
      expect(rowids()).to.deep.equal([1000]);
    });

    it(`deletes a bounded number of bytes a step, and large rows alone: ${JSON.stringify(limits)}`, async () => {
      const { add, rowids, round } = await fresh();
      const sizes = [1, MAX_STEP_BYTES + 1, MAX_STEP_BYTES / 2, MAX_STEP_BYTES / 2, 1, 1];
      add(...sizes.map((bytes, index) => ({ rowid: index + 1, bytes })), { rowid: 1000, ...at(NOW) });
      expect(round(limits)).to.deep.equal({ steps: [1, 1, 2, 2], writes: 4 });
      expect(rowids()).to.deep.equal([1000]);
    });
  }

  it('goes on only as it is asked to, while others write', async () => {
    const { add, rowids, database } = await fresh();
    add(...range(1, 3 * MAX_STEP_ROWS).map((rowid) => ({ rowid })));
    const round = retentionRound(database, { rows: MAX_STEP_ROWS, days: 0 }, NOW, (work) => work());
    expect(round.next()).to.deep.equal({ done: false, value: MAX_STEP_ROWS });
    expect(rowids()).to.have.lengthOf(2 * MAX_STEP_ROWS);
    add({ rowid: 5000 }, { rowid: 5001 });
    expect(round.next()).to.deep.equal({ done: false, value: MAX_STEP_ROWS });
    expect(round.next()).to.deep.equal({ done: true, value: undefined });
    expect(rowids()).to.deep.equal([...range(2 * MAX_STEP_ROWS + 1, 3 * MAX_STEP_ROWS), 5000, 5001]);
  });

  it('passes by what waited for long at the cost of a step, not of a transaction', async () => {
    const { add, rowids, round } = await fresh();
    add(...range(1, 2 * MAX_STEP_ROWS).map((rowid) => ({ rowid, ...at(0, NOW) })), { rowid: 1000 });
    expect(round({ rows: 0, days: 1 })).to.deep.equal({ steps: [0, 0, 1], writes: 1 });
    expect(rowids()).to.have.lengthOf(2 * MAX_STEP_ROWS);
  });

  it('deletes first what was submitted first, and of one second what arrived first', async () => {
    const { add, rowids, database } = await fresh();
    const count = MAX_STEP_ROWS / 2;
    add(...range(1, count).map((rowid) => ({ rowid, ...at(3) })));
    add(...range(count + 1, 2 * count).map((rowid) => ({ rowid, ...at(1, null) })));
    add(...range(2 * count + 1, 4 * count).map((rowid) => ({ rowid, ...at(2) })));
    const round = retentionRound(database, { rows: 0, days: 1 }, NOW * 1000, (work) => work());
    expect(round.next()).to.deep.equal({ done: false, value: MAX_STEP_ROWS });
    expect(rowids()).to.deep.equal([...range(1, count), ...range(3 * count + 1, 4 * count)]);
    expect(round.next()).to.deep.equal({ done: false, value: MAX_STEP_ROWS });
    expect(rowids()).to.deep.equal([]);
  });

  it('counts the bytes of the result, too', async () => {
    const { add, beside, round } = await fresh();
    add({ rowid: 1 }, { rowid: 2 }, { rowid: 1000, ...at(NOW) });
    beside.prepare('UPDATE tasks SET result = zeroblob(?) WHERE rowid < 3').run(MAX_STEP_BYTES - 1);
    expect(round({ rows: 1, days: 0 })).to.deep.equal({ steps: [1, 1], writes: 2 });
  });

  it('keeps a row that was written again by a task that was done later', async () => {
    for (const limits of [
      { rows: 1, days: 0 },
      { rows: 0, days: 1 },
    ]) {
      const { add, rowids, database } = await fresh();
      add(...range(1, 3).map((rowid) => ({ rowid, createdAt: 1 })), { rowid: 4, ...at(NOW) });
      const replaceFirst = (work: () => void) => {
        add({ rowid: 2, createdAt: 1, processedAt: 2 });
        work();
      };
      expect([...retentionRound(database, limits, NOW * 1000, replaceFirst)]).to.deep.equal([3]);
      expect(rowids()).to.deep.equal([2, 4]);
    }
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
    round({ rows: 1, days: 1 });
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

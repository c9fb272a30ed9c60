import { expect } from 'chai';
import { freshRows, range } from '../../support/aged-rows.ts';

describe('TaskRetention', () => {
  it('counts rows, and finds those that came first whatever time they have', async () => {
    const { retention, add } = await freshRows();
    expect(retention.count()).to.equal(0);
    expect(retention.oldest(10)).to.deep.equal([]);
    add({ rowid: 30, createdAt: 1 }, { rowid: 20, createdAt: 2, processedAt: 9, bytes: 5 }, { rowid: 40 });
    expect(retention.count()).to.equal(3);
    expect(retention.oldest(2)).to.deep.equal([
      { rowid: 20, created_at: 2, ended_at: 9, bytes: 5 },
      { rowid: 30, created_at: 1, ended_at: 1, bytes: 1 },
    ]);
  });

  it('finds those that were submitted before a time, each once, in order', async () => {
    const { retention, add } = await freshRows();
    add({ rowid: 1, createdAt: 3 }, { rowid: 2, createdAt: 1, processedAt: null }, { rowid: 3, createdAt: 2 });
    add({ rowid: 4, createdAt: 2 }, { rowid: 5, createdAt: 4 }, { rowid: 6, createdAt: 2 });
    const found: number[] = [];
    let place = { created_at: -1, rowid: 0 };
    for (;;) {
      const rows = retention.submittedBefore(4, place, 2);
      if (rows.length === 0) break;
      expect(rows).to.have.lengthOf.at.most(2);
      for (const { rowid } of rows) found.push(rowid);
      place = rows.at(-1) ?? place;
    }
    expect(found).to.deep.equal([2, 3, 4, 6, 1]);
  });

  it('deletes rows, but none that was written again by a task that was done later', async () => {
    const { retention, add, rowids } = await freshRows();
    add(...range(1, 4).map((rowid) => ({ rowid, createdAt: 1 })));
    const rows = retention.oldest(3);
    add({ rowid: 2, createdAt: 1, processedAt: 2 });
    retention.delete(rows);
    expect(rowids()).to.deep.equal([2, 4]);
  });

  it('reads by an index, or by the rowid, and never sorts', async () => {
    const { retention, database } = await freshRows();
    const texts: string[] = [];
    const { statement } = database;
    database.statement = (sql) => {
      texts.push(sql);
      return statement.call(database, sql);
    };
    retention.count();
    retention.oldest(1);
    retention.submittedBefore(1, { created_at: 0, rowid: 0 }, 1);
    retention.delete([{ rowid: 1, created_at: 0, ended_at: 0, bytes: 0 }]);
    const plans = texts
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
      ['SEARCH tasks USING INDEX tasks_by_creation (created_at>? AND created_at<?)'],
      ['SEARCH tasks USING INTEGER PRIMARY KEY (rowid=?)'],
    ]);
  });
});

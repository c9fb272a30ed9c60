import { expect } from 'chai';
import { excessRows, retentionPass } from '../../../db/sqlite/retention.ts';
import { RETENTION_SLICE, type RetentionLimits } from '../../../db/task-store.ts';
import { freshRows, range } from '../../support/aged-rows.ts';
import { at, describeRetention, LIMIT } from '../retention.ts';

/** Creates rows, and functions that start a pass or run a whole pass over them. */
async function fresh() {
  const rows = await freshRows();
  const { database } = rows;
  const begin = ({ rows: kept, before }: Partial<RetentionLimits>) =>
    retentionPass(database, kept === undefined ? 0 : excessRows(database, kept), before);
  /** Runs a pass. Returns the number of rows that each step deleted. */
  const runPass = (limits: Partial<RetentionLimits>) => {
    const deleted: number[] = [];
    const steps = begin(limits);
    for (let before = rows.left().length; !database.transaction(() => steps.next()).done; ) {
      const after = rows.left().length;
      deleted.push(before - after);
      before = after;
    }
    return deleted;
  };
  return { ...rows, begin, runPass };
}

describe('a pass of the retention', () => {
  describeRetention(fresh);

  it('looks at a bounded number of rows a step where it keeps those that waited for long', async () => {
    const { add, left, runPass } = await fresh();
    add(...range(1, 2 * RETENTION_SLICE.maxLength).map((arrival) => ({ arrival, ...at(0, LIMIT) })), { arrival: 1000 });
    expect(runPass({ before: LIMIT })).to.deep.equal([0, 0, 1]);
    expect(left()).to.have.lengthOf(2 * RETENTION_SLICE.maxLength);
  });

  it('deletes first what was submitted first, and of one second what arrived first', async () => {
    const { add, left, begin } = await fresh();
    const count = RETENTION_SLICE.maxLength / 2;
    add(...range(1, count).map((arrival) => ({ arrival, ...at(3) })));
    add(...range(count + 1, 2 * count).map((arrival) => ({ arrival, ...at(1, null) })));
    add(...range(2 * count + 1, 4 * count).map((arrival) => ({ arrival, ...at(2) })));
    const pass = begin({ before: LIMIT });
    pass.next();
    expect(left()).to.deep.equal([...range(1, count), ...range(3 * count + 1, 4 * count)]);
    pass.next();
    expect(left()).to.deep.equal([]);
  });

  it('counts the bytes of the result, too', async () => {
    const { add, beside, runPass } = await fresh();
    add({ arrival: 1 }, { arrival: 2 }, { arrival: 1000, ...at(LIMIT) });
    beside.prepare('UPDATE tasks SET result = zeroblob(?) WHERE rowid < 3').run(RETENTION_SLICE.maxBytes - 1);
    expect(runPass({ rows: 1 })).to.deep.equal([1, 1]);
  });

  it('reads by an index, or by the rowid, and never sorts', async () => {
    const { add, database, runPass } = await fresh();
    add({ arrival: 1 }, { arrival: 2 });
    const texts = new Set<string>();
    const { statement } = database;
    database.statement = (sql) => {
      texts.add(sql);
      return statement.call(database, sql);
    };
    runPass({ rows: 1, before: LIMIT });
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

import { expect } from 'chai';
import { excessRows, retentionPass } from '../../../db/sqlite/retention.ts';
import { RETENTION_SLICE, type RetentionLimits } from '../../../db/task-store.ts';
import { freshRows, range } from '../../support/aged-rows.ts';
import { at, describeRetention, LIMIT } from '../retention.ts';

/** Creates rows, and functions that start a round or run a whole round over them. */
async function fresh() {
  const rows = await freshRows();
  const { database } = rows;
  const begin = ({ rows: kept, before }: Partial<RetentionLimits>) =>
    retentionPass(database, kept === undefined ? 0 : excessRows(database, kept), before);
  /** Runs a round. Returns the number of rows that each step deleted. */
  const round = (limits: Partial<RetentionLimits>) => {
    const deleted: number[] = [];
    const steps = begin(limits);
    for (let before = rows.left().length; !database.transaction(() => steps.next()).done; ) {
      const after = rows.left().length;
      deleted.push(before - after);
      before = after;
    }
    return deleted;
  };
  return { ...rows, begin, round };
}

describe('a round of the retention', () => {
  describeRetention(fresh);

  it('looks at a bounded number of rows a step where it keeps those that waited for long', async () => {
    const { add, left, round } = await fresh();
    add(...range(1, 2 * RETENTION_SLICE.maxLength).map((arrival) => ({ arrival, ...at(0, LIMIT) })), { arrival: 1000 });
    expect(round({ before: LIMIT })).to.deep.equal([0, 0, 1]);
    expect(left()).to.have.lengthOf(2 * RETENTION_SLICE.maxLength);
  });

  it('deletes first what was submitted first, and of one second what arrived first', async () => {
    const { add, left, begin } = await fresh();
    const count = RETENTION_SLICE.maxLength / 2;
    add(...range(1, count).map((arrival) => ({ arrival, ...at(3) })));
    add(...range(count + 1, 2 * count).map((arrival) => ({ arrival, ...at(1, null) })));
    add(...range(2 * count + 1, 4 * count).map((arrival) => ({ arrival, ...at(2) })));
    const round = begin({ before: LIMIT });
    round.next();
    expect(left()).to.deep.equal([...range(1, count), ...range(3 * count + 1, 4 * count)]);
    round.next();
    expect(left()).to.deep.equal([]);
  });

  it('counts the bytes of the result, too', async () => {
    const { add, beside, round } = await fresh();
    add({ arrival: 1 }, { arrival: 2 }, { arrival: 1000, ...at(LIMIT) });
    beside.prepare('UPDATE tasks SET result = zeroblob(?) WHERE rowid < 3').run(RETENTION_SLICE.maxBytes - 1);
    expect(round({ rows: 1 })).to.deep.equal([1, 1]);
  });

  it('reads by an index, or by the rowid, and never sorts', async () => {
    const { add, database, round } = await fresh();
    add({ arrival: 1 }, { arrival: 2 });
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

import { expect } from 'chai';
import { RETENTION_SLICE } from '../../db/task-store.ts';
import { describeStore } from './conformance.ts';
import { runPass } from './retention.ts';
import { sqliteDriver } from './sqlite-driver.ts';
import { numbers, TestQueue } from './stage.ts';

const driver = sqliteDriver('sqlite');

describeStore('the driver sqlite', driver);

describe('a step of the retention in SQLite', () => {
  it('looks at a bounded number of rows, also if it keeps all of them', async () => {
    const queue = new TestQueue(driver);
    await queue.open();
    const kept = numbers(2 * RETENTION_SLICE.maxLength).map((id) => ({ id, createdAt: 0, processedAt: 9 }));
    await driver.insertRows(queue.store, [...kept, { id: '1000', createdAt: 0 }]);
    expect(await runPass(queue, { before: 9 })).to.deep.equal([0, 0, 1]);
  });
});

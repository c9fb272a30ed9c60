import { expect } from 'chai';
import { describeStore } from './conformance.ts';
import { sqliteDriver } from './sqlite-driver.ts';
import { TestQueue } from './stage.ts';

describeStore('the driver memory', sqliteDriver('memory'));

describe('a stop of the driver memory', () => {
  it('leaves what was running to be delivered again, and counts no death', async () => {
    const queue = new TestQueue(sqliteDriver('memory'));
    await queue.open();
    await queue.publish('a');
    for (let time = 0; time < 3; time += 1) {
      expect(await queue.next()).to.include({ id: 'a', attempt: 1, isSuspect: false });
      await queue.restart();
    }
  });
});

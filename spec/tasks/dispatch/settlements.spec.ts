import { expect } from 'chai';
import { pino } from 'pino';
import type { Delivery, SettleResult } from '../../../db/task-store.ts';
import { Settlements } from '../../../main/tasks/dispatch/settlements.ts';
import { ManualClock } from '../../support/manual-clock.ts';

const delivery = { id: 'a', arrival: 1, delivery: 1 } as Delivery;

describe('Settlements', () => {
  for (const [what, count, bytes] of [
    ['64 results', 64, 1],
    ['256 KiB of results', 4, 64 * 1024],
  ] as const) {
    it(`are full while more than ${what} wait to be written`, () => {
      const settlements = new Settlements({
        queue: { settle: () => new Promise<SettleResult>(() => {}) },
        onWritten: () => {},
        clock: new ManualClock(),
        log: pino({ enabled: false }),
      });
      const add = () => settlements.add({ delivery, settlement: { kind: 'complete', result: 'x'.repeat(bytes) } });
      for (let added = 0; added < count; added++) add();
      expect(settlements.isFull).to.equal(false);
      add();
      expect(settlements.isFull).to.equal(true);
    });
  }
});

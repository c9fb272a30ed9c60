import { mock } from 'node:test';
import { expect } from 'chai';
import type { ActionLimits } from '../../db/task-store.ts';
import { storeOwnLimits } from '../../main/tasks/limits.ts';
import { openFreshStore } from '../support/store.ts';

describe('the limits of the handlers module', () => {
  it('are stored at the start, replaced, and removed with their action, but not those of a request', async () => {
    const store = await openFreshStore({ now: () => 1_800_000_000_000 });
    const api = { x: { concurrency: 9 }, y: { concurrency: 9 } };
    for (const [action, limits] of Object.entries(api)) await store.setLimits(action, limits, 'api');
    const [b, x] = [{ perKey: { rate: { count: 2, ms: 1000 } } }, { concurrency: 7 }];
    for (const own of [{ a: { concurrency: 1 }, b }, { a: { concurrency: 3 }, b, x }, {}]) {
      const limits = new Map<string, ActionLimits>(Object.entries(own));
      await storeOwnLimits(store, limits);
      const { mock: changes } = mock.method(store, 'setLimits');
      await storeOwnLimits(store, limits);
      expect(changes.callCount(), 'equal limits place no message anew').to.equal(0);
      const stored = (await store.limits()).map((each) => [each.action, each.limits]);
      expect(Object.fromEntries(stored)).to.deep.equal({ ...own, ...api });
    }
  });
});

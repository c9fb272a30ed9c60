import { mock } from 'node:test';
import { expect } from 'chai';
import type { ActionLimits, TaskStore } from '../../db/task-store.ts';
import { ownLimits, storeOwnLimits } from '../../main/tasks/limits.ts';
import { openFreshStore } from '../support/store.ts';

const now = () => 1_800_000_000_000;
const manifestOf = (limits: Record<string, ActionLimits>) =>
  new Map<string, { limits?: ActionLimits }>(
    Object.entries(limits).map(([action, each]) => [action, { limits: each }]),
  );
const limitsOf = async (store: TaskStore) =>
  Object.fromEntries((await store.limits()).map(({ action, limits, source }) => [action, [limits, source]]));

describe('the limits of the handlers module', () => {
  it('are stored at the start, replaced, and removed with their action, but not those of a request', async () => {
    const store = await openFreshStore({ now });
    for (const action of ['x', 'e']) await store.setLimits(action, { concurrency: 9 }, 'api');
    const api = [{ concurrency: 9 }, 'api'];
    const [b, e] = [{ perKey: { rate: { count: 2, ms: 1000 } } }, { concurrency: 7 }];
    for (const limits of [{ a: { concurrency: 1 }, b }, { b, c: { concurrency: 3 }, e }, {}]) {
      const own = ownLimits(manifestOf(limits).set('d', {}), []);
      await storeOwnLimits(store, own);
      const { mock: changes } = mock.method(store, 'setLimits');
      await storeOwnLimits(store, own);
      expect(changes.callCount(), 'equal limits place no message anew').to.equal(0);
      const stored = Object.entries(limits).map(([action, each]) => [action, [each, 'module']]);
      expect(await limitsOf(store)).to.deep.equal({ ...Object.fromEntries(stored), x: api, e: api });
    }
  });
});

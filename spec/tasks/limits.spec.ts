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
  it('are stored at the start, replaced, and removed with their action', async () => {
    const store = await openFreshStore({ now });
    const b = { perKey: { rate: { count: 2, ms: 1000 } } };
    for (const limits of [{ a: { concurrency: 1 }, b }, { b, c: { concurrency: 3 } }, {}]) {
      await storeOwnLimits(store, ownLimits(manifestOf(limits).set('d', {}), []));
      const stored = Object.entries(limits).map(([action, each]) => [action, [each, 'module']]);
      expect(await limitsOf(store)).to.deep.equal(Object.fromEntries(stored));
    }
  });

  it('leave those of a request alone, and do not place the messages anew if they are equal', async () => {
    const store = await openFreshStore({ now });
    const actions = manifestOf({ a: { concurrency: 1 }, b: { concurrency: 2 } });
    await store.setLimits('a', { concurrency: 9 }, 'api');
    await store.setLimits('x', { concurrency: 9 }, 'api');
    await storeOwnLimits(store, ownLimits(actions, []));
    const { mock: changes } = mock.method(store, 'setLimits');
    await storeOwnLimits(store, ownLimits(actions, []));
    expect(changes.callCount()).to.equal(0);
    const api = [{ concurrency: 9 }, 'api'];
    expect(await limitsOf(store)).to.deep.equal({ a: api, b: [{ concurrency: 2 }, 'module'], x: api });
  });
});

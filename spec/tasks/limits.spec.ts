import { expect } from 'chai';
import type { TaskStore } from '../../db/task-store.ts';
import { ownLimits, storeOwnLimits } from '../../main/tasks/limits.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';
import { openFreshStore } from '../support/store.ts';

const now = () => 1_800_000_000_000;
const limitsOf = async (store: TaskStore) =>
  Object.fromEntries((await store.limits()).map(({ action, limits, source }) => [action, [limits, source]]));

describe('the limits of the handlers module', () => {
  it('are stored at the start, replaced, and removed with their action', async () => {
    const store = await openFreshStore({ now });
    const first: HandlersManifest = new Map([
      ['a', { limits: { concurrency: 1 } }],
      ['b', { limits: { perKey: { rate: { count: 2, ms: 1000 } } } }],
      ['c', {}],
    ]);
    await storeOwnLimits(store, ownLimits(first, []));
    const b = [{ perKey: { rate: { count: 2, ms: 1000 } } }, 'module'];
    expect(await limitsOf(store)).to.deep.equal({ a: [{ concurrency: 1 }, 'module'], b });
    const second: HandlersManifest = new Map([
      ['b', first.get('b') ?? {}],
      ['c', { limits: { concurrency: 3 } }],
    ]);
    await storeOwnLimits(store, ownLimits(second, []));
    expect(await limitsOf(store)).to.deep.equal({ b, c: [{ concurrency: 3 }, 'module'] });
    await storeOwnLimits(store, ownLimits(new Map(), []));
    expect(await limitsOf(store)).to.deep.equal({});
  });

  it('leave those of a request alone, and do not place the messages anew if they are equal', async () => {
    const store = await openFreshStore({ now });
    const actions: HandlersManifest = new Map([
      ['a', { limits: { concurrency: 1 } }],
      ['b', { limits: { concurrency: 2 } }],
    ]);
    await store.setLimits('a', { concurrency: 9 }, 'api');
    await store.setLimits('x', { concurrency: 9 }, 'api');
    await storeOwnLimits(store, ownLimits(actions, []));
    let changes = 0;
    const { setLimits } = store;
    store.setLimits = (...given) => {
      changes += 1;
      return setLimits.apply(store, given);
    };
    await storeOwnLimits(store, ownLimits(actions, []));
    expect(changes).to.equal(0);
    const api = [{ concurrency: 9 }, 'api'];
    expect(await limitsOf(store)).to.deep.equal({ a: api, b: [{ concurrency: 2 }, 'module'], x: api });
  });
});

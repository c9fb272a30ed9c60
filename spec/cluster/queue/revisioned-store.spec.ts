import { expect } from 'chai';
import { RevisionedStore } from '../../../main/cluster/queue/revisioned-store.ts';
import { connection } from '../../drivers/nats-node.ts';
import { afterTest } from '../../support/cleanup.ts';
import { openLink } from '../../support/nats-server.ts';
import { describeWithNats, ownName } from '../../support/servers.ts';

describeWithNats('RevisionedStore.newest', () => {
  it('returns the newest values although most sequences have none', async () => {
    const link = await openLink(await connection(), ownName());
    const store = new RevisionedStore<number>(link, 'notes');
    await store.setUp({});
    afterTest(() => link.manager.streams.delete(store.name));
    for (const name of ['a', 'b', 'c', 'd']) await store.put(name, 0, 0);
    let revision = await store.put('e', 0, 0);
    for (let value = 1; value <= 20; value++) revision = await store.put('e', value, revision ?? 0);
    expect([...(await store.newest(2))]).to.deep.equal([
      ['d', 0],
      ['e', 20],
    ]);
    expect([...(await store.newest(5)).keys()]).to.deep.equal([...'abcde']);
  });
});

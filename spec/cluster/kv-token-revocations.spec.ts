import { mock } from 'node:test';
import { expect } from 'chai';
import { openKvTokenStore } from '../../main/cluster/ticker-state.ts';
import { TokenStoreFull } from '../../main/ticker/token-store.ts';
import { afterTest } from '../support/cleanup.ts';
import { startNatsServer } from '../support/nats-server.ts';
import { describeWithNats } from '../support/servers.ts';
import { eventually, until } from '../support/until.ts';
import { bucketOf, failure, inAnHour, messagesIn, open, openChanged, purge, shiftedClock } from './kv-token-stores.ts';

describeWithNats('revoked and evicted tokens of many nodes', () => {
  it('accepts tokens although clients revoke them in a loop, and bounds the marks of revocations', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server, 2), await open(server, 2)];
    for (let round = 0; round < 30; round++) {
      await a.put({ id: `x${round}`, keyId: 'k', expiresAt: inAnHour() });
      await a.revoke(`x${round}`);
    }
    expect(await messagesIn(await bucketOf(server))()).to.equal(2);
    for (const id of ['y', 'z']) await a.put({ id, keyId: 'k', expiresAt: inAnHour() });
    // Each node counts what its own watch has received.
    await until(() => b.has('z') && a.size === 2 && b.size === 2);
  });

  it('purges the marks of revocations after a while, those of a lost node too', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    afterTest(() => mock.timers.reset());
    const shift = shiftedClock();
    const server = await startNatsServer();
    const a = await open(server);
    await a.put({ id: 'x', keyId: 'k', expiresAt: inAnHour() });
    await a.revoke('x');
    a.close();
    await open(server);
    const messages = messagesIn(await bucketOf(server));
    mock.timers.tick(5_000);
    expect(await messages()).to.equal(1);
    shift(30_000);
    mock.timers.tick(5_000);
    await eventually(messages, (count) => count === 0);
  });

  it('drops a token that was revoked while it was away, though the mark was purged', async () => {
    const server = await startNatsServer();
    const link = await server.link();
    const store = await openKvTokenStore(link);
    afterTest(() => store.close());
    for (const id of ['x', 'y']) await store.put({ id, keyId: 'k', expiresAt: inAnHour() });
    await purge(server, 'x');
    await link.connection.reconnect();
    await until(() => !store.has('x'));
    expect(store.has('y')).to.equal(true);
  });

  it('reads the bucket again when its watch missed a mark', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    afterTest(() => mock.timers.reset());
    const server = await startNatsServer();
    await open(server);
    const real = await bucketOf(server);
    const watch = async () => {
      const entries = await real.watch();
      async function* missing() {
        for await (const entry of entries) if (entry.operation === 'PUT') yield entry;
      }
      return Object.create(entries, {
        [Symbol.asyncIterator]: { value: missing },
        stop: { value: () => entries.stop() },
      });
    };
    const store = await openChanged(server, { bucket: Object.create(real, { watch: { value: watch } }) });
    for (const [keyId, id] of ['x', 'y'].entries()) await store.put({ id, keyId: `k${keyId}`, expiresAt: inAnHour() });
    await real.delete('x');
    await purge(server, 'x');
    await real.put('z', `${inAnHour()} k3 1`);
    await until(() => store.has('z'));
    expect(store.has('x')).to.equal(true);
    mock.timers.tick(5_000);
    await until(() => !store.has('x'));
    expect([store.has('y'), store.has('z')]).to.deep.equal([true, true]);
  });

  it('counts the entries of the bucket that leave no room for tokens', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    afterTest(() => mock.timers.reset());
    const server = await startNatsServer();
    const store = await open(server, 3, 1000, 2);
    const bucket = await bucketOf(server);
    for (let entry = 0; entry < 5; entry++) await bucket.delete(`x${entry}`);
    mock.timers.tick(5_000);
    await until(() => store.size === 3);
    const refused = await failure(store.put({ id: 'y', keyId: 'k', expiresAt: inAnHour() }));
    expect(refused).to.be.instanceOf(TokenStoreFull);
  });

  it('retries the failed purge of an evicted token, and accepts that token no more meanwhile', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    afterTest(() => mock.timers.reset());
    const shift = shiftedClock();
    const server = await startNatsServer();
    let fails = true;
    const purges: string[] = [];
    const purgeOrFail = async (id?: string) => {
      if (fails) throw new Error('no answer');
      purges.push(`${id}`);
    };
    const store = await openChanged(server, { purge: purgeOrFail });
    for (const id of ['x', 'y']) await store.put({ id, keyId: 'k', expiresAt: inAnHour() });
    await store.revoke('y');
    shift(10_001);
    expect(await store.find('x')).to.equal(false);
    fails = false;
    mock.timers.tick(5_000);
    await until(() => purges.length > 0);
    expect(purges).to.deep.equal(['x']);
  });
});

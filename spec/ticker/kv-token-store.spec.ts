import { setImmediate } from 'node:timers/promises';
import { jetstream } from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { expect } from 'chai';
import { openKvTokenStore } from '../../main/engines/nats-ticker.ts';
import type { KvTokenStore } from '../../main/ticker/kv-token-store.ts';
import { TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { Tokens } from '../../main/ticker/tokens.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { describeWithNats } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { itIsATokenStore } from './token-store-conformance.ts';

const HOUR_MS = 3_600_000;
const inAnHour = () => Date.now() + HOUR_MS;

/** A node's store, over a connection of its own. */
async function open(server: NatsServer, maxTokens = 1000): Promise<KvTokenStore & { removed: unknown[] }> {
  const connection = await server.connect();
  const store = await openKvTokenStore({ connection, log: captureLog().log, prefix: 'spec', maxTokens });
  afterTest(() => store.close());
  const removed: unknown[] = [];
  store.onRemove = (...of) => removed.push(of);
  return Object.assign(store, { removed });
}

/** The bucket itself. */
async function bucketOf(server: NatsServer): Promise<KV> {
  return new Kvm(jetstream(await server.connect())).open('spec-tokens');
}

const failure = async (attempt: unknown) => {
  try {
    return await attempt;
  } catch (error) {
    return error;
  }
};

describeWithNats('the token store of many nodes', () => {
  itIsATokenStore(async ({ maxTokens }) => open(await startNatsServer(), maxTokens));

  it('has on every node what was put in on one, and revoked on one, without asking', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    await a.put({ id: 'x', expiresAt: inAnHour() });
    await until(() => b.has('x'));
    await b.revoke('x');
    await until(() => !a.has('x'));
    expect([a.removed, b.removed]).to.deep.equal([[['x', 'token revoked']], [['x', 'token revoked']]]);
    expect([await a.find('x'), await b.find('x')]).to.deep.equal([false, false]);
  });

  it('tells on every node of what expires', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    await a.put({ id: 'x', expiresAt: Date.now() + 300 });
    await until(() => b.has('x'));
    await until(() => b.removed.length > 0 && a.removed.length > 0);
    expect([a.removed, b.removed]).to.deep.equal([[['x', 'token expired']], [['x', 'token expired']]]);
  });

  it('has at its start what other nodes have issued, and not what they have revoked', async () => {
    const server = await startNatsServer();
    const first = await open(server);
    for (const id of ['x', 'y']) await first.put({ id, expiresAt: inAnHour() });
    await first.revoke('x');
    const late = await open(server);
    expect([late.has('x'), late.has('y'), late.size]).to.deep.equal([false, true, 1]);
  });

  it('looks up what it has not heard of yet, once for all who ask', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    await a.put({ id: 'x', expiresAt: inAnHour() });
    expect(b.has('x'), 'not heard of').to.equal(false);
    const asked = [b.find('x'), b.find('x')];
    expect(asked[0]).to.equal(asked[1]);
    expect(await Promise.all(asked)).to.deep.equal([true, true]);
    expect(b.has('x')).to.equal(true);
  });

  it('asks the server for unknown identifiers neither without bound nor twice in a moment', async () => {
    const server = await startNatsServer();
    const store = await open(server);
    const ids = Array.from({ length: 200 }, (_, index) => `unknown${index}`);
    const answers = await Promise.all(ids.map((id) => failure((async () => store.find(id))())));
    expect(answers.slice(0, 100)).to.deep.equal(Array(100).fill(false));
    for (const answer of answers.slice(100)) expect(answer).to.be.instanceOf(TokenStoreUnavailable);
    expect(store.find('unknown0'), 'without a question').to.equal(false);
  });

  it('takes no notice of what others have put into its bucket', async () => {
    const server = await startNatsServer();
    const store = await open(server);
    const bucket = await bucketOf(server);
    await bucket.put('strange', 'text');
    await bucket.put('old', '5');
    await bucket.put('good', `${inAnHour()}`);
    await until(() => store.has('good'));
    expect([await store.find('strange'), await store.find('old'), store.size]).to.deep.equal([false, false, 1]);
  });

  it('without the server keeps what it knows, and issues and revokes nothing; then it catches up', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    for (const id of ['x', 'y']) await a.put({ id, expiresAt: inAnHour() });
    await until(() => b.has('x') && b.has('y'));
    await server.kill();
    const before = performance.now();
    for (const attempt of [a.put({ id: 'z', expiresAt: inAnHour() }), a.revoke('x'), a.find('z')])
      expect(await failure(attempt)).to.be.instanceOf(TokenStoreUnavailable);
    expect(performance.now() - before).to.be.below(5000);
    expect([a.has('x'), a.find('x'), b.has('y')]).to.deep.equal([true, true, true]);

    await server.start();
    await (await bucketOf(server)).delete('x');
    await until(() => !a.has('x') && !b.has('x'));
    expect(b.removed).to.deep.equal([['x', 'token revoked']]);
    await a.put({ id: 'z', expiresAt: inAnHour() });
    await until(() => b.has('z'));
    expect(b.has('y')).to.equal(true);
  });

  it('gives up on a server that stands still in two seconds', async () => {
    const server = await startNatsServer();
    const store = await open(server);
    await store.put({ id: 'x', expiresAt: inAnHour() });
    server.freeze();
    const before = performance.now();
    expect(await failure(store.put({ id: 'y', expiresAt: inAnHour() }))).to.be.instanceOf(TokenStoreUnavailable);
    expect(performance.now() - before).to.be.below(3000);
    expect(store.has('x')).to.equal(true);
    server.thaw();
    await until(() => store.has('y'));
  });

  it('makes its bucket anew where that was lost', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    await a.put({ id: 'x', expiresAt: inAnHour() });
    await until(() => b.has('x'));
    await (await bucketOf(server)).destroy();
    await server.kill();
    await server.start();
    while ((await failure(a.put({ id: 'y', expiresAt: inAnHour() }))) !== undefined) await setImmediate();
    await until(() => b.has('y'));
    expect([a.has('x'), b.has('x')]).to.deep.equal([true, true]);
  });

  it('keeps no token in the bucket, and makes one of each node good on all', async () => {
    const server = await startNatsServer();
    const options = { key: 'a secret of more than thirty-two bytes', lifetimeSeconds: 3600 };
    const [a, b] = [
      await Tokens.create({ ...options, store: await open(server) }),
      await Tokens.create({ ...options, store: await open(server) }),
    ];
    const token = await a.issue({ user_id: 'demo', role: 'user' }, [], '192.0.2.1');
    const identity = await b.verify(token);
    expect(identity).to.deep.include({ actor: { id: 'user:demo', metadata: { role: 'user', user_id: 'demo' } } });
    if (identity === undefined) throw new Error('not good');
    expect(await b.verify(token), 'remembered').to.equal(identity);
    const entry = await (await bucketOf(server)).get(identity.tokenId);
    expect(entry?.string()).to.match(/^\d+$/);
    expect(token).to.not.include(entry?.key ?? '');
    await a.revoke(identity);
    await until(() => !b.isLive(identity));
    expect(await b.verify(token)).to.equal(undefined);
  });
});

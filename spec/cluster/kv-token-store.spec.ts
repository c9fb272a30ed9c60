import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { jetstreamManager } from '@nats-io/jetstream';
import { expect } from 'chai';
import { TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { Tokens } from '../../main/ticker/tokens.ts';
import { afterTest } from '../support/cleanup.ts';
import { startNatsServer } from '../support/nats-server.ts';
import { describeWithNats } from '../support/servers.ts';
import { eventually, until } from '../support/until.ts';
import { itIsATokenStore } from '../ticker/token-store-conformance.ts';
import { bucketOf, failure, inAnHour, messagesIn, open, openDeaf } from './kv-token-stores.ts';

const KEY = 'a secret of more than thirty-two bytes';

describeWithNats('the token store of many nodes', () => {
  itIsATokenStore(async ({ maxTokens, maxTokensPerKey }) => open(await startNatsServer(), maxTokens, maxTokensPerKey));

  it('replicates issued and revoked tokens to every node, without lookups', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    await a.put({ id: 'x', keyId: 'k', expiresAt: inAnHour() });
    await until(() => b.has('x'));
    await b.revoke('x');
    await until(() => !a.has('x'));
    expect([a.removed, b.removed]).to.deep.equal([[['x', 'token revoked']], [['x', 'token revoked']]]);
    expect([await a.find('x'), await b.find('x')]).to.deep.equal([false, false]);
  });

  it('tells on every node of what expires', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    mock.timers.enable({ apis: ['Date', 'setTimeout'], now: Date.now() });
    afterTest(() => mock.timers.reset());
    await a.put({ id: 'x', keyId: 'k', expiresAt: Date.now() + 60_000 });
    await until(() => b.has('x'));
    mock.timers.tick(60_000);
    expect([a.removed, b.removed]).to.deep.equal([[['x', 'token expired']], [['x', 'token expired']]]);
  });

  it('loads the tokens that other nodes have issued and not revoked', async () => {
    const server = await startNatsServer();
    const first = await open(server);
    for (const id of ['x', 'y']) await first.put({ id, keyId: 'k', expiresAt: inAnHour() });
    await first.revoke('x');
    const late = await open(server);
    expect([late.has('x'), late.has('y'), late.size]).to.deep.equal([false, true, 1]);
  });

  it('evicts the same tokens on every node, even one that was disconnected, and removes them from the bucket', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server, 1000, 2), await open(server, 1000, 2)];
    const ids = Array.from({ length: 20 }, (_, index) => `token${index}`);
    for (const [index, id] of ids.entries()) {
      const [node, other] = index % 2 === 0 ? [a, b] : [b, a];
      await node.put({ id, keyId: 'k', expiresAt: inAnHour() });
      await until(() => other.has(id));
    }
    const late = await open(server, 1000, 2);
    for (const { size, has } of [a, b, late].map((node) => ({
      size: node.size,
      has: ids.filter((id) => node.has(id)),
    })))
      expect([size, has]).to.deep.equal([2, ids.slice(-2)]);
    const evicted = ids.slice(0, -2).map((id) => [id, 'token revoked']);
    expect([a.removed, b.removed]).to.deep.equal([evicted, evicted]);
    await eventually(messagesIn(await bucketOf(server)), (count) => count === 2);
  });

  it('keeps to the bound of a key on all nodes when they issue at once', async () => {
    const server = await startNatsServer();
    const nodes = [await open(server, 1000, 5), await open(server, 1000, 5)];
    const ids = Array.from({ length: 60 }, (_, index) => `token${index}`);
    await Promise.all(
      ids.map((id, index) => nodes[index % 2]?.put({ id, keyId: `k${index % 3}`, expiresAt: inAnHour() })),
    );
    const alive = () => nodes.map((node) => ids.filter((id) => node.has(id)));
    await until(() => nodes.every(({ size }) => size === 15) && `${alive()[0]}` === `${alive()[1]}`);
    await eventually(messagesIn(await bucketOf(server)), (count) => count === 15);
  });

  it('looks up an unknown token once for all concurrent checks', async () => {
    const server = await startNatsServer();
    const { store, questions } = await openDeaf(server);
    await (await bucketOf(server)).put('x', `${inAnHour()} k 1`);
    expect(store.has('x')).to.equal(false);
    expect(await Promise.all([store.find('x'), store.find('x')])).to.deep.equal([true, true]);
    expect(store.has('x')).to.equal(true);
    await store.find('x');
    expect(questions).to.deep.equal(['x']);
  });

  it('takes no answer that is older than a revocation', async () => {
    const server = await startNatsServer();
    const answered = Promise.withResolvers<void>();
    const { store } = await openDeaf(server, () => answered.promise);
    await (await bucketOf(server)).put('x', `${inAnHour()} k 1`);
    const found = store.find('x');
    await store.revoke('x');
    answered.resolve();
    expect(await found).to.equal(false);
    expect(store.has('x')).to.equal(false);
  });

  it('asks the server for unknown identifiers neither without bound nor twice in a moment', async () => {
    const server = await startNatsServer();
    const store = await open(server);
    const now = performance.now();
    let shift = 0;
    const clock = mock.method(performance, 'now', () => now + shift);
    afterTest(() => clock.mock.restore());
    const ids = Array.from({ length: 200 }, (_, index) => `unknown${index}`);
    const answers = await Promise.all(ids.map((id) => failure((async () => store.find(id))())));
    expect(answers.slice(0, 100)).to.deep.equal(Array(100).fill(false));
    for (const answer of answers.slice(100)) expect(answer).to.be.instanceOf(TokenStoreUnavailable);
    expect(store.find('unknown0'), 'without a question').to.equal(false);
    shift += 1_001;
    expect(store.find('unknown0'), 'a question').to.be.instanceOf(Promise);
    await store.find('unknown0');
  });

  it('takes no notice of what others have put into its bucket', async () => {
    const server = await startNatsServer();
    const store = await open(server);
    const bucket = await bucketOf(server);
    await bucket.put('strange', 'text');
    await bucket.put('old', '5 k 1');
    await bucket.put('keyless', `${inAnHour()}`);
    await bucket.put('good', `${inAnHour()} k 1`);
    await until(() => store.has('good'));
    expect([await store.find('strange'), await store.find('old'), store.size]).to.deep.equal([false, false, 1]);
  });

  it('keeps its tokens while the server is down, and issues and revokes none; then it catches up', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    for (const id of ['x', 'y']) await a.put({ id, keyId: 'k', expiresAt: inAnHour() });
    await until(() => b.has('x') && b.has('y'));
    await server.kill();
    for (const attempt of [a.put({ id: 'z', keyId: 'k', expiresAt: inAnHour() }), a.revoke('x'), a.find('z')])
      expect(await failure(attempt)).to.be.instanceOf(TokenStoreUnavailable);
    expect([a.has('x'), a.find('x'), b.has('y')]).to.deep.equal([true, true, true]);

    await server.start();
    await (await bucketOf(server)).delete('x');
    await until(() => !a.has('x') && !b.has('x'));
    expect(b.removed).to.deep.equal([['x', 'token revoked']]);
    await a.put({ id: 'z', keyId: 'k', expiresAt: inAnHour() });
    await until(() => b.has('z'));
    expect(b.has('y')).to.equal(true);
  });

  it('times out after two seconds if the server is frozen', async () => {
    const server = await startNatsServer();
    const store = await open(server);
    await store.put({ id: 'x', keyId: 'k', expiresAt: inAnHour() });
    server.freeze();
    let error: unknown;
    let askedAt = 0;
    // SIGSTOP takes effect after a moment, so the first writes may succeed.
    while (error === undefined) {
      askedAt = performance.now();
      error = await failure(store.put({ id: 'y', keyId: 'k', expiresAt: inAnHour() }));
    }
    expect(error).to.be.instanceOf(TokenStoreUnavailable);
    expect(performance.now() - askedAt).to.be.within(1_900, 20_000);
    expect(store.has('x')).to.equal(true);
    server.thaw();
    await until(() => store.has('y'));
  });

  it('notices that its watch has fallen silent', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    afterTest(() => mock.timers.reset());
    const server = await startNatsServer();
    const store = await open(server);
    const { consumers } = await jetstreamManager(await server.connect());
    const names: string[] = [];
    for await (const { name } of consumers.list('KV_spec-tokens')) names.push(name);
    for (const name of names) await consumers.delete('KV_spec-tokens', name);
    await (await bucketOf(server)).put('x', `${inAnHour()} k 1`);
    await until(() => {
      mock.timers.tick(5_000);
      return store.has('x');
    });
    expect(names).to.have.lengthOf(1);
  });

  it('creates its bucket again if the bucket was lost', async () => {
    const server = await startNatsServer();
    const [a, b] = [await open(server), await open(server)];
    await a.put({ id: 'x', keyId: 'k', expiresAt: inAnHour() });
    await until(() => b.has('x'));
    await (await bucketOf(server)).destroy();
    await server.kill();
    await server.start();
    let over = false;
    afterTest(() => {
      over = true;
    });
    while ((await failure(a.put({ id: 'y', keyId: 'k', expiresAt: inAnHour() }))) !== undefined && !over)
      await setImmediate();
    await until(() => b.has('y'));
    expect([a.has('x'), b.has('x')]).to.deep.equal([true, true]);
  });

  it('stores no token text in the bucket, and accepts the tokens of each node on every node', async () => {
    const server = await startNatsServer();
    const options = { key: KEY, lifetimeSeconds: 3600 };
    const [a, b] = [
      new Tokens({ ...options, store: await open(server) }),
      new Tokens({ ...options, store: await open(server) }),
    ];
    const token = await a.issue({ user_id: 'demo', role: 'user', apiKey: 'key' }, [], '192.0.2.1');
    const identity = await b.verify(token);
    expect(identity).to.deep.include({ actor: { id: 'user:demo', metadata: { role: 'user', user_id: 'demo' } } });
    if (identity === undefined) throw new Error('the token is not valid');
    expect(await b.verify(token), 'remembered').to.equal(identity);
    const entry = await (await bucketOf(server)).get(identity.tokenId);
    expect(entry?.string()).to.match(/^\d+ [\w-]{16} 1$/);
    expect(token).to.not.include(entry?.key ?? '');
    await a.revoke(identity);
    await until(() => !b.isLive(identity));
    expect(await b.verify(token)).to.equal(undefined);
  });
});

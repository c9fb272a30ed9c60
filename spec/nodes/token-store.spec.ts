import { expect } from 'chai';
import type { Query } from '../../db/postgres/database.ts';
import { NodeTokenStore, type NodeTokenStoreOptions } from '../../main/nodes/token-store.ts';
import { type TokenStore, TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { errorOf, numbers } from '../store/stage.ts';
import { afterTest } from '../support/cleanup.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { describeWithPostgres, migratedSchema, openDatabase } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { itIsATokenStore } from '../ticker/token-store-conformance.ts';
import { openBus } from './parts.ts';

const SETTINGS = { maxTokensPerKey: 1000, clock: systemClock };

async function openNode(url: string, options: Partial<NodeTokenStoreOptions> = {}) {
  const { bus, log } = await openBus(url);
  const store = await new NodeTokenStore({ ...SETTINGS, database: openDatabase(url), bus, log, ...options }).open();
  afterTest(() => store.close());
  const removed: string[] = [];
  store.onRemove = (id, reason) => removed.push(`${id}: ${reason}`);
  return { bus, log, store, removed };
}

/** Opens a node's token store. Answers of slow queries are held until `goOn` is called; `held` returns their number. */
async function openSlowly(url: string, isSlow: (text: string) => boolean) {
  const database = openDatabase(url);
  const { promise, resolve } = Promise.withResolvers<void>();
  let held = 0;
  const query: Query = async (text, values, timeLimitMs) => {
    const isHeld = isSlow(text);
    const answer = await database.query<never>(text, values, timeLimitMs);
    if (isHeld) {
      held++;
      await promise;
    }
    return answer;
  };
  return { ...(await openNode(url, { database: { query } })), goOn: resolve, held: () => held };
}

function isTrusted(store: TokenStore): boolean {
  try {
    store.has('any');
    return true;
  } catch {
    return false;
  }
}

const token = (id: string, keyId = 'k') => ({ id, keyId, expiresAt: systemClock.now() + 3_600_000 });

describeWithPostgres('the token store in PostgreSQL', () => {
  itIsATokenStore(async (options) => (await openNode((await migratedSchema()).url, options)).store);
});

describeWithPostgres('the token stores of several nodes', () => {
  it('evict the oldest token of a key on all nodes, whichever node issued it', async () => {
    const { url } = await migratedSchema();
    const [one, other] = [await openNode(url, { maxTokensPerKey: 2 }), await openNode(url, { maxTokensPerKey: 2 })];
    await one.store.put(token('a'));
    await other.store.put(token('other', 'k2'));
    await other.store.put(token('b'));
    for (const { store } of [one, other]) await store.find('a');
    await other.store.put(token('c'));
    await until(() => !one.store.has('a'));
    const found = await Promise.all(['a', 'b', 'c', 'other'].map((id) => one.store.find(id)));
    expect(found).to.deep.equal([false, true, true, true]);
    expect([one.removed, other.removed]).to.deep.equal(Array(2).fill(['a: token revoked']));
    const { store } = await openNode(url, { maxTokens: 1 });
    expect(await Promise.all(['b', 'c'].map((id) => store.find(id)))).to.deep.equal([true, true]);
    expect(await errorOf(() => store.find('other')), 'twice its bound').to.be.instanceOf(TokenStoreUnavailable);
  });

  it('do not trust their cache while revocations may be missed, and read it again after that', async () => {
    const { url } = await migratedSchema();
    const way = await severable(url);
    const database = openDatabase(way.url);
    const failures = [new Error('the first reread fails')];
    const query: Query = (text, ...others) => {
      const failure = text.startsWith('SELECT id FROM tokens WHERE id = ANY') ? failures.pop() : undefined;
      return failure === undefined ? database.query(text, ...others) : Promise.reject(failure);
    };
    const [one, other] = [await openNode(way.url, { database: { query } }), await openNode(url)];
    for (const id of ['a', 'b']) await one.store.put(token(id));
    way.cut();
    await until(() => !one.bus.receiving.isUp);
    const late = await new NodeTokenStore({ ...SETTINGS, ...one, database: openDatabase(url) }).open();
    afterTest(() => late.close());
    for (const store of [one.store, late]) expect(() => store.has('a')).to.throw(TokenStoreUnavailable);
    for (const attempt of [() => one.store.find('a'), () => one.store.put(token('c')), () => one.store.revoke('a')])
      expect(await errorOf(attempt)).to.be.instanceOf(TokenStoreUnavailable);
    await other.store.revoke('a');
    way.mend();
    await until(() => one.bus.receiving.isUp);
    await until(() => isTrusted(late) && isTrusted(one.store) && one.store.has('b'));
    expect([one.store.has('a'), await one.store.find('a')]).to.deep.equal([false, false]);
    expect([one.removed, failures]).to.deep.equal([['a: token revoked'], []]);
  });

  for (const [rule, events, isTrustedNow] of [
    ['trust their cache after the newest reread, although an earlier one ends later', ['up', 'lost', 'up'], true],
    ['do not trust their cache after a reread during which the connection is lost again', ['up', 'lost'], false],
  ] as const) {
    it(rule, async () => {
      const { url } = await migratedSchema();
      let rereads = 0;
      const isFirst = (text: string) => text.startsWith('SELECT id FROM tokens WHERE id = ANY') && rereads++ === 0;
      const { bus, store, goOn, held } = await openSlowly(url, isFirst);
      await store.put(token('a'));
      for (const event of events) bus.receiving.emit(event);
      await until(() => held() === 1 && isTrusted(store) === isTrustedNow);
      goOn();
      await new Promise(setImmediate);
      expect([isTrusted(store), isTrusted(store) && store.has('a')]).to.deep.equal([isTrustedNow, isTrustedNow]);
    });
  }

  it('read all of many tokens again', async () => {
    const query = (async (text, [id] = []) => (text.startsWith('SELECT id, key_id') ? [token(`${id}`)] : [])) as Query;
    const { bus, store, removed } = await openNode((await migratedSchema()).url, { database: { query } });
    for (const id of numbers(5001)) await store.find(id);
    for (const event of ['lost', 'up'] as const) bus.receiving.emit(event);
    await until(() => isTrusted(store) && removed.length === 5001);
  });

  for (const revoker of ['this node', 'another node', 'a node that is not heard'])
    it(`never cache a token that ${revoker} revokes while it is read`, async () => {
      const { url } = await migratedSchema();
      const other = await openNode(url);
      await other.store.put(token('a'));
      const { bus, store, goOn, held } = await openSlowly(url, (text) => text.startsWith('SELECT id, key_id'));
      const found = Promise.resolve(store.find('a')).catch((error) => error.constructor);
      await until(() => held() === 1);
      if (revoker === 'a node that is not heard')
        for (const event of ['lost', 'up'] as const) bus.receiving.emit(event);
      else await (revoker === 'this node' ? store : other.store).revoke('a');
      // Announcements arrive in order.
      await store.put(token('mark'));
      await other.store.revoke('mark');
      await until(() => !store.has('mark'));
      goOn();
      const expected = revoker === 'a node that is not heard' ? TokenStoreUnavailable : false;
      expect([await found, store.has('a')]).to.deep.equal([expected, false]);
    });

  it('answer a revocation after its commit', async () => {
    const { store, goOn, held } = await openSlowly((await migratedSchema()).url, (text) => text.includes('revoked AS'));
    await store.put(token('a'));
    const revoked = store.revoke('a').then(() => 'revoked');
    await until(() => held() === 1);
    expect(await Promise.race([revoked, new Promise(setImmediate)])).to.not.equal('revoked');
    goOn();
    await revoked;
  });

  it('find tokens of other nodes while many tokens are issued slowly, and bound the lookups only', async () => {
    const { url } = await migratedSchema();
    await (await openNode(url)).store.put(token('a'));
    let isSlow = (text: string) => text.includes('INSERT INTO tokens');
    const { store, goOn, held } = await openSlowly(url, (text) => isSlow(text));
    const puts = Array.from({ length: 100 }, (_, number) => store.put(token(`own${number}`)));
    await until(() => held() === 100);
    expect(await store.find('a')).to.equal(true);
    isSlow = () => true;
    const lookups = Array.from({ length: 100 }, (_, number) => store.find(`unknown${number}`));
    expect(await errorOf(() => store.find('b'))).to.be.instanceOf(TokenStoreUnavailable);
    lookups.push(store.find('unknown0'));
    goOn();
    await Promise.all(puts);
    expect(new Set(await Promise.all(lookups))).to.deep.equal(new Set([false]));
    isSlow = () => expect.fail('the server is away');
    await Promise.allSettled(Array.from({ length: 100 }, (_, number) => store.find(`late${number}`)));
    isSlow = () => false;
    expect(await store.find('b')).to.equal(false);
  });

  it('delete the rows of tokens that have expired by the clocks of all nodes', async () => {
    const { url, sql } = await migratedSchema();
    const clock = new ManualClock();
    const insert = "INSERT INTO tokens (id, key_id, expires_at) SELECT n, 'k', $2 FROM generate_series(1, $1) AS n";
    await sql(insert, [1001, clock.now() - 60_001]);
    const { store } = await openNode(url, { clock });
    expect(await sql('SELECT id FROM tokens'), 'more than a slice').to.deep.equal([]);
    await sql(insert, [1, clock.now() - 60_000]);
    const { store: late } = await openNode(url, { clock });
    expect(await sql('SELECT id FROM tokens')).to.have.length(1);
    await store.put({ id: 'a', keyId: 'k', expiresAt: clock.now() + 1000 });
    await store.put({ id: 'b', keyId: 'k', expiresAt: clock.now() + 3_600_000 });
    clock.advance(121_000);
    // Two for the next deletions, and one for the expiry of the cached token.
    await until(() => clock.timers === 3);
    expect(await sql('SELECT id FROM tokens')).to.deep.equal([{ id: 'b' }]);
    for (const each of [store, late]) each.close();
    expect(clock.timers).to.equal(0);
  });
});

import { expect } from 'chai';
import type { Query } from '../../db/postgres/database.ts';
import { NodeTokenStore, type NodeTokenStoreOptions } from '../../main/nodes/token-store.ts';
import { type TokenStore, TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { describeWithPostgres, migratedSchema } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { itIsATokenStore } from '../ticker/token-store-conformance.ts';
import { failure, openBus, openDatabase, through } from './parts.ts';

const SETTINGS = { maxTokensPerKey: 1000, clock: systemClock };

/** Opens the token store of a node with its own connections. */
async function openNode(url: string, options: Partial<NodeTokenStoreOptions> = {}) {
  const { bus, log, lines } = await openBus(url);
  const store = await new NodeTokenStore({ ...SETTINGS, database: openDatabase(url), bus, log, ...options }).open();
  afterTest(() => store.close());
  const removed: string[] = [];
  store.onRemove = (id) => removed.push(id);
  return { bus, store, removed, lines };
}

function isTrusted(store: TokenStore): boolean {
  try {
    store.has('any');
    return true;
  } catch {
    return false;
  }
}

const inAnHour = () => systemClock.now() + 3_600_000;
const token = (id: string, keyId = 'k') => ({ id, keyId, expiresAt: inAnHour() });

describeWithPostgres('the token store in PostgreSQL', () => {
  itIsATokenStore(async (options) => (await openNode((await migratedSchema()).url, options)).store);
});

describeWithPostgres('the token stores of several nodes', () => {
  it('evict the oldest token of a key on all nodes, whichever node issued it', async () => {
    const { url } = await migratedSchema();
    const options = { maxTokensPerKey: 2 };
    const [one, other] = [await openNode(url, options), await openNode(url, options)];
    await one.store.put(token('a'));
    await other.store.put(token('other', 'k2'));
    await other.store.put(token('b'));
    for (const { store } of [one, other]) await store.find('a');
    await other.store.put(token('c'));
    await until(() => !one.store.has('a'));
    const found = await Promise.all(['a', 'b', 'c', 'other'].map((id) => one.store.find(id)));
    expect(found).to.deep.equal([false, true, true, true]);
    expect([one.removed, other.removed]).to.deep.equal([['a'], ['a']]);
  });

  it('do not trust their cache while revocations may be missed, and read it again after that', async () => {
    const { url } = await migratedSchema();
    const { url: proxied, way } = await through(url);
    const [one, other] = [await openNode(proxied), await openNode(url)];
    for (const id of ['a', 'b']) await one.store.put(token(id));
    way.cut();
    await until(() => !one.bus.receiving.isUp);
    expect(() => one.store.has('a')).to.throw(TokenStoreUnavailable);
    for (const attempt of [() => one.store.find('a'), () => one.store.put(token('c')), () => one.store.revoke('a')])
      expect(await failure(attempt)).to.be.instanceOf(TokenStoreUnavailable);
    await other.store.revoke('a');
    way.mend();
    await until(() => one.bus.receiving.isUp);
    await until(() => isTrusted(one.store) && one.store.has('b'));
    expect([one.store.has('a'), await one.store.find('a')]).to.deep.equal([false, false]);
    expect(one.removed).to.deep.equal(['a']);
  });

  it('trust nothing if they are opened while revocations may be missed', async () => {
    const { url } = await migratedSchema();
    const { url: proxied, way } = await through(url);
    const { bus, log } = await openBus(proxied);
    way.cut();
    await until(() => !bus.receiving.isUp);
    const store = await new NodeTokenStore({ ...SETTINGS, database: openDatabase(url), bus, log }).open();
    afterTest(() => store.close());
    expect(() => store.has('a')).to.throw(TokenStoreUnavailable);
    way.mend();
    await until(() => isTrusted(store));
  });

  it('trust their cache after the newest reread, although an earlier one ends later', async () => {
    const { url } = await migratedSchema();
    const { bus, log } = await openBus(url);
    const database = openDatabase(url);
    const first = Promise.withResolvers<void>();
    let rereads = 0;
    let ended = 0;
    const query: Query = async <Row>(text: string, values?: readonly unknown[], timeLimitMs?: number) => {
      const isReread = text.startsWith('SELECT id FROM tokens WHERE id = ANY');
      if (isReread && rereads++ === 0) await first.promise;
      const rows = await database.query<Row>(text, values, timeLimitMs);
      if (isReread) ended += 1;
      return rows;
    };
    const store = await new NodeTokenStore({ ...SETTINGS, database: { query }, bus, log }).open();
    afterTest(() => store.close());
    await store.put(token('a'));
    for (const event of ['up', 'lost', 'up'] as const) bus.receiving.emit(event);
    await until(() => ended === 1 && isTrusted(store));
    first.resolve();
    await until(() => ended === 2);
    await new Promise(setImmediate);
    expect([isTrusted(store), store.has('a')]).to.deep.equal([true, true]);
  });

  it('never cache a token that is revoked while it is read', async () => {
    const { url, sql } = await migratedSchema();
    const [one, other] = [await openNode(url), await openNode(url)];
    for (let round = 0; round < 30; round++) {
      const id = `token${round}`;
      await one.store.put(token(id));
      const [found] = await Promise.all([other.store.find(id), one.store.revoke(id)]);
      expect(found).to.be.a('boolean');
      await other.store.put(token(`mark${round}`));
      await one.store.revoke(`mark${round}`);
      await until(() => !other.store.has(`mark${round}`));
      expect(other.store.has(id)).to.equal(false);
    }
    expect(await sql('SELECT id FROM tokens')).to.deep.equal([]);
  });

  it('find tokens of other nodes while many tokens are issued slowly, and bound the lookups only', async () => {
    const { url } = await migratedSchema();
    const [{ bus, log }, other] = [await openBus(url), await openNode(url)];
    await other.store.put(token('a'));
    const database = openDatabase(url);
    const { promise, resolve } = Promise.withResolvers<void>();
    let isSlow: (text: string) => boolean = (text) => text.includes('INSERT INTO tokens');
    let slow = 0;
    const query: Query = async (text, values, timeLimitMs) => {
      if (isSlow(text)) {
        slow += 1;
        await promise;
      }
      return database.query(text, values, timeLimitMs);
    };
    const store = await new NodeTokenStore({ ...SETTINGS, database: { query }, bus, log }).open();
    afterTest(() => store.close());
    const puts = Array.from({ length: 100 }, (_, number) => store.put(token(`own${number}`)));
    await until(() => slow === 100);
    expect(await store.find('a')).to.equal(true);
    isSlow = () => true;
    const lookups = Array.from({ length: 100 }, (_, number) => store.find(`unknown${number}`));
    expect(await failure(() => store.find('b'))).to.be.instanceOf(TokenStoreUnavailable);
    resolve();
    await Promise.all(puts);
    expect(new Set(await Promise.all(lookups))).to.deep.equal(new Set([false]));
    expect(await store.find('b')).to.equal(false);
  });

  it('delete the rows of expired tokens', async () => {
    const { url, sql } = await migratedSchema();
    const clock = new ManualClock();
    const { store } = await openNode(url, { clock });
    await store.put({ id: 'a', keyId: 'k', expiresAt: clock.now() + 1000 });
    await store.put({ id: 'b', keyId: 'k', expiresAt: clock.now() + 3_600_000 });
    clock.advance(1000);
    expect([store.has('a'), await store.find('a')]).to.deep.equal([false, false]);
    for (let rows = 2; rows > 1; ) {
      clock.advance(120_000);
      rows = (await sql('SELECT id FROM tokens')).length;
    }
    expect(await sql('SELECT id FROM tokens')).to.deep.equal([{ id: 'b' }]);
  });
});

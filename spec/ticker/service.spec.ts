import { mock } from 'node:test';
import { expect } from 'chai';
import { openLocalBackend } from '../../main/backends/local.ts';
import { loadConfig } from '../../main/config.ts';
import { openFilesLimit, shareDescriptors } from '../../main/http/descriptor-shares.ts';
import { MemoryTokenStore } from '../../main/ticker/memory-token-store.ts';
import { startTicker } from '../../main/ticker/service.ts';
import type { TickFeed, TickFollower } from '../../main/ticker/tick-feed.ts';
import { TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { freshSettings } from '../support/program.ts';
import { until } from '../support/until.ts';

/** Creates a feed whose ticks the spec sends. */
function fakeFeed() {
  let follower: TickFollower | undefined;
  const calls: unknown[] = [];
  const feed: TickFeed = {
    lease: new SharedArrayBuffer(Float64Array.BYTES_PER_ELEMENT),
    isLeader: false,
    follow(other) {
      follower = other;
    },
    setLeaseWanted: (wanted) => calls.push(wanted),
    publish: () => false,
    close: async () => void calls.push('closed'),
  };
  return {
    feed,
    calls,
    tick: (symbols = 'BTC-USD,ETH-USD,SOL-USD') => follower?.onTick({ symbols, prices: [1, 2, 3], data: '{}' }),
  };
}

describe('service A with a feed', () => {
  afterEach(() => mock.timers.reset());

  it('is ready while it hears ticks, and takes part from its start to its stop', async () => {
    const config = loadConfig(await freshSettings());
    const { log } = captureLog();
    const engine = await openLocalBackend(config, log);
    afterTest(() => engine.close());
    const { feed, calls, tick } = fakeFeed();
    const shares = shareDescriptors(openFilesLimit(), config.tasks.concurrency);
    const service = await startTicker(config, { ...engine, openTickFeed: () => feed }, shares, log);
    const stop = () => service.stop(Promise.resolve());
    const check = () => service.checks.ticker?.();
    try {
      expect(calls[0]).to.equal(true);
      expect(check()).to.equal('no tick yet');
      mock.timers.enable({ apis: ['Date'], now: Date.now() });
      tick();
      mock.timers.tick(2_999);
      expect(check()).to.equal(undefined);
      mock.timers.tick(1_501);
      expect(check()).to.equal('no tick from the leader for 4.5 s');
      tick();
      expect(check()).to.equal(undefined);
      tick('BTC-USD,ETH-USD,XRP-USD');
      expect(check()).to.equal(undefined);
      mock.timers.tick(3_000);
      expect(check()).to.match(/^the ticks of the leader have other symbols: set TICKER_SYMBOLS /);
      tick();
      expect(check()).to.equal(undefined);
    } finally {
      await stop();
    }
    expect(calls.slice(-2)).to.deep.equal([false, 'closed']);
  });
});

describe('service A at its stop', () => {
  it('keeps the token store open until its last user is done', async () => {
    const config = loadConfig(await freshSettings());
    const { log } = captureLog();
    const engine = await openLocalBackend(config, log);
    afterTest(() => engine.close());
    const { feed, calls } = fakeFeed();
    const shares = shareDescriptors(openFilesLimit(), config.tasks.concurrency);
    const service = await startTicker(config, { ...engine, openTickFeed: () => feed }, shares, log);
    const { store } = service.metrics.tokens;
    const unused = Promise.withResolvers<void>();
    const stopped = service.stop(Promise.resolve(), unused.promise);
    await until(() => calls.at(-1) === 'closed');
    await store.put({ id: 'a', keyId: 'k', expiresAt: Date.now() + 60_000 });
    expect(store.has('a')).to.equal(true);
    unused.resolve();
    await stopped;
    expect(() => store.has('a')).to.throw(TokenStoreUnavailable);
  });
});

describe('service A with a full token store', () => {
  it('warns of it, and of nothing before', async () => {
    const config = loadConfig(await freshSettings());
    const { log } = captureLog();
    const engine = await openLocalBackend(config, log);
    afterTest(() => engine.close());
    const store = new MemoryTokenStore({ maxTokens: 1 });
    const shares = shareDescriptors(openFilesLimit(), config.tasks.concurrency);
    const service = await startTicker(config, { ...engine, openTokenStore: () => store }, shares, log);
    afterTest(() => service.stop(Promise.resolve()));
    expect(await service.warnings.token_store?.()).to.equal(undefined);
    await store.put({ id: 'a', keyId: 'k', expiresAt: Date.now() + 60_000 });
    expect(await service.warnings.token_store?.()).to.equal('the token store holds 1 tokens and takes no more');
  });
});

import { once } from 'node:events';
import { mock } from 'node:test';
import { expect } from 'chai';
import { openBackend } from '../../main/backends/backend.ts';
import { loadConfig } from '../../main/config.ts';
import { type ConnectionShares, openFilesLimit, shareDescriptors } from '../../main/http/connection-limiter.ts';
import type { Listener } from '../../main/http/listener.ts';
import { startTicker } from '../../main/ticker/service.ts';
import { MemoryTokenStore, TokenStoreUnavailable } from '../../main/ticker/token-store.ts';
import { SOCKET_BUFFER } from '../../main/ticker/ws-relay.ts';
import { systemClock, systemRandom } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { freshSettings } from '../support/program.ts';
import { connectRaw, handshake } from '../support/raw-connection.ts';
import { fakeFeed } from '../support/ticker.ts';
import { until } from '../support/until.ts';

type Backend = Awaited<ReturnType<typeof openBackend>>;
type Bounds = Partial<ConnectionShares>;

/** Starts service A with a feed whose ticks the spec sends, and with other parts of the backend if given. */
async function begin(replace: Partial<Backend> = {}, clock = systemClock, bounds: Bounds = {}, intervalMs = '2000') {
  const config = loadConfig({ ...(await freshSettings()), TICK_INTERVAL_MS: intervalMs });
  const { log } = captureLog();
  const backend = await openBackend(config, systemClock, systemRandom, log);
  afterTest(() => backend.close());
  const shares = { ...shareDescriptors(openFilesLimit(), config.tasks.concurrency), ...bounds };
  const fake = fakeFeed();
  const parts = { ...backend, openTickFeed: () => fake.feed, ...replace };
  return { ...fake, backend, service: await startTicker(config, parts, () => [], shares, clock, log) };
}

describe('service A', () => {
  for (const [intervalMs, seconds] of Object.entries({ 2000: 6, 500: 3 }))
    it(`is ready while it hears ticks, and takes part from its start to its stop: every ${intervalMs} ms`, async () => {
      let now = 1_790_000_000_000;
      const clock = { ...systemClock, now: () => now };
      const { service, calls, tick, feed, backend } = await begin({}, clock, {}, intervalMs);
      const check = () => service.checks.ticker?.();
      try {
        expect([calls[0], check()]).to.deep.equal([true, 'no tick yet']);
        tick();
        now += 1000 * seconds - 1;
        expect(check()).to.equal(undefined);
        now += 1;
        expect(check()).to.equal(`no tick from the leader for ${seconds}.0 s`);
        tick();
        expect(check()).to.equal(undefined);
        tick('BTC-USD,ETH-USD,XRP-USD');
        expect(check()).to.equal(undefined);
        now += 1000 * seconds;
        expect(check()).to.match(/^the ticks of the leader have other symbols: set TICKER_SYMBOLS /);
        tick();
        expect(check()).to.equal(undefined);
      } finally {
        Object.assign(feed, { isLeader: true });
        mock.method(backend.store, 'saveHistory', async () => void calls.push('saved'));
        await service.stop(Promise.resolve());
      }
      expect([...new Set(calls.slice(calls.indexOf('saved')))]).to.deep.equal(['saved', false, 'closed']);
    });

  it('buffers little for a client, and has no more connections than its shares of the open files', async () => {
    const { service } = await begin({}, systemClock, { ticker: 4, webSockets: 1 });
    const { server, port } = service.listener as Listener;
    const scope = [{ name: 'p', group: 'user', actions: '*', resources: '*', effect: 'allow' } as const];
    const user = { user_id: 'demo', role: 'user', apiKey: 'key' };
    const lines = handshake('/ws/ticker', await service.tokens.issue(user, scope, ''));
    const connected = once(server, 'connection');
    for (const status of [101, 503])
      expect(await (await connectRaw(port, ...lines)).until(/\r\n\r\n/)).to.include(`HTTP/1.1 ${status}`);
    expect((await connected)[0].writableHighWaterMark).to.equal(SOCKET_BUFFER);
    for (let count = 0; count < 3; count++) await connectRaw(port);
    expect(await (await connectRaw(port)).ended).to.equal('');
    await service.stop(Promise.resolve());
  });

  it('warns once its token store is full, which it keeps open at its stop until the last user is done', async () => {
    const store = new MemoryTokenStore({ maxTokens: 1, clock: systemClock });
    const { service, calls } = await begin({ openTokenStore: () => store });
    expect(await service.warnings.token_store?.()).to.equal(undefined);
    const unused = Promise.withResolvers<void>();
    const stopped = service.stop(Promise.resolve(), unused.promise);
    await until(() => calls.at(-1) === 'closed');
    await store.put({ id: 'a', keyId: 'k', expiresAt: Date.now() + 60_000 });
    expect(await service.warnings.token_store?.()).to.equal('the token store holds 1 tokens and takes no more');
    unused.resolve();
    await stopped;
    expect(() => store.has('a')).to.throw(TokenStoreUnavailable);
  });

  it('keeps the tokens of the last run for the next start if its start fails, and leaves no timer', async () => {
    const keys: unknown[] = [];
    const clock = new ManualClock();
    const parts = {
      lastTokens: { take: () => ({ key: 'last', records: [], apiKeys: [] }), keep: (key?: string) => keys.push(key) },
      openTickFeed: () => Promise.reject(new Error('no feed')),
    };
    expect(await begin(parts, clock).catch(({ message }) => message)).to.equal('no feed');
    expect([keys, clock.timers]).to.deep.equal([['last'], 0]);
  });
});

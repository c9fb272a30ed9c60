import { mock } from 'node:test';
import { expect } from 'chai';
import { SourceStatus, type TickFeed } from '../../main/ticker/ticker.ts';
import { temporaryFile } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { fakeFeed, pricesOf, startTicker } from '../support/ticker.ts';
import { until } from '../support/until.ts';

async function startWith(code: string, feed?: TickFeed) {
  const started = await startTicker({ source: await temporaryFile('source.mjs', code), intervalMs: 20, feed });
  started.subscribe();
  return {
    ...started,
    /** Waits for a tick whose prices fit, from now on. */
    async tickWith(fits: (prices: number[]) => boolean) {
      const seen = started.ticks.length;
      await until(() => started.ticks.slice(seen).some(({ message }) => fits([...pricesOf(message).values()])));
    },
  };
}

describe('a module as the price source', () => {
  it('is started with the symbols, supplies the prices, and may post messages of its own, which disturb nothing', async () => {
    const { ticker, tickWith, lines } = await startWith(`
      import { parentPort } from 'node:worker_threads';
      const messages = [undefined, null, 1, 'text', [], {}, new Map(), { topic: undefined }, { topic: 'other' }];
      let last;
      export default {
        start(symbols) { last = symbols.map(({ symbol, price, decimals }) => price + symbol.length + decimals); },
        prices() {
          for (const message of messages) parentPort.postMessage(message);
          return last;
        },
      };`);
    for (let tick = 0; tick < 3; tick++) await tickWith((prices) => prices.join() === '42009,2509,104');
    expect([ticker.source.problem, ticker.restarts]).to.deep.equal([undefined, 0]);
    expect(ticker.source.counts).to.deep.equal({ failed: 0, stalled: 0, refused: 0 });
    expect(lines).to.deep.equal([]);
  });

  it('is started again after another node has made a tick', async () => {
    const { feed, grantLease, tick } = fakeFeed();
    grantLease();
    const code = 'let starts = 0; export default { start() { starts++; }, prices: () => [10 + starts, 1, 1] };';
    const { ticks } = await startWith(code, feed);
    await until(() => {
      tick();
      return ticks.some(({ message }) => pricesOf(message).get('BTC-USD') === 12);
    });
  });

  it('survives its own errors in callbacks and promises, which are reported until its next answer', async () => {
    const { ticker, tickWith, logged } = await startWith(`
      let ticks = 0;
      export default {
        prices() {
          if (++ticks === 2) setTimeout(() => { throw new Error('late'); });
          if (ticks === 4) Promise.reject(new Error('unhandled'));
          return [ticks, ticks, ticks];
        },
      };`);
    for (const reason of ['late', 'unhandled']) {
      await logged(({ problem }) => problem === `the source failed: ${reason}`);
      await until(() => ticker.source.problem === undefined);
    }
    await tickWith(([price = 0]) => price > 6);
    expect([ticker.restarts, ticker.source.counts.failed]).to.deep.equal([0, 2]);
  });

  it('writes to the log, a bounded number of lines of bounded length', async () => {
    const { logged, lines, ticks } = await startWith(`
      console.error('starts', 1);
      export default {
        prices() {
          for (let line = 0; line < 50; line++) process.stdout.write('x'.repeat(100_000) + '\\n');
          throw new Error('no prices');
        },
      };`);
    expect(await logged(({ msg }) => msg === 'starts 1')).to.have.property('source');
    await logged(({ msg }) => msg.startsWith('xxx'));
    const { length } = ticks;
    await until(() => ticks.length >= length + 4);
    const written = lines.filter(({ msg }) => msg.startsWith('x'));
    expect(written.length).to.be.within(1, 20);
    for (const { msg } of written) expect(msg).to.have.length.at.most(8192);
  });

  it('that exits ends only its thread, which is restarted with its last prices, and without the problem of the dead one', async () => {
    const { ticker, tickWith, logged } = await startWith(`
      import { existsSync, writeFileSync } from 'node:fs';
      const mark = new URL('exited', import.meta.url);
      let calls = 0;
      export default {
        start([{ price }]) { this.price = price; },
        prices() {
          calls += 1;
          if (existsSync(mark) || calls === 1) return [++this.price, 2, 3];
          if (calls < 10) throw new Error('first');
          writeFileSync(mark, '');
          process.exit(5);
        },
      };`);
    const warning = await logged(({ problem }) => problem === 'prices() failed: first');
    expect(warning).to.include({ level: 40, msg: 'the price source fails: the last prices are kept' });
    expect(await logged(({ msg }) => msg.startsWith('the ticker thread ended'))).to.include({ code: 5 });
    await tickWith(([price]) => price === 42_002);
    expect(ticker.source.problem).to.equal(undefined);
    expect(ticker.numbered.newest.number, 'after nine of the thread that ended').to.be.above(8);
  });
});

describe('the status of the price source', () => {
  it('logs a limited number of recoveries, and then how many were left out', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const { log, lines } = captureLog();
    const status = new SourceStatus('source.mjs', log);
    for (let round = 0; round < 100; round++) status.onProblem(undefined);
    expect(lines).to.have.length(20);
    mock.timers.tick(10_000);
    const repeated = 'the price source has recovered';
    const msg = 'repeated log lines were left out';
    expect(lines.at(-1)).to.include({ level: 30, source: 'source.mjs', suppressed: 80, repeated, msg });
  });
});

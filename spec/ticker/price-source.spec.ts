import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { pricesOf, startTicker } from '../support/ticker.ts';
import { eventually, until } from '../support/until.ts';

const INTERVAL_MS = 20;

/** Starts a ticker with one client and a source with the given code. */
async function startWith(code: string, intervalMs = INTERVAL_MS) {
  const folder = await temporaryFolder();
  const source = join(folder, 'source.mjs');
  await writeFile(source, code.replaceAll('FOLDER', JSON.stringify(folder)));
  const started = await startTicker({ source, intervalMs });
  started.subscribe();
  return {
    ...started,
    folder,
    /** Waits for a tick whose prices fit, from now on. */
    async tickWith(fits: (prices: number[]) => boolean) {
      let seen = started.ticks.length;
      await until(() =>
        started.ticks.slice(seen).some(({ message }) => {
          seen += 1;
          return fits([...pricesOf(message).values()]);
        }),
      );
    },
    /** Waits for more ticks with the initial prices, which shows that the ticks go out whatever the source does. */
    async ticksWithInitialPrices(count = 5) {
      const from = started.ticks.length;
      await until(() => started.ticks.length >= from + count);
      for (const { message } of started.ticks.slice(from))
        expect([...pricesOf(message).values()]).to.deep.equal([42_000, 2_500, 95]);
    },
  };
}

describe('a module as the price source', () => {
  afterEach(() => mock.timers.reset());

  it('is started with the symbols, and supplies the prices', async () => {
    const { tickWith, ticker } = await startWith(`
      let last;
      export default {
        start(symbols) { last = symbols.map(({ symbol, price, decimals }) => price + symbol.length + decimals); },
        prices() { return last; },
      };`);
    await tickWith((prices) => prices.join() === '42009,2509,104');
    expect([ticker.source.problem, ticker.source.counts]).to.deep.equal([
      undefined,
      { failed: 0, stalled: 0, refused: 0 },
    ]);
  });

  for (const [what, code, problem, counts] of [
    ['throws', 'prices() { throw null; }', 'prices() failed: null', ['failed']],
    ['rejects later', 'async prices() { await 0; throw new Error("gone"); }', 'prices() failed: gone', ['failed']],
    [
      'never answers',
      'prices() { return new Promise(() => {}); }',
      `prices() takes longer than one interval of ${INTERVAL_MS} ms`,
      ['stalled'],
    ],
    [
      'never starts',
      'start() { return new Promise(() => {}); }, prices() { return [1, 2, 3]; }',
      `start() takes longer than one interval of ${INTERVAL_MS} ms`,
      ['stalled'],
    ],
    ['returns nonsense', 'prices() { return { then: 1 }; }', 'prices() returned no array for 3 symbols', ['refused']],
    [
      'returns a thenable that throws',
      'prices() { return { get then() { throw new Error("no then"); } }; }',
      'prices() failed: no then',
      ['failed'],
    ],
  ] as const) {
    it(`that ${what} leaves the last prices, and no tick out`, async () => {
      const { ticker, ticksWithInitialPrices, logged } = await startWith(`export default { ${code} };`);
      expect(await logged(({ msg }) => msg === 'the price source fails: the last prices are kept')).to.include({
        level: 40,
        problem,
      });
      await ticksWithInitialPrices();
      expect([ticker.source.problem, ticker.restarts]).to.deep.equal([problem, 0]);
      const counted = Object.entries(ticker.source.counts).filter(([, count]) => count > 0);
      expect(counted.map(([name]) => name)).to.deep.equal(counts);
    });
  }

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
      await eventually(
        () => ticker.source.problem,
        (problem) => problem === undefined,
      );
    }
    await tickWith(([price = 0]) => price > 6);
    expect([ticker.restarts, ticker.source.counts.failed]).to.deep.equal([0, 2]);
  });

  it('writes to the log, a bounded number of lines of bounded length', async () => {
    const { logged, lines, ticksWithInitialPrices } = await startWith(`
      console.error('starts', 1);
      export default {
        prices() {
          for (let line = 0; line < 50; line++) process.stdout.write('x'.repeat(100_000) + '\\n');
          throw new Error('no prices');
        },
      };`);
    expect(await logged(({ msg }) => msg === 'starts 1')).to.have.property('source');
    await logged(({ msg }) => msg.startsWith('xxx'));
    await ticksWithInitialPrices(20);
    const written = lines.filter(({ msg }) => msg.startsWith('x'));
    expect(written.length).to.be.within(1, 20);
    for (const { msg } of written) expect(msg).to.have.length.at.most(8192);
  });

  it('that posts messages of its own to the main thread disturbs nothing', async () => {
    const { ticker, tickWith, lines } = await startWith(`
      import { parentPort } from 'node:worker_threads';
      const frame = { topic: 'ws.send', type: 'text', data: '{}' };
      const messages = [
        undefined, null, 1, 'text', [], {}, new Map(), { topic: undefined }, { topic: 'other' },
        { to: 1, message: frame }, { to: [1], message: frame }, { to: '*', message: frame }, { to: '*', message: frame, due: NaN },
        { to: '*', message: frame, due: 1, made: 1 }, { to: '*', message: frame, due: 1, made: { prices: [1], timestamp: 0.5 } }, { to: '*', message: { ...frame, data: 1 }, due: 1 }, { to: ['0'] },
      ];
      let ticks = 0;
      export default {
        prices() {
          for (const message of messages) parentPort.postMessage(message);
          ticks += 1;
          return [ticks, ticks, ticks];
        },
      };`);
    await tickWith(([price = 0]) => price > 3);
    expect([ticker.source.problem, ticker.restarts]).to.deep.equal([undefined, 0]);
    expect(lines).to.deep.equal([]);
  });

  it('that exits ends only its thread, which is restarted with its last prices', async () => {
    const { tickWith, logged, folder } = await startWith(`
      import { existsSync, writeFileSync } from 'node:fs';
      const mark = FOLDER + '/exited';
      export default {
        start([{ price }]) { this.price = price; },
        prices() {
          if (this.price >= 42_003 && !existsSync(mark)) { writeFileSync(mark, ''); process.exit(5); }
          return [++this.price, 2, 3];
        },
      };`);
    expect(await logged(({ msg }) => msg.startsWith('the ticker thread ended'))).to.include({ code: 5 });
    expect(existsSync(join(folder, 'exited'))).to.equal(true);
    await tickWith(([price]) => price === 42_004);
  });

  it('that blocks its thread is replaced with it', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const { ticker, tickWith, logged, lines, folder } = await startWith(`
      import { existsSync, writeFileSync } from 'node:fs';
      const mark = FOLDER + '/blocked';
      export default {
        prices() {
          if (existsSync(mark)) return [1, 2, 3];
          writeFileSync(mark, '');
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
        },
      };`);
    await until(() => existsSync(join(folder, 'blocked')));
    expect(ticker.restarts).to.equal(0);
    // The first check sees a heartbeat from before the block.
    mock.timers.tick(5_000);
    expect(lines.at(-1)?.msg).to.equal('the ticker thread hangs: it is terminated');
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    await tickWith((prices) => prices.join() === '1,2,3');
  });

  it('whose problem a dead thread reported is not blamed after the restart', async () => {
    const { ticker, logged, tickWith } = await startWith(`
      import { existsSync, writeFileSync } from 'node:fs';
      const mark = FOLDER + '/failed';
      if (!existsSync(mark)) setTimeout(() => { writeFileSync(mark, ''); process.exit(1); }, 100);
      export default { prices: () => { if (!existsSync(mark)) throw new Error('first'); return [1, 2, 3]; } };`);
    await logged(({ problem }) => problem === 'prices() failed: first');
    await logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    await tickWith((prices) => prices.join() === '1,2,3');
    expect(ticker.source.problem).to.equal(undefined);
  });
});

import { mock } from 'node:test';
import { expect } from 'chai';
import type { TickerSymbol } from '../../../workers/shared/symbols.ts';
import { SourceCount } from '../../../workers/ticker/messages.ts';
import { type PriceSource, sourcedPrices } from '../../../workers/ticker/sourced-prices.ts';

const SYMBOLS: readonly TickerSymbol[] = [
  { symbol: 'A-USD', price: 10, decimals: 2 },
  { symbol: 'B-USD', price: 20, decimals: 4 },
];

/** Creates prices with a source that the spec controls. Its first answer is `[1, 2]`. */
function create(source: Partial<PriceSource> | (() => PriceSource | Promise<PriceSource>) = {}, intervalMs = 1000) {
  const answers: unknown[] = [];
  const started: (readonly TickerSymbol[])[] = [];
  const controlled = {
    start: (symbols: readonly TickerSymbol[]) => void started.push(symbols),
    prices: () => (answers.length === 0 ? [1, 2] : answers.shift()) as number[],
    ...source,
  };
  const counts = new Float64Array(SourceCount.count);
  const values = Float64Array.from(SYMBOLS, ({ price }) => price);
  const problems: (string | undefined)[] = [];
  const prices = sourcedPrices({
    symbols: SYMBOLS,
    values,
    intervalMs,
    open: typeof source === 'function' ? source : () => controlled,
    counts,
    onProblem: (problem) => problems.push(problem),
  });
  const step = async (due = 0) => {
    await prices.step(due);
    return [...values];
  };
  return { ...prices, step, answers, started, problems, counts: () => [...counts] };
}

const SAME = SYMBOLS.map(({ price }) => price);

function stopTime(): { now: number } {
  const time = { now: 0 };
  mock.method(performance, 'now', () => time.now);
  return time;
}

describe('prices of a source', () => {
  it('are those of its last answer, rounded to the decimals of each symbol, and the last ones of invalid ones only', async () => {
    const { step, answers, counts, problems } = create();
    expect(await step()).to.deep.equal([1, 2]);
    answers.push(Float64Array.of(10.126, 20.12346));
    expect(await step()).to.deep.equal([10.13, 20.1235]);
    expect([counts(), problems]).to.deep.equal([[0, 0, 0], []]);
    answers.push([Number.NaN, 30]);
    expect(await step()).to.deep.equal([10.13, 30]);
  });

  it('are asked for with the time of the tick and the last prices, after one start', async () => {
    const asked: unknown[] = [];
    const { pause, step, started } = create({
      prices(due, last) {
        asked.push(due, ...last);
        return [3, 4];
      },
    });
    for (const due of [1000, 2000]) await step(due);
    expect(asked).to.deep.equal([1000, 10, 20, 2000, 3, 4]);
    expect(started).to.deep.equal([SYMBOLS]);
    pause();
    await step();
    expect(started[1]?.map(({ price }) => price)).to.deep.equal([3, 4]);
    expect(started).to.have.length(2);
  });

  it('are kept if an answer is none, invalid, or fails, until the next answer', async () => {
    const refused = (got: string) => [`prices() returned ${got} for 2 symbols`, 0, 0, 2];
    const broken = Object.defineProperty([10, 2], 1, { get: () => thrower(new Error('no price')) });
    const thrown = [
      [new Error('no\nconnection'), 'no connection'],
      [null, 'null'],
      ['x'.repeat(1e6), 'x'.repeat(200 - 'prices() failed: '.length)],
    ];
    for (const [answer, problem, ...counted] of [
      ...[Number.NaN, Number.POSITIVE_INFINITY, 0, 0.004, 1e307, -1, '1', 1n, undefined].map((value) => {
        const got = typeof value === 'number' ? value : 'no number';
        return [() => [value, 20], `prices() returned ${got} for A-USD`, 0, 0, 1];
      }),
      [() => [1], ...refused('1 prices')],
      [() => [1, 2, 3], ...refused('3 prices')],
      ...[undefined, null, { 0: 1, 1: 2, length: 2 }, '12'].map((each) => [() => each, ...refused('no array')]),
      [() => broken, 'prices() failed: no price', 1, 0, 0],
      ...thrown.flatMap(([error, reason]) =>
        [() => thrower(error), async () => thrower(error)].map((fail) => [fail, `prices() failed: ${reason}`, 1, 0, 0]),
      ),
    ] as [() => number[], string, ...number[]][]) {
      const { step, counts, problems } = create({ prices: () => (problems.length === 0 ? answer() : [6, 7]) });
      expect([await step(), counts(), problems]).to.deep.equal([SAME, counted, [problem]]);
      expect([await step(), problems[1]]).to.deep.equal([[6, 7], undefined]);
    }
  });

  it('of an asynchronous answer are in the same tick if they are there at once, otherwise in the next', async () => {
    const { step, answers } = create();
    answers.push(Promise.resolve([1, 2]));
    expect(await step()).to.deep.equal([1, 2]);
    const later = Promise.withResolvers<number[]>();
    answers.push(later.promise, [5, 6]);
    expect(await step()).to.deep.equal([1, 2]);
    later.resolve([3, 4]);
    await later.promise;
    answers.unshift(Promise.withResolvers().promise);
    expect(await step()).to.deep.equal([3, 4]);
  });

  it('are kept while an answer is missing, which is counted for each tick; a late answer ends that', async () => {
    const time = stopTime();
    const answer = Promise.withResolvers<number[]>();
    let calls = 0;
    const { step, counts, problems } = create({ prices: () => (++calls === 1 ? answer.promise : [7, 8]) });
    for (; time.now < 3000; time.now += 1000) await step();
    expect([await step(), calls, counts()]).to.deep.equal([SAME, 1, [0, 3, 0]]);
    expect(problems).to.deep.equal(['prices() takes longer than one interval of 1000 ms']);
    answer.resolve([3, 4]);
    await answer.promise;
    expect([await step(), calls, problems.at(-1)]).to.deep.equal([[7, 8], 2, undefined]);
  });

  for (const [intervalMs, limitMs] of Object.entries({ 1000: 10_000, 6000: 12_000 }))
    it(`are asked for again if an answer is missing for ten seconds or two intervals, and its late arrival has no effect: ${limitMs} ms`, async () => {
      const time = stopTime();
      const answer = Promise.withResolvers<number[]>();
      const never = Promise.withResolvers<number[]>().promise;
      const asked = [answer.promise, [7, 8], never];
      const { step } = create({ prices: () => asked.shift() as number[] }, Number(intervalMs));
      for (; time.now < limitMs; time.now += 1000) await step();
      expect(asked).to.have.length(2);
      await step();
      answer.resolve([1, 1]);
      await answer.promise;
      expect([await step(), asked]).to.deep.equal([[7, 8], []]);
    });

  it('that arrive after another node has taken over have no effect', async () => {
    const slow = Promise.withResolvers<number[]>();
    const { pause, step, answers, problems } = create();
    answers.push(slow.promise, Promise.withResolvers().promise);
    await step();
    pause();
    slow.resolve([3, 4]);
    await slow.promise;
    expect([await step(), problems]).to.deep.equal([[10, 20], []]);
  });

  it('count no stall while the source has been loading for less than half an interval', async () => {
    const time = stopTime();
    const loaded = Promise.withResolvers<PriceSource>();
    const { open, step, counts, problems } = create(() => loaded.promise);
    void open();
    time.now = 499;
    await step();
    expect([counts(), problems]).to.deep.equal([[0, 0, 0], []]);
    time.now = 1499;
    await step();
    expect([counts(), problems]).to.deep.equal([[0, 1, 0], ['loading takes longer than one interval of 1000 ms']]);
    loaded.resolve({ prices: () => [1, 2] });
    await loaded.promise;
    expect([await step(), problems.at(-1)]).to.deep.equal([[1, 2], undefined]);
  });

  it('come once the source can be opened and started, which is tried once a second', async () => {
    const time = stopTime();
    let opened = 0;
    let starts = 0;
    const start = () => (++starts === 1 ? Promise.reject(new Error('not yet')) : undefined);
    const source: PriceSource = { start, prices: () => [1, 2] };
    const { open, step, problems } = create(() => (++opened === 1 ? thrower(new Error('no file')) : source));
    await open();
    expect(problems).to.deep.equal(['loading failed: no file']);
    await step();
    expect(opened).to.equal(1);
    time.now = 1000;
    await step();
    expect([opened, starts, problems.at(-1)]).to.deep.equal([2, 1, 'start() failed: not yet']);
    await step();
    expect(starts).to.equal(1);
    time.now = 2000;
    expect([await step(), starts, problems.at(-1)]).to.deep.equal([[1, 2], 2, undefined]);
  });

  it('take over the first of the errors that the source raises outside of a call until its next answer', async () => {
    const { fail, step, counts, problems } = create();
    for (const text of ['first', 'second']) fail(new Error(text));
    await step();
    expect([...problems, ...counts()]).to.deep.equal(['the source failed: first', undefined, 2, 0, 0]);
  });
});

function thrower(thrown: unknown): never {
  throw thrown;
}

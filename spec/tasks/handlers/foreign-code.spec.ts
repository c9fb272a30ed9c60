import { expect } from 'chai';
import type { Outcome } from '../../../main/tasks/pool/run.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { returned, startHandlers } from './handling.ts';

type Started = Awaited<ReturnType<typeof startHandlers>>;

const common = "ok: () => 'ok', wait: () => pause(20),";

/** Runs a handler between two good ones. Asserts that those are completed, and that the pool continues. */
async function runBetween({ run }: Started, action: string): Promise<Outcome> {
  const [before, outcome, after] = await Promise.all([run('ok'), run(action), run('ok')]);
  expect([before, after, await run('ok')]).to.deep.equal([returned, returned, returned]);
  return outcome;
}

const toJson = (why: string) => new RegExp(`^JSON cannot hold the output: ${why}$`);

/** Handlers, with the end of their tasks and its reason. A task that `failed` may be retried. */
const cases: [what: string, end: 'crashed' | 'failed' | 'failed for good', reason: RegExp, handler: string][] = [
  ['never returns', 'crashed', /^took longer than 30 ms$/, '{ timeoutMs: 30, handler: () => new Promise(() => {}) }'],
  ['blocks its thread', 'crashed', /^took longer than 30 ms$/, '{ timeoutMs: 30, handler() { for (;;); } }'],
  ['needs too much memory', 'crashed', /memory limit/, '() => { for (const a = []; ; ) a.push(Array(1e4).fill({})); }'],
  ['calls process.exit', 'failed', /^process.exit\(0\) was called in a task thread$/, '() => process.exit(0)'],
  ['throws null', 'failed', /^null$/, '() => { throw null; }'],
  ['throws a huge message', 'failed for good', /^x{1000}$/, `() => { throw new PermanentError('x'.repeat(1e7)); }`],
  ['returns a circular object', 'failed for good', toJson('Conv.* circ.*'), '() => { const a = {}; return a.a = a; }'],
  ['returns a BigInt', 'failed for good', toJson('.*BigInt.*'), '() => 1n'],
  ['returns a function', 'failed for good', toJson('it is a function'), '() => () => {}'],
  ['returns a toJSON that throws', 'failed for good', toJson('null'), '() => ({ toJSON() { throw null; } })'],
  ['returns 1.2 MB', 'failed for good', /^the output has more than 1048576 bytes$/, `() => 'ü'.repeat(600_000)`],
];

describe('a handler disturbs no other task', () => {
  const shared = onceForSuite(() => {
    const handlers = cases.map(([action, , , handler]) => `'${action}': ${handler},`);
    return startHandlers(`${common} ${handlers.join('\n')}`, { TASK_MEMORY_MB: '32' });
  });

  for (const [action, end, reason] of cases) {
    it(`if it ${action}`, async () => {
      const outcome = await runBetween(shared(), action);
      const expected = end === 'crashed' ? { ended: end } : { ended: 'raised', permanent: end === 'failed for good' };
      expect(outcome).to.include(expected);
      expect(outcome).to.have.property('reason').that.matches(reason);
    });
  }

  for (const [what, bad, message] of [
    [
      'calls the process.exit that the import of the module has saved',
      '((exit) => () => { setTimeout(() => exit(1), 1); })(process.exit)',
      'process.exit(1) was called in a task thread',
    ],
    ['throws', '() => { setInterval(() => { throw new TypeError("left behind"); }, 1); }', 'left behind'],
    ['rejects', '() => { setImmediate(() => Promise.reject(null)); }', 'null'],
  ] as const) {
    it(`if a timer that it left behind ${what} while other tasks run`, async () => {
      const started = await startHandlers(`bad: ${bad}, ${common}`);
      expect(await runBetween(started, 'bad')).to.deep.equal(returned);
      expect(await started.run('wait')).to.deep.equal(returned);
      const line = await started.logged(({ err }) => String(err).includes(message));
      expect(line).to.include({ level: 50, origin: what === 'rejects' ? 'unhandledRejection' : 'uncaughtException' });
    });
  }

  it('if it leaves a timer behind that blocks its idle thread, and the next task is cancelled', async () => {
    const { run, cancel, told, logged } = await startHandlers(`
      bad() { setImmediate(() => { console.log('blocked'); for (;;); }); },
      ok: () => 'ok',
    `);
    expect(await run('bad')).to.deep.equal(returned);
    await logged(({ msg }) => msg === 'blocked');
    const outcome = run('ok');
    expect(cancel()).to.equal(false);
    expect(await outcome).to.deep.equal({ ended: 'cancelled' });
    expect(await run('ok')).to.deep.equal(returned);
    expect(told).to.deep.equal(['1 started', '1 ended', '2 ended', '3 started', '3 ended']);
  });

  it('if it reports megabytes of progress', async () => {
    // The outcome may arrive before a report that was sent just before it.
    const started = await startHandlers(`${common} async bad(_, { progress }) {
      const note = 'x'.repeat(1e6);
      for (let step = 0; step < 1e4; step++) progress(step, note);
      await pause(150);
    }`);
    expect(await runBetween(started, 'bad')).to.deep.equal(returned);
    expect(started.reports.length).to.be.within(1, 100);
    for (const { note } of started.reports) expect(note).to.have.length(200);
  });

  it('if it writes megabytes of log lines', async () => {
    const started = await startHandlers(`${common} bad(_, { log }) {
      const text = 'x'.repeat(1e6);
      for (let line = 0; line < 300; line++) {
        log.info(text, { text });
        console.log(text);
        process.stderr.write(text);
      }
    }`);
    expect(await runBetween(started, 'bad')).to.deep.equal(returned);
    const { suppressed } = await started.logged(({ msg }) => msg === 'log lines of a handlers module were left out');
    expect(suppressed).to.be.above(100);
    for (const line of started.lines) expect(JSON.stringify(line).length).to.be.below(8 * 1024 + 200);
  });

  it('if it logs what JSON cannot hold', async () => {
    const started = await startHandlers(`${common} bad(_, { log }) {
      const circular = {};
      log.info('circular', Object.assign(circular, { circular }));
      log.info('hostile', { get a() { throw new Error('no'); } });
      log.info();
      log.info(Symbol('odd'), 5);
    }`);
    expect(await runBetween(started, 'bad')).to.deep.equal(returned);
    for (const text of ['circular', 'hostile']) {
      const line = await started.logged(({ msg }) => msg === text);
      expect(line).to.include({ action: 'bad', omitted: 'the fields of this line' });
    }
  });

  it('if it sends messages of its own to the main thread', async () => {
    const started = await startHandlers(`${common} async bad() {
      const { parentPort } = await import('node:worker_threads');
      const post = (...messages) => messages.forEach((message) => parentPort.postMessage(message));
      post(null, 5, 'text', {}, { logLine: null }, { logLine: { level: 'none', fields: '{' } });
      for (const acknowledged of [null, 'other']) post({ run: 1e9, acknowledged });
      post({ run: 2, progress: null });
    }`);
    expect(await runBetween(started, 'bad')).to.deep.equal(returned);
    expect(started.reports).to.deep.equal([]);
    const invalid = 'a task thread sent an invalid message';
    await started.logged(({ msg }) => msg === invalid);
    expect(new Set(started.lines.map(({ msg }) => msg))).to.deep.equal(new Set([invalid]));
  });
});

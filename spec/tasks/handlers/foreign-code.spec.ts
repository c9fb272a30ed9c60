import { expect } from 'chai';
import type { Outcome } from '../../../main/tasks/pool/task-pool.ts';
import { failed, failedForGood, returned, startHandlers } from './handling.ts';

/** Runs a handler between two good ones. Asserts that those are completed, and that the pool works on. */
async function runBetween(handlers: string, env: Record<string, string> = {}) {
  const started = await startHandlers(`ok: () => 'ok', ${handlers}`, env);
  const [before, outcome, after] = await Promise.all([started.run('ok'), started.run('bad'), started.run('ok')]);
  expect([before, after]).to.deep.equal([returned, returned]);
  expect(await started.run('ok')).to.deep.equal(returned);
  return { ...started, outcome: outcome as Outcome };
}

describe('foreign code hurts no other task', () => {
  it('if it never returns', async () => {
    const { outcome } = await runBetween('bad: () => new Promise(() => {})', { TASK_TIMEOUT_MS: '30' });
    expect(outcome).to.deep.equal({ ended: 'crashed', reason: 'took longer than 30 ms' });
  });

  it('if it blocks its thread', async () => {
    const { outcome } = await runBetween('bad() { for (;;); }', { TASK_TIMEOUT_MS: '30' });
    expect(outcome).to.deep.equal({ ended: 'crashed', reason: 'took longer than 30 ms' });
  });

  it('if it calls process.exit', async () => {
    const { outcome } = await runBetween('bad() { process.exit(0); }');
    expect(outcome).to.deep.equal(failed('process.exit(0) was called in a task thread'));
  });

  const exits = {
    'process.exit': 'bad() { setTimeout(() => process.exit(1), 1); }',
    'the process.exit that the import of the module has saved':
      'bad: ((exit) => () => { setTimeout(() => exit(1), 1); })(process.exit)',
  };
  for (const [what, bad] of Object.entries(exits)) {
    it(`if a timer that it left behind calls ${what} while another task runs`, async () => {
      const { run, output, logged } = await startHandlers(`
        ${bad},
        slow: () => new Promise((resolve) => setTimeout(resolve, 50, 'unhurt')),
      `);
      expect(await run('bad')).to.deep.equal(returned);
      expect(await run('slow')).to.deep.equal(returned);
      expect(output()).to.equal('unhurt');
      await logged(({ err }) => String(err) === 'process.exit(1) was called in a task thread');
    });
  }

  it('if it needs more memory than it may', async () => {
    const { outcome } = await runBetween(
      'bad() { for (const meals = []; ; ) meals.push(new Array(10_000).fill({})); }',
      { TASK_MEMORY_MB: '32' },
    );
    expect(outcome).to.include({ ended: 'crashed' }).and.to.have.property('reason').that.includes('memory limit');
  });

  const thrown: Record<string, [code: string, outcome: Outcome]> = {
    null: ['null', failed('null')],
    undefined: ['undefined', failed('undefined')],
    text: [`'text'`, failed('text')],
    symbol: [`Symbol('odd')`, failed('Symbol(odd)')],
    'a getter that throws': [
      `Object.defineProperty(new Error(), 'message', { get() { throw new Error('no'); } })`,
      failed('an error that cannot be read'),
    ],
    'a name that throws': [
      `Object.defineProperty(new Error('nameless'), 'name', { get() { throw new Error('no'); } })`,
      failed('nameless'),
    ],
    'a circular error': [
      `(() => { const error = new Error('circular'); error.cause = error; return error; })()`,
      failed('circular'),
    ],
    'a huge message': [`new PermanentError('x'.repeat(1e7))`, failedForGood('x'.repeat(1000))],
    'a proxy that throws': [
      `new Proxy({}, { get() { throw new Error('no'); }, getPrototypeOf() { throw new Error('no'); } })`,
      failed('an error that cannot be read'),
    ],
  };
  for (const [what, [code, expected]] of Object.entries(thrown)) {
    it(`if it throws ${what}`, async () => {
      const { outcome } = await runBetween(`bad() { throw ${code}; }`);
      expect(outcome).to.deep.equal(expected);
    });
  }

  const outputs: Record<string, [code: string, reason: RegExp]> = {
    'a circular object': [
      '(() => { const a = {}; a.a = a; return a; })()',
      /^JSON cannot hold the output: Converting circular/,
    ],
    'a BigInt': ['1n', /^JSON cannot hold the output: .*BigInt/],
    'a function': ['() => {}', /^JSON cannot hold the output: it is a function$/],
    'a toJSON that throws': ['({ toJSON() { throw null; } })', /^JSON cannot hold the output: null$/],
    'more bytes than a body may have': [`'ü'.repeat(600_000)`, /^the output has more than 1048576 bytes$/],
  };
  for (const [what, [code, reason]] of Object.entries(outputs)) {
    it(`if it returns ${what}`, async () => {
      const { outcome } = await runBetween(`bad: () => (${code})`);
      expect(outcome).to.include({ ended: 'raised', permanent: true });
      expect((outcome as { reason: string }).reason)
        .to.match(reason)
        .and.not.include('\n');
    });
  }

  it('if it writes megabytes of progress', async () => {
    // The outcome may arrive before a report that was sent just before it.
    const { outcome, reports } = await runBetween(`async bad(_, { progress }) {
      const note = 'x'.repeat(1e6);
      for (let step = 0; step < 1e4; step++) progress(step, note);
      await new Promise((resolve) => setTimeout(resolve, 150));
    }`);
    expect(outcome).to.deep.equal(returned);
    expect(reports.length).to.be.within(1, 100);
    for (const { note } of reports) expect(note).to.have.length(200);
  });

  it('if it writes megabytes of log lines', async () => {
    const { outcome, lines, logged } = await runBetween(`
      bad(_, { log }) {
        const text = 'x'.repeat(1e6);
        for (let line = 0; line < 1000; line++) {
          log.info(text, { text });
          console.log(text);
          process.stderr.write(text);
        }
      },
    `);
    expect(outcome).to.deep.equal(returned);
    const { suppressed } = await logged(({ msg }) => msg === 'log lines of a handlers module were left out');
    const written = lines.filter(({ msg }) => msg.startsWith('xxx'));
    expect(written.length).to.be.within(1, 300);
    for (const line of written) expect(JSON.stringify(line).length).to.be.below(8 * 1024 + 200);
    expect(suppressed).to.be.above(1000);
  });

  it('if it logs what JSON cannot hold', async () => {
    const { outcome, logged } = await runBetween(`bad(_, { log }) {
      const circular = {};
      circular.circular = circular;
      log.info('circular', circular);
      log.info('hostile', { get a() { throw new Error('no'); } });
      log.info();
      log.info(Symbol('odd'), 5);
    }`);
    expect(outcome).to.deep.equal(returned);
    for (const text of ['circular', 'hostile']) {
      const line = await logged(({ msg }) => msg === text);
      expect(line).to.include({ action: 'bad', omitted: 'the fields of this line' });
    }
  });

  it('if it leaves timers that outlive it, and throw', async () => {
    const { outcome, run, logged } = await runBetween(`
      bad() { setInterval(() => { throw new TypeError('left behind'); }, 1); },
      wait: () => new Promise((resolve) => setTimeout(resolve, 20)),
    `);
    expect(outcome).to.deep.equal(returned);
    expect(await run('wait')).to.deep.equal(returned);
    const line = await logged(({ err }) => err === 'left behind');
    expect(line).to.include({ level: 50, origin: 'uncaughtException' });
  });

  it('if it leaves a timer that blocks its idle thread, and the next task is cancelled', async () => {
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

  it('if it rejects later, with no one to catch', async () => {
    const { outcome, run, logged } = await runBetween(`
      bad() { setImmediate(() => Promise.reject(null)); },
      wait: () => new Promise((resolve) => setTimeout(resolve, 20)),
    `);
    expect(outcome).to.deep.equal(returned);
    expect(await run('wait')).to.deep.equal(returned);
    expect(await logged(({ origin }) => origin === 'unhandledRejection')).to.include({ level: 50 });
  });

  it('if it uses its task when it has ended', async () => {
    const { outcome, run, reports } = await runBetween(`
      bad(_, task) { setTimeout(() => { task.progress(1); task.ack(); void task.signal; }, 1); },
      wait: () => new Promise((resolve) => setTimeout(resolve, 20)),
    `);
    expect(outcome).to.deep.equal(returned);
    await run('wait');
    expect(reports).to.deep.equal([]);
  });

  it('if it sends anything to the main thread', async () => {
    const { outcome, lines, logged, reports } = await runBetween(`
      async bad() {
        const { parentPort } = await import('node:worker_threads');
        for (const message of [null, 5, 'text', {}, { logLine: null }, { logLine: { level: 'none', fields: '{' } }]) {
          parentPort.postMessage(message);
        }
        for (const acknowledged of [null, 'other']) parentPort.postMessage({ run: 1e9, acknowledged });
        const text = 'x'.repeat(1e4);
        for (const level of ['fatal', 'child', 'info']) parentPort.postMessage({ logLine: { level, message: text } });
        const note = 'x'.repeat(201);
        for (const progress of [null, 1, {}, { fraction: -1 }, { fraction: '1' }, { fraction: NaN }, { fraction: 1, note }]) {
          parentPort.postMessage({ run: 2, progress });
        }
      }
    `);
    expect(outcome).to.deep.equal(returned);
    expect(reports).to.deep.equal([]);
    await logged(({ msg }) => msg === 'a task thread sent an invalid message');
    expect(new Set(lines.map(({ msg }) => msg))).to.deep.equal(new Set(['a task thread sent an invalid message']));
  });
});

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { RepeatLimit } from '../../workers/shared/repeat-limit.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';

const json = { level: 'info', format: 'json' };
const pretty = { level: 'info', format: 'pretty' };

/** Returns the arguments of a Node that runs `code` with a log named `log`. */
function script(options: typeof json, code: string): string[] {
  const module = new URL('../../main/log/log.ts', import.meta.url).href;
  const source = `
    import { createLog } from ${JSON.stringify(module)};
    const output = await createLog(${JSON.stringify(options)});
    const { log } = output;
    ${code}`;
  return ['--input-type=module', '--eval', source];
}

async function logBy(options: typeof json, code: string) {
  const { stdout, stderr, code: exitCode } = await run(process.execPath, script(options, code));
  return { lines: stdout.split('\n').filter((line) => line !== ''), errors: stderr, exitCode };
}

describe('the log', () => {
  it('has one JSON object per line with level, time, fields, message and the error with its cause', async () => {
    const before = Date.now();
    const failure = "new Error('outer', { cause: new Error('inner') })";
    const code = `log.info({ port: 1, text: 'two\\nlines' }, 'listening'); log.error({ err: ${failure} }, 'failed');`;
    const { lines, errors } = await logBy(json, code);
    expect([lines.length, errors]).to.deep.equal([2, '']);
    const [first, second] = lines.map((line) => JSON.parse(line));
    expect(first).to.deep.equal({ level: 30, time: first.time, port: 1, text: 'two\nlines', msg: 'listening' });
    expect(Date.parse(first.time)).to.be.within(before, Date.now());
    expect(new Date(first.time).toISOString()).to.equal(first.time);
    expect(second).to.include({ level: 50, msg: 'failed' });
    expect(second.err.message).to.match(/^outer/);
    expect(second.err.stack).to.include('inner');
  });

  it('omits lines below its level', async () => {
    const all = "for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal']) log[level](level);";
    for (const [level, count] of Object.entries({ trace: 6, info: 4, silent: 0 }))
      expect((await logBy({ ...json, level }, all)).lines, level).to.have.lengthOf(count);
  });

  for (const options of [json, pretty]) {
    it(`redacts every token, and is complete when the process ends: ${options.format}`, async () => {
      const code = `const token = 'v3.local.${'x-Y_9'.repeat(40)}';
        log.info({ port: 1 }, 'listening');
        log.info({ url: '/ws?token=' + token, err: new Error('refused ' + token), headers: [token, token] }, token);
        for (let n = 1; n <= 1000; n++) log.info({ n }, 'line ' + n);
        await output.end();
        process.exit(3);`;
      const { lines, exitCode } = await logBy(options, code);
      expect(exitCode).to.equal(3);
      const all = lines.join('\n');
      expect(all).to.include('/ws?token=v3.local.[redacted]').and.to.not.include('x-Y_9');
      expect(lines.filter((line) => line.includes('line '))).to.have.lengthOf(1000);
      expect(all).to.include('line 1000');
      if (options === pretty)
        expect(all).to.match(/^\S*\[\d\d:\d\d:\d\d\.\d+\S*\] .*INFO.*listening\S*\n.*port.*: .*1/);
    });
  }

  it('does not keep the process from its end if the reader of a socket stalls', async () => {
    const code = "for (let n = 0; n < 2000; n++) log.info('x'.repeat(1000)); await output.end(); process.exit(3);";
    const child = spawn(process.execPath, script(json, code), { stdio: ['ignore', 'pipe', 'inherit'] });
    afterTest(() => child.kill('SIGKILL'));
    expect(await once(child, 'exit')).to.deep.equal([3, null]);
  });

  it('shares its file with other writers', async () => {
    const path = join(await temporaryFolder(), 'log');
    const file = openSync(path, 'w');
    afterTest(() => closeSync(file));
    const code = "log.info('first'); await output.end(); console.error('second');";
    spawnSync(process.execPath, script(json, code), { stdio: ['ignore', file, file] });
    writeSync(file, 'third');
    expect(readFileSync(path, 'utf8')).to.match(/^\{.*"first"\}\nsecond\nthird$/);
  });

  it('omits repeated warnings and errors, no other lines, and reports at its end how many it omitted', async () => {
    const code = `
      for (let n = 0; n < 1000; n++) log.warn({ n }, 'task failed');
      log.warn({ failure: 'crash' }, 'task failed');
      for (let n = 0; n < 100; n++) log.error({ err: new TypeError('no ' + n) }, 'internal error');
      log.error({ err: new RangeError('other') }, 'internal error');
      log.error({ err: Object.assign(new TypeError('coded'), { code: 'EIO' }) }, 'internal error');
      for (let n = 0; n < 50; n++) { log.info('fact'); log.fatal('end'); }
      console.error(output.metrics.suppressed());
      await output.end();`;
    const { lines, errors } = await logBy(json, code);
    const parsed = lines.map((line) => JSON.parse(line));
    const counts = { 'task failed': 20 + 1, 'internal error': 20 + 1 + 1, fact: 50, end: 50 };
    for (const [msg, count] of Object.entries(counts))
      expect(parsed.filter((line) => line.msg === msg)).to.have.length(count);
    expect(Number(errors)).to.equal(980 + 80);
    const reports = parsed.filter(({ suppressed }) => suppressed !== undefined);
    expect(reports.map(({ time: _, ...fields }) => fields)).to.deep.equal([
      { level: 40, suppressed: 980, repeated: 'task failed', msg: 'repeated log lines were left out' },
      { level: 50, suppressed: 80, repeated: 'internal error', msg: 'repeated log lines were left out' },
    ]);
  });
});

describe('the limit of repeated lines', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));

  const admitted = (limit: RepeatLimit, kind: string, lines: number, report: (suppressed: number) => void = () => {}) =>
    Array.from({ length: lines }, () => limit.admit(kind, report)).filter(Boolean).length;

  it('admits 20 lines of each kind within 10 seconds, and reports the number of the others', () => {
    const limit = new RepeatLimit();
    const reports: number[] = [];
    const report = (suppressed: number) => reports.push(suppressed);
    expect(admitted(limit, 'a', 25, report)).to.equal(20);
    expect(admitted(limit, 'b', 20, report)).to.equal(20);
    mock.timers.tick(9_999);
    expect(admitted(limit, 'a', 2, report)).to.equal(0);
    expect(reports).to.deep.equal([]);
    mock.timers.tick(1);
    expect(reports).to.deep.equal([7]);
    expect(admitted(limit, 'a', 25, report)).to.equal(20);
    expect(limit.suppressed).to.equal(12);
    const now = performance.now() + 10_000;
    mock.method(performance, 'now', () => now);
    expect(admitted(limit, 'a', 25), 'although the timer is late').to.equal(20);
  });

  it('treats all kinds beyond the first 255 as one', () => {
    const limit = new RepeatLimit();
    const kinds = Array.from({ length: 1000 }, (_, index) => `kind ${index}`);
    expect(kinds.filter((kind) => limit.admit(kind, () => {}))).to.have.length(255 + 20);
    expect(admitted(limit, 'kind 0', 5)).to.equal(5);
  });
});

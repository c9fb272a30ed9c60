import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { mock } from 'node:test';
import { expect } from 'chai';
import { RepeatLimit } from '../../main/log/log.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

interface Options {
  level: string;
  format: string;
}

/** Returns the source of a module that runs `code` with a log named `log`. */
function source(options: Options, code: string): string {
  const module = new URL('../../main/log/log.ts', import.meta.url).href;
  return `
    import { createLog } from ${JSON.stringify(module)};
    const output = await createLog(${JSON.stringify(options)});
    const { log } = output;
    ${code}`;
}

/** Runs `code` in a separate process. */
function start(options: Options, code: string): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source(options, code)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  afterTest(() => child.kill('SIGKILL'));
  return child;
}

async function run(options: Options, code: string) {
  const child = start(options, code);
  if (child.stdout === null || child.stderr === null) throw new Error('no output');
  const [output, errors, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { lines: output.split('\n').filter((line) => line !== ''), errors, exitCode };
}

const json = { level: 'info', format: 'json' };

describe('the log', () => {
  it('is a JSON object a line, with level, time, fields and message', async () => {
    const before = Date.now();
    const { lines, errors } = await run(
      json,
      "log.info({ port: 1, text: 'two\\nlines' }, 'listening'); log.warn('x');",
    );
    expect(errors).to.equal('');
    const [first, second] = lines.map((line) => JSON.parse(line));
    expect(lines).to.have.lengthOf(2);
    expect(first).to.have.all.keys('level', 'time', 'port', 'text', 'msg');
    expect(first).to.include({ level: 30, port: 1, text: 'two\nlines', msg: 'listening' });
    expect(Date.parse(first.time)).to.be.within(before, Date.now());
    expect(new Date(first.time).toISOString()).to.equal(first.time);
    expect(second).to.include({ level: 40, msg: 'x' });
  });

  it('shows an error with its cause', async () => {
    const { lines } = await run(
      json,
      "log.error({ err: new Error('outer', { cause: new Error('inner') }) }, 'failed');",
    );
    const { err, msg } = JSON.parse(lines[0] ?? '');
    expect(msg).to.equal('failed');
    expect(err.message).to.match(/^outer/);
    expect(err.stack).to.include('inner');
  });

  it('leaves out what is below its level', async () => {
    const all = "for (const level of ['trace', 'debug', 'info', 'warn', 'error', 'fatal']) log[level](level);";
    for (const [level, count] of [
      ['trace', 6],
      ['info', 4],
      ['fatal', 1],
      ['silent', 0],
    ] as const)
      for (const format of ['json', 'pretty'])
        expect((await run({ level, format }, all)).lines, `${level} ${format}`).to.have.lengthOf(count);
  });

  it('is text for people when it is pretty', async () => {
    const { lines } = await run({ level: 'info', format: 'pretty' }, "log.info({ port: 1 }, 'listening');");
    expect(lines[0]).to.match(/^\S*\[\d\d:\d\d:\d\d\.\d+\S*\] .*INFO.*listening/);
    expect(lines.join('\n')).to.match(/port.*: .*1/);
  });

  for (const format of ['json', 'pretty']) {
    it(`redacts every token in a line: ${format}`, async () => {
      const token = `v3.local.${'x-Y_9'.repeat(40)}`;
      const code = `const token = '${token}';
        log.info({ url: '/ws?token=' + token, err: new Error('refused ' + token), headers: [token, token] }, token);`;
      const { lines } = await run({ level: 'info', format }, code);
      const output = lines.join('\n');
      expect(output).to.not.include('x-Y_9');
      expect(output).to.include('/ws?token=v3.local.[redacted]');
    });
  }

  it('is written out at the end, down to the last line before the process ends', async () => {
    for (const format of ['json', 'pretty']) {
      const code = "for (let n = 1; n <= 1000; n++) log.info({ n }, 'line ' + n); await output.end(); process.exit(3);";
      const { lines, exitCode } = await run({ level: 'info', format }, code);
      expect(exitCode).to.equal(3);
      expect(lines.filter((line) => line.includes('line '))).to.have.lengthOf(1000);
      expect(lines.join()).to.include('line 1000');
    }
  });

  it('does not end the process when standard output is gone', async () => {
    const child = start(
      json,
      `
      process.on('message', () => {});
      setTimeout(async () => {
        log.info('into the void');
        await output.end();
        console.error('still here');
        process.exit(0);
      }, 0);
    `,
    );
    child.stdout?.destroy();
    if (child.stderr === null) throw new Error('no output');
    const [errors, [code]] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect(errors.trim()).to.equal('still here');
    expect(code).to.equal(0);
  });

  it('shares its file with what else is written there', async () => {
    const path = join(await temporaryFolder(), 'log');
    const file = openSync(path, 'w');
    afterTest(() => closeSync(file));
    const code = "log.info('first'); await output.end(); console.error('second');";
    const child = spawn(process.execPath, ['--input-type=module', '--eval', source(json, code)], {
      stdio: ['ignore', file, file],
    });
    await once(child, 'exit');
    writeSync(file, 'third');
    expect(readFileSync(path, 'utf8')).to.match(/^\{.*"first"\}\nsecond\nthird$/);
  });

  it('opens a pipe a second time, and closes that descriptor at its end', async () => {
    const code = `
      const { readdirSync, readlinkSync } = await import('node:fs');
      const link = (fd) => { try { return readlinkSync('/proc/self/fd/' + fd); } catch { return ''; } };
      const count = () => readdirSync('/proc/self/fd').filter((fd) => link(fd) === link(1)).length;
      const opened = count();
      log.info('one');
      await output.end();
      console.error(opened, count());`;
    const child = spawn('sh', [
      '-c',
      '"$0" --input-type=module --eval "$1" | cat',
      process.execPath,
      source(json, code),
    ]);
    const [errors] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect(errors).to.equal('2 1\n');
  });

  describe('of repeated warnings and errors', () => {
    const count = (lines: string[], msg: string) => lines.filter((line) => JSON.parse(line).msg === msg).length;

    it('has the first ones of each kind, and at the end how many were left out', async () => {
      const code = `
        for (let n = 0; n < 1000; n++) log.warn({ n }, 'task failed');
        log.warn({ failure: 'crash' }, 'task failed');
        for (let n = 0; n < 100; n++) log.error({ err: new TypeError('no ' + n) }, 'internal error');
        log.error({ err: new RangeError('other') }, 'internal error');
        log.error({ err: Object.assign(new TypeError('coded'), { code: 'EIO' }) }, 'internal error');
        console.error(output.metrics.suppressed());
        await output.end();`;
      const { lines, errors } = await run(json, code);
      expect(count(lines, 'task failed')).to.equal(20 + 1);
      expect(count(lines, 'internal error')).to.equal(20 + 1 + 1);
      expect(Number(errors)).to.equal(980 + 80);
      const reports = lines.map((line) => JSON.parse(line)).filter(({ suppressed }) => suppressed !== undefined);
      expect(reports.map(({ time: _, ...fields }) => fields)).to.deep.equal([
        { level: 40, suppressed: 980, repeated: 'task failed', msg: 'repeated log lines were left out' },
        { level: 50, suppressed: 80, repeated: 'internal error', msg: 'repeated log lines were left out' },
      ]);
    });

    it('leaves out no lines of other levels', async () => {
      const code = "for (let n = 0; n < 50; n++) { log.info('fact'); log.fatal('end'); } await output.end();";
      const { lines } = await run(json, code);
      expect([count(lines, 'fact'), count(lines, 'end')]).to.deep.equal([50, 50]);
    });
  });

  describe('whose reader has stalled', () => {
    const flood = "const line = 'x'.repeat(64 * 1024); for (let n = 0; n < 1000; n++) log.info(line);";

    it('drops what there is no room for, and holds nothing up', async () => {
      const code = `${flood} console.error(process.memoryUsage().rss); setInterval(() => {}, 1000);`;
      const child = start(json, code);
      const [rss] = await once(child.stderr?.setEncoding('utf8') ?? child, 'data');
      // The first process has logged 64 MB; this one logs nothing.
      const idle = start(json, 'console.error(process.memoryUsage().rss); setInterval(() => {}, 1000);');
      const [idleRss] = await once(idle.stderr?.setEncoding('utf8') ?? idle, 'data');
      expect(Number(rss) - Number(idleRss)).to.be.lessThan(40 * 1024 * 1024);
    });

    it('lets the process end', async () => {
      const child = start(json, `${flood} console.error('ending'); await output.end(); process.exit(0);`);
      await once(child.stderr ?? child, 'data');
      const [code, signal] = await once(child, 'exit');
      expect({ code, signal }).to.deep.equal({ code: 0, signal: null });
    });
  });
});

describe('the limit of repeated lines', () => {
  beforeEach(() => {
    mock.timers.enable({ apis: ['setTimeout'] });
    afterTest(() => mock.timers.reset());
  });

  const admitted = (limit: RepeatLimit, kind: string, lines: number, report: (suppressed: number) => void = () => {}) =>
    Array.from({ length: lines }, () => limit.admit(kind, report)).filter(Boolean).length;

  it('admits 20 lines of each kind in 10 seconds, and reports the others once', () => {
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
  });

  it('counts as one all kinds beyond its bound', () => {
    const limit = new RepeatLimit();
    const kinds = Array.from({ length: 1000 }, (_, index) => `kind ${index}`);
    expect(kinds.filter((kind) => limit.admit(kind, () => {}))).to.have.length(255 + 20);
    expect(admitted(limit, 'kind 0', 5)).to.equal(5);
  });
});

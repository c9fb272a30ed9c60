import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run, runCommand } from '../support/command.ts';
import { projectFolder } from '../support/program.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

const handlers = (...args: string[]) => runCommand('handlers', args, {});

const source = `export default {
  double: {
    handler: ({ n }, { log, progress }) => { log.info('doubling'); progress(0.5, 'half'); return n * 2; },
    schema: { type: 'object', required: ['n'], properties: { n: { type: 'number' } } },
    timeoutMs: 5000,
  },
  permanent() { throw new PermanentError('it will never work'); },
  later() { throw new RetryAfter(1500, 'busy'); },
  once: { handler() { throw new Error('it failed'); }, maxAttempts: 1 },
  hang: { handler: () => new Promise(() => {}), timeoutMs: 20 },
  async ended(_, { signal }) {
    process.kill(process.pid, 'SIGINT');
    await aborted(signal).then(() => pause(1));
    throw signal.reason;
  },
}`;

describe('npm run handlers', () => {
  it('checks a module and lists its actions with their settings, and its schedules', async () => {
    const nightly = "{ cron: '0 3 * * *', time_zone: 'Europe/Berlin', action: 'once' }";
    const module = await writeHandlers(`${source}; export const schedules = { nightly: ${nightly} };`);
    const { code, stdout, stderr } = await handlers('check', module);
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    const actions = ['double (schema, timeoutMs 5000)', 'permanent', 'later', 'once (maxAttempts 1)'];
    const last = ['hang (timeoutMs 20)', 'ended', 'schedule nightly (0 3 * * *, Europe/Berlin): once', ''];
    expect(stdout.split('\n')).to.deep.equal([...actions, ...last]);
  });

  it('lets a module in any folder import the package and its client, as ES module or CommonJS, beside packages of its own', async () => {
    const folder = await temporaryFolder();
    const write = (name: string, text: string) => writeFile(join(folder, name), text);
    await mkdir(join(folder, 'node_modules/own'), { recursive: true });
    await write('node_modules/own/index.js', "exports.text = 'own';");
    const imports = `import { PermanentError } from 'ticker-and-tasks';
      import { TaskClient } from 'ticker-and-tasks/client';
      import { text } from 'own';`;
    const source = 'export default { a() { throw new PermanentError(text + typeof TaskClient); } };';
    await write('handlers.ts', imports + source);
    const required = imports.replaceAll(/import (.*) from (.*);/g, 'const $1 = require($2);');
    await write('handlers.cjs', required + source.replace('export default', 'module.exports ='));
    for (const name of ['handlers.ts', 'handlers.cjs']) {
      const { stdout } = await handlers('run', join(folder, name), 'a');
      expect(stdout, name).to.equal('permanent error: ownfunction\nthe task would be discarded\n');
    }
  });

  it('runs a handler, prints its output, logs and progress to standard error, and leaves no file', async () => {
    const file = await writeHandlers(source);
    const env = { ...process.env, TMPDIR: await temporaryFolder() };
    const args = ['main/cli/handlers.ts', 'run', file, 'double', '{"n":21}'];
    const { code, stdout, stderr } = await run(process.execPath, args, { cwd: projectFolder, env });
    expect({ code, stdout }).to.deep.equal({ code: 0, stdout: '{"output":42}\n' });
    expect(stderr).to.match(/"action":"double".*"msg":"doubling"/);
    expect(stderr).to.match(/"fraction":0.5,"note":"half","msg":"progress"/);
    expect(await readdir(env.TMPDIR)).to.deep.equal([]);
  });

  it('prints how a handler failed, and whether the task would be retried; a handler that a signal ends has time to react', async () => {
    const file = await writeHandlers(source);
    for (const [action, stdout] of [
      ['later', 'error: busy\nthe task would be retried after 1500 ms, attempt 2 of 5\n'],
      ['once', 'error: it failed\nthe task would be discarded\n'],
      ['hang', 'crash: took longer than 20 ms\nthe task would be retried, attempt 2 of 5\n'],
      ['ended', 'not completed: shutdown\n'],
    ] as const)
      expect(await handlers('run', file, action)).to.include({ code: 1, stdout });
  });

  it('fails with one line if the module, the action or the data cannot be used, or no thread starts', async () => {
    const [wrong, file] = [await writeHandlers('export default 5'), await writeHandlers(source)];
    const late = await writeHandlers("if (workerData.abortChannel) throw new Error('no'); export default { a() {} };");
    for (const [args, expected] of [
      [['check', wrong], /^the handlers module .+ cannot be used: its default export must be .+\n$/],
      [['run', file, 'none'], /^no action "none", only double, permanent, .*\n$/],
      [['run', file, 'double', '{}'], /^refused at submission: data\/n must be present\n$/],
      [['run', late, 'a'], /^the task threads do not start: no, at .*\n$/],
    ] as [string[], RegExp][]) {
      const { code, stdout, stderr } = await handlers(...args);
      expect({ code, stdout }, args.join(' ')).to.deep.equal({ code: 1, stdout: '' });
      expect(stderr).to.match(expected);
    }
  });
});

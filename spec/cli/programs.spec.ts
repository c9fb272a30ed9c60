import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { withPackageCommands } from '../../main/cli/command.ts';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { run, runCommand } from '../support/command.ts';
import { migratedFolder } from '../support/migrated-folder.ts';
import { projectFolder } from '../support/program.ts';
import { serve } from '../support/server.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

type Refusal = [args: string[], line: string | RegExp];

const BAD_ID = 'the id of a key is a whole number, got';

const refusals: Record<'keys' | 'backup' | 'handlers', Refusal[]> = {
  keys: [
    [[], 'a command is missing'],
    [['toString'], 'unknown command "toString"'],
    [['list', '7'], /^Unexpected argument '7'/],
    [['create'], '--user is missing'],
    [['create', '--user', ' \u{a0}'], '--user must not be empty'],
    [['create', '--user', 'a\n'], '--user must hold no control characters'],
    [['create', '--user', 'a', '--role', 'us\ner'], '--role must hold no control characters'],
    [['create', '--user', 'a'.repeat(129)], '--user must have 128 characters at most'],
    [['create', '--user', 'a', '--role', ''], '--role must not be empty'],
    [['revoke'], 'the id of a key is missing'],
    [['revoke', '1', '2'], 'revoke takes one id'],
    [['revoke', 'x\u001b'], `${BAD_ID} "x\\u001b"`],
    [['revoke', '--', '-1'], `${BAD_ID} "-1"`],
  ],
  backup: [
    [[''], 'name a folder for the backup'],
    [['a', 'b'], 'too many arguments: name one folder'],
    [['a', '--full'], /^Unknown option '--full'/],
  ],
  handlers: [
    [[], 'name a command: check or run'],
    [['check'], 'the module is missing'],
    [['run', 'MODULE'], 'the action is missing'],
    [['run', 'MODULE', 'a', '[]'], 'the data must be a JSON object, got []'],
    [['run', 'MODULE', 'a', '{}', 'b'], 'too many arguments: quote the data'],
  ],
};

const runMain = (args: string[], { cwd, env }: { cwd?: string; env?: object } = {}) =>
  run(process.execPath, [join(projectFolder, 'main/index.ts'), ...args], { cwd, env: { ...process.env, ...env } });

describe('a command-line program', () => {
  for (const name of ['keys', 'backup', 'handlers'] as const) {
    it(`refuses wrong arguments with exit code 1, one line and its usage, and changes nothing: ${name}`, async () => {
      const dataDir = await temporaryFolder();
      const module = await writeHandlers('export default { a: () => 1 }');
      for (const [args, line] of refusals[name]) {
        const given = args.map((arg) => (arg === 'MODULE' ? module : arg));
        const { code, stdout, stderr } = await runCommand(name, given, { dataDir, cwd: dataDir });
        expect({ code, stdout }, args.join(' ')).to.deep.equal({ code: 1, stdout: '' });
        const [first, empty, usage] = stderr.split('\n');
        if (typeof line === 'string') expect(first).to.equal(line);
        else expect(first).to.match(line);
        expect([empty, usage?.split(' <')[0]]).to.deep.equal(['', `npm run ${name} --`]);
      }
      expect(readdirSync(dataDir)).to.deep.equal([]);
    });
  }

  it('is started by ticker-and-tasks if the first argument names it', async () => {
    const folder = await migratedFolder();
    const copied = await runMain(['backup', join(folder, 'copy')], { env: { DATA_DIR: folder } });
    expect(copied).to.include({ code: 0, stderr: '' });
    const sizes = /^copied tasks\.db \(\d+ KiB\), auth\.db \(\d+ KiB\) to (.*)\n$/.exec(copied.stdout);
    expect(sizes?.[1]).to.equal(join(folder, 'copy'));
  });

  it('is listed by ticker-and-tasks --help and after an unknown name, and prints its own usage for --help', async () => {
    const help = await runMain(['--help']);
    expect(help).to.include({ code: 0, stderr: '' });
    expect(help.stdout).to.match(/^ticker-and-tasks .*settings are environment variables\n/);
    for (const name of ['constructor', '-x']) {
      const expected = { code: 1, stdout: '', stderr: `unknown command "${name}"\n\n${help.stdout}` };
      expect(await runMain([name])).to.deep.equal(expected);
    }
    for (const [name, synopsis] of Object.entries({
      keys: 'npm run keys -- <',
      healthcheck: 'ticker-and-tasks healthcheck [/',
    })) {
      const usage = await runMain([name, '--help']);
      expect(usage).to.include({ code: 0, stderr: '' });
      expect(usage.stdout.startsWith(synopsis), name).to.equal(true);
    }
  });

  it('names in an installed package its own commands instead of npm scripts', () => {
    const text = withPackageCommands('"npm run keys -- list", "npm start" or "npm run migrate"');
    expect(text).to.equal('"npx ticker-and-tasks keys list", "npx ticker-and-tasks" or "npx ticker-and-tasks migrate"');
  });
});

describe('ticker-and-tasks init', () => {
  const init = (cwd: string, args: string[]) => runMain(['init', ...args], { cwd });

  it('writes into a new folder, and into the working directory', async () => {
    const folder = await temporaryFolder();
    for (const args of [['new'], []]) expect(await init(folder, args)).to.include({ code: 0, stderr: '' });
    expect(readdirSync(join(folder, 'new'))).to.have.members(['handlers.ts', 'handlers.test.ts', 'tsconfig.json']);
    expect(readdirSync(folder)).to.include.members(readdirSync(join(folder, 'new')));
  });

  it('refuses, with one line and without a change, to overwrite a file, and to write into a CommonJS package', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'tsconfig.json'), '{}');
    const refused = await init(folder, []);
    expect(refused).to.deep.include({ code: 1, stdout: '' });
    expect(refused.stderr).to.match(/^\S+tsconfig\.json exists: move it, or name another folder\n$/);
    expect(readdirSync(folder)).to.deep.equal(['tsconfig.json']);
    expect(readFileSync(join(folder, 'tsconfig.json'), 'utf8')).to.equal('{}');
    const commonjs = await temporaryFolder();
    await writeFile(join(commonjs, 'package.json'), '{}');
    const reason = 'handlers.ts is an ES module: run "npm pkg set type=module" first\n';
    for (const args of [[], ['new']]) expect((await init(commonjs, args)).stderr).to.equal(reason);
    expect(readdirSync(commonjs)).to.deep.equal(['package.json']);
    expect((await init(commonjs, ['a', 'b'])).stderr).to.match(/^too many arguments: name one folder\n\n/);
  });
});

/** Makes the time limit of a request a hundredth. */
const quick = 'const { timeout } = AbortSignal; AbortSignal.timeout = (ms) => timeout(ms / 100);';
const QUICK = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(quick)}` };
const OFF = 'ADMIN_PORT is off: set a port, or start the container without its health check';

describe('the health check of the container', () => {
  /** Imitates the admin listener: 200 at /healthz, 503 at /readyz, 404 at /none, and at any other path no response, or never one. */
  const port = onceForSuite(async () => {
    const { listener } = await serve(({ url, socket }, response) => {
      const status = { '/healthz': 200, '/readyz': 503, '/none': 404 }[url ?? ''];
      if (url === '/slow') return;
      if (status === undefined) socket.destroy();
      else response.writeHead(status, { Connection: 'close' }).end('{"status":"it is"}');
    });
    return `${listener.port}`;
  });

  const at = (path: string) => `http://127.0.0.1:${port()}${path}`;
  for (const [title, env, args, expected] of [
    ['passes silently if /healthz answers 200, on loopback if all addresses are bound', { ADMIN_HOST: '0.0.0.0' }, []],
    ['fails with any other response', {}, ['/readyz'], () => `${at('/readyz')} answered 503: {"status":"it is"}`],
    ['fails if there is no such path', {}, ['/none'], () => `${at('/none')} answered 404: {"status":"it is"}`],
    ['fails without a response in time', QUICK, ['/slow'], () => /slow: The operation was aborted due to timeout\n$/],
    ['fails without a response', {}, ['/x'], () => `${at('/x')}: other side closed`],
    ['writes an IPv6 address in brackets', { ADMIN_HOST: '::1', ADMIN_PORT: '1' }, [], () => /^http:\/\/\[::1\]:1\//],
    ['fails if the admin listener is off', { ADMIN_PORT: 'off' }, [], () => OFF],
  ] as [string, object, string[], (() => string | RegExp)?][]) {
    it(title, async () => {
      const { code, stderr } = await runMain(['healthcheck', ...args], { env: { ADMIN_PORT: port(), ...env } });
      const line = expected?.() ?? '';
      expect(code).to.equal(line === '' ? 0 : 1);
      if (typeof line === 'string') expect(stderr.trimEnd()).to.equal(line);
      else expect(stderr).to.match(line);
    });
  }
});

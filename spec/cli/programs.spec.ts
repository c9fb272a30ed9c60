import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { withPackageCommands } from '../../main/cli/command.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { run, runCommand } from '../support/command.ts';
import { migratedFolder } from '../support/migrated-folder.ts';
import { projectFolder } from '../support/program.ts';
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
    [['create', '--user', 'a\nb'], '--user must hold no control characters'],
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

/** Runs `ticker-and-tasks` with arguments. */
function runMain(args: string[], DATA_DIR = '') {
  const options = { cwd: projectFolder, env: { ...process.env, DATA_DIR } };
  return run(process.execPath, ['main/index.ts', ...args], options);
}

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
    const copied = await runMain(['backup', join(folder, 'copy')], folder);
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
    for (const [text, expected] of [
      ['list keys with "npm run keys -- list"', 'list keys with "npx ticker-and-tasks keys list"'],
      ['run "npm start" or "npm run migrate"', 'run "npx ticker-and-tasks" or "npx ticker-and-tasks migrate"'],
    ] as const) {
      expect(withPackageCommands(text)).to.equal(expected);
    }
  });
});

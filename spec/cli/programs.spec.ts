import { join } from 'node:path';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { projectFolder } from '../support/program.ts';

/** Runs the command with arguments. */
function runMain(args: string[], DATA_DIR: string) {
  const options = { cwd: projectFolder, env: { ...process.env, DATA_DIR } };
  return run(process.execPath, ['main/index.ts', ...args], options);
}

describe('the command ticker-and-tasks', () => {
  it('runs the program that the first argument names', async () => {
    const folder = await temporaryFolder();
    migrate(folder);
    const created = await runMain(['keys', 'create', '--user', 'alice'], folder);
    expect(created).to.include({ code: 0 });
    expect(created.stdout).to.match(/^[0-9a-f]{32}\n$/);
    const copied = await runMain(['backup', join(folder, 'copy')], folder);
    expect(copied, copied.stderr).to.include({ code: 0 });
    expect(copied.stdout).to.match(/^copied .*auth\.db/);
  });

  it('passes help on to the program', async () => {
    const { code, stdout } = await runMain(['keys', '--help'], '');
    expect(code).to.equal(0);
    expect(stdout).to.include('--user');
  });

  it('shows its usage, alone or after one line for an unknown name', async () => {
    const help = await runMain(['--help'], '');
    expect(help).to.include({ code: 0, stderr: '' });
    expect(help.stdout).to.match(/^ticker-and-tasks .*settings are environment variables\n/);
    for (const name of ['key', 'constructor', '-x']) {
      const unknown = await runMain([name], '');
      expect(unknown).to.deep.equal({ code: 1, stdout: '', stderr: `unknown command "${name}"\n\n${help.stdout}` });
    }
  });
});

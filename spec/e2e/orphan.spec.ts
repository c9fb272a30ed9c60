import { spawn } from 'node:child_process';
import { expect } from 'chai';
import { freshSettings, projectFolder, watch } from '../support/program.ts';

describe('services that npm started as a command', () => {
  it("stop in order when npm's shell has ended without them", async () => {
    const npm = { npm_lifecycle_script: "'ticker-and-tasks'" };
    // The command after the semicolon keeps the shell from replacing itself.
    const shell = spawn('sh', ['-c', '"$0" dist/main; :', process.execPath], {
      cwd: projectFolder,
      env: { ...process.env, ...(await freshSettings()), ...npm },
    });
    const services = watch(shell);
    await services.logged(({ service }) => service === 'tasks');
    shell.kill('SIGTERM');
    // The output is closed when its last writer has ended.
    expect(await services.exited).to.deep.equal({ code: null, signal: 'SIGTERM' });
    expect(services.lines.at(-1)).to.include({ msg: 'stopped' });
  });
});

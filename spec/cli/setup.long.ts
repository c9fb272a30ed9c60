import { execFile, spawn } from 'node:child_process';
import { cp } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { oldNode } from '../support/old-node.ts';
import { freshSettings, post, projectFolder, watch } from '../support/program.ts';
import { describeWith } from '../support/requirements.ts';
import { SetupProject, shell } from './setup-project.ts';

describe('npm run setup, with a registry that does not respond', () => {
  it('says so within seconds', async () => {
    const silent = createServer((socket) => afterTest(() => socket.destroy())).listen(0, '127.0.0.1');
    afterTest(() => silent.close());
    await new Promise((resolve) => silent.once('listening', resolve));
    const project = await SetupProject.create();
    const started = performance.now();
    const { code, stderr } = await project.runUnreachable((silent.address() as AddressInfo).port);
    expect(code, stderr).to.equal(1);
    expect(stderr).to.match(/^Installing .*\nnpm cannot reach its registry: .*\n$/);
    expect(performance.now() - started).to.be.below(50_000);
  });
});

describeWith(
  oldNode() === undefined ? 'no Node older than 24.15 on the path' : undefined,
  'npm start in a new clone, with ignore-scripts=true',
  () => {
    it('says which command to run, and serves after that command', async () => {
      const clone = await temporaryFolder();
      for (const each of [
        'main',
        'workers',
        'db',
        'www',
        'package.json',
        'package-lock.json',
        'tsconfig.json',
        '.npmrc',
      ])
        await cp(join(projectFolder, each), join(clone, each), { recursive: true });
      const env = { ...shell, ...(await freshSettings()), npm_config_ignore_scripts: 'true' };
      const first = watch(spawn('npm', ['start', '--silent'], { cwd: clone, env }));
      expect(await first.exited).to.deep.equal({ code: 1, signal: null });
      const [, command = ''] = /^Installing .*\nnpm did not run .*: run "([^"]+)", then/.exec(first.errors()) ?? [];
      await promisify(execFile)('sh', ['-c', command], { cwd: clone, env });
      const second = watch(spawn('npm', ['start', '--silent'], { cwd: clone, env }));
      const { port } = await second.logged(({ service }) => service === 'tasks');
      expect((await post(`http://127.0.0.1:${port}/tasks`, { action: 'sum' })).status).to.equal(202);
      second.child.kill('SIGTERM');
      expect((await second.exited).code).to.be.oneOf([0, 143]);
    }).timeout(300_000);
  },
);

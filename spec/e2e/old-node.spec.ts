import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { runtimeIsNewEnough } from '../../main/process/runtime.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { oldNode } from '../support/old-node.ts';
import { freshSettings, projectFolder, request, startServices } from '../support/program.ts';
import { describeWith } from '../support/requirements.ts';

const node = oldNode() ?? '';

describeWith(node === '' ? 'no Node older than 24.15 on the path' : undefined, 'an old Node', () => {
  it('starts the installed Node, and ends with exit code 0 on a signal to it or, as by Ctrl-C, to both processes', async () => {
    for (const [signal, receivers] of Object.entries({ SIGHUP: 1, SIGINT: -1 })) {
      const services = await startServices({ node, detached: true });
      expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
      process.kill(receivers * (services.child.pid as number), signal);
      expect(await services.exited).to.deep.equal({ code: 0, signal: null });
      expect(services.lines.at(-1)).to.include({ msg: 'stopped' });
    }
  });

  it('runs the program that its argument names', async () => {
    const env = { ...process.env, DATA_DIR: await temporaryFolder(), ADMIN_PORT: '1' };
    const program = (...args: string[]) => run(node, ['dist/main', ...args], { cwd: projectFolder, env });
    expect((await program('migrate')).stdout).to.match(/are up to date\n$/);
    const { code, stderr } = await program('healthcheck');
    expect(code).to.equal(1);
    expect(stderr).to.match(/^http:\/\/127\.0\.0\.1:1\/healthz: .*\n$/);
  });

  it('passes on the exit code and the error of a failed start, or fails with one line if no Node that it finds is new enough', async () => {
    const alone = await temporaryFolder();
    await cp(join(projectFolder, 'dist/main'), join(alone, 'dist/main'), { recursive: true });
    await writeFile(join(alone, 'package.json'), '{"type":"module"}');
    for (const [cwd, own, line] of [
      [projectFolder, { TICKER_PORT: 'x' }, /TICKER_PORT must be a whole number/],
      [projectFolder, { HANDED_OVER_BY_NODE: '20.0.0' }, /^Node 24\.15 or newer is needed, this is \S+: .*\n$/],
      [alone, {}, /^Node 24\.15 or newer is needed, this is \S+: run "npm install" here.*\n$/],
    ] as const) {
      const env = { ...process.env, ...(await freshSettings()), ...own };
      const { code, stdout, stderr } = await run(node, ['dist/main'], { cwd, env });
      expect(code).to.equal(1);
      expect(stdout + stderr).to.match(line);
    }
  });
});

describe('the version of Node', () => {
  it('is new enough from 24.15 on, as package.json requires', async () => {
    for (const version of ['0.12.18', '18.20.8', '22.22.0', '23.99.0', '24.0.0', '24.9.0', '24.14.99'])
      expect(runtimeIsNewEnough(version), version).to.equal(false);
    for (const version of ['24.15.0', '24.15.0-nightly20260101', '24.100.0', '25.0.0', '26.10.0', '100.0.0'])
      expect(runtimeIsNewEnough(version), version).to.equal(true);
    expect(runtimeIsNewEnough()).to.equal(true);
    const { engines } = JSON.parse(await readFile(join(projectFolder, 'package.json'), 'utf8'));
    expect(engines.node).to.equal('>=24.15');
  });

  it('that is too old for the launcher makes it fail with one line that names the required version, and can parse the launcher', async () => {
    for (const [version, needed] of Object.entries({ '12.22.12': '18', '18.0.0': '24.15' })) {
      const source = `Object.defineProperty(process.versions, 'node', { value: '${version}' })`;
      const args = ['--import', `data:text/javascript,${encodeURIComponent(source)}`, 'dist/main'];
      const { code, stderr } = await run(process.execPath, args, { cwd: projectFolder });
      expect(code).to.equal(1);
      expect(stderr).to.match(new RegExp(`^Node ${needed} or newer is needed, this is ${version}: .*\\n$`));
    }
    // Node 12 could not parse a static import, a top-level await or a newer operator.
    const text = await readFile(join(projectFolder, 'dist/main/index.js'), 'utf8');
    expect(text)
      .to.include('process.exitCode = 1')
      .and.not.match(/^(import|await) |\?\?|\?\.|\bimport\.meta\b/m);
  });
});

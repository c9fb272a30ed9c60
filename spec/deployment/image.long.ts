import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { execute, run } from '../support/command.ts';
import { section } from '../support/examples.ts';
import { post, projectFolder, untilServed } from '../support/program.ts';

const image = `ticker-and-tasks-spec-${randomUUID()}`;
/** Restrictions of compose.yaml, and free ports of the host. */
const RESTRICTED = ['--read-only', '--tmpfs=/tmp', '--cap-drop=ALL', '--security-opt=no-new-privileges'];
const PUBLISHED = ['--publish=127.0.0.1::8080', '--publish=127.0.0.1::9464', '--env=ADMIN_HOST=0.0.0.0'];

async function docker(...args: string[]): Promise<string> {
  return (await execute('docker', args, { cwd: projectFolder })).stdout.trim();
}

const isRunning = (await run('docker', ['info', '--format={{.ServerVersion}}'])).code === 0;
const title = isRunning
  ? 'the image'
  : 'the image (pending: no container engine is running: apt-get install docker.io)';

// Pending in CI too, which cannot install a container engine.
(isRunning ? describe : describe.skip)(title, () => {
  before(() => docker('build', '--quiet', `--tag=${image}`, '.')).timeout(600_000);
  after(() => run('docker', ['image', 'rm', '--force', image]));

  it('serves as an unprivileged user on a read-only file system without development packages, creates keys and backups with the commands of the guide, and ends with exit code 0 on SIGTERM', async () => {
    const id = await docker('run', '--detach', ...RESTRICTED, ...PUBLISHED, image);
    afterTest(() => docker('rm', '--force', '--volumes', id));
    const address = async (port: number) => `http://${await docker('port', id, `${port}`)}`;
    const exec = (...command: string[]) => docker('exec', id, ...command);
    await untilServed(`${await address(9464)}/readyz`);
    expect(await exec('id', '-u')).to.equal('10001');
    await exec('node', 'dist/main', 'healthcheck', '/healthz');
    expect((await post(`${await address(8080)}/tasks`, { action: 'sum' })).status).to.equal(202);
    const commands = section('www/guide/running.md', 'Keys and backups').matchAll(/compose exec node (node .*)$/gm);
    for (const [, command = ''] of commands) await exec(...command.split(' '));
    expect(await exec('ls', '/data/backup')).to.include('auth.db');
    const packages = (await exec('ls', 'node_modules')).split('\n');
    expect(packages).to.include('koa').and.not.include('typescript');
    await docker('stop', id);
    expect(await docker('inspect', '--format={{.State.ExitCode}}', id)).to.equal('0');
  });
});

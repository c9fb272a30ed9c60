import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { section } from '../support/examples.ts';
import { post, watch } from '../support/program.ts';
import { describeWith } from '../support/requirements.ts';
import { buildImage, lackingForContainers, runImage } from './container.ts';
import { last, type Stage, stages } from './dockerfile.ts';

/** The image is built once from the Dockerfile. Every test runs its own container. */
const withImage = (define: () => void) => describeWith(lackingForContainers(), 'the image', define, false);

withImage(() => {
  const image = stages().at(-1) as Stage;
  const settings = { HOST: '127.0.0.1', TICKER_PORT: '0', TASKS_PORT: '0', ADMIN_PORT: '0' };
  let folder: string;
  let root: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ticker-spec-'));
    root = buildImage(folder);
  }).timeout(240_000);

  after(async () => {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  /** Starts a container. Returns it with the URLs of its task queue and its health check. */
  async function start() {
    const program = watch(runImage(root, last(image, 'CMD').arguments, settings));
    const port = async (service: string) => (await program.logged((line) => line.service === service)).port;
    return { ...program, port };
  }

  it('holds no package that only the development needs, no source, and no second Node', () => {
    for (const absent of ['node_modules/mocha', 'node_modules/typescript', 'node_modules/node', 'spec', 'main', 'data'])
      expect(existsSync(join(root, 'app', absent)), absent).to.equal(false);
    for (const present of ['node_modules/koa', 'dist/main/index.js', 'dist/www/ticker/index.html', 'package.json'])
      expect(existsSync(join(root, 'app', present)), present).to.equal(true);
  });

  it('serves without privileges on a file system that it cannot write to, and ends with exit code 0 on SIGTERM', async () => {
    const container = await start();
    const [, check = '[]'] = last(image, 'HEALTHCHECK').text.split('CMD ');
    const health = watch(runImage(root, JSON.parse(check), { ADMIN_PORT: `${await container.port('admin')}` }));
    expect(await health.exited, health.errors()).to.deep.equal({ code: 0, signal: null });
    const { status } = await post(`http://127.0.0.1:${await container.port('tasks')}/tasks`, { action: 'sum' });
    expect(status).to.equal(202);
    container.child.kill('SIGTERM');
    expect(await container.exited).to.deep.equal({ code: 0, signal: null });
    expect(container.lines.at(-1)).to.include({ msg: 'stopped' });
    expect(existsSync(join(`${root}.volume`, 'tasks.db'))).to.equal(true);
  });

  it('makes keys and backups beside the running services, as the guide says', async () => {
    const container = await start();
    await container.port('tasks');
    for (const [, command = ''] of section('www/guide/running.md', 'Keys and backups').matchAll(
      /docker compose exec node (node .*)$/gm,
    )) {
      const beside = watch(runImage(root, command.split(' '), settings));
      expect(await beside.exited, beside.errors()).to.deep.equal({ code: 0, signal: null });
    }
    expect(existsSync(join(`${root}.volume`, 'backup', 'auth.db'))).to.equal(true);
  });

  it('may write to the volume and to /tmp, and nowhere else', async () => {
    const attempt = `for (const file of ['/data/x', '/tmp/x', '/app/x', '/x', '/etc/x', '/usr/local/bin/node'])
      try { fs.writeFileSync(file, ''); console.log(file) } catch {}; console.log(process.getuid())`;
    const program = watch(runImage(root, ['node', '--eval', attempt], settings));
    await program.exited;
    expect(program.output().trim().split('\n')).to.deep.equal(['/data/x', '/tmp/x', '10001']);
  });
});

import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, outputOf } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { newSecret, projectFolder, request, startServices, untilTask, watch } from '../../support/program.ts';
import { eventually, until } from '../../support/until.ts';

/** Starts the program of the guide, exactly as printed but for its port, in a folder with the packages that it imports. */
async function startExample(port: number) {
  const folder = await temporaryFolder();
  const installed = join(folder, 'node_modules/ticker-and-tasks');
  await mkdir(installed, { recursive: true });
  await writeFile(join(installed, 'package.json'), '{"type": "module", "exports": "./index.js"}');
  const api = new URL('../../../main/embed.ts', import.meta.url).href;
  await writeFile(join(installed, 'index.js'), `export * from ${JSON.stringify(api)};`);
  await symlink(join(projectFolder, 'node_modules/koa'), join(folder, 'node_modules/koa'));
  const [example = ''] = examples('www/guide/embedding.md', 'Without HTTP', 'js');
  await writeFile(join(folder, 'program.mjs'), example.replace('3000', String(port)));
  const program = watch(spawn(process.execPath, ['program.mjs'], { cwd: folder }));
  afterTest(() => program.child.kill('SIGKILL'));
  return program;
}

describe('the guide', () => {
  it('has a receiver of callbacks that accepts one with the new secret or the old one, and no forged one', async () => {
    const [host, port] = ['localhost:9000', await freePort()];
    const folder = await temporaryFolder();
    const [receiver = ''] = examples('www/guide/callbacks.md', 'Try it', 'js');
    await writeFile(join(folder, 'receiver.mjs'), receiver.replace('9000', `${port}`));
    const [, submit] = examples('www/guide/callbacks.md', 'Try it');
    const [OLD, NEW] = [newSecret(), newSecret()];
    const module = join(folder, 'handlers.ts');
    await writeFile(module, examples('www/guide/callbacks.md', 'Where the URL comes from', 'ts')[0] ?? '');
    const services = await startServices({
      env: {
        CALLBACK_HOSTS: `localhost:${port},shop.example.com`,
        CALLBACK_SECRET: `${NEW},${OLD}`,
        TASK_HANDLERS: module,
      },
    });
    for (const secrets of [OLD, `${newSecret()},${NEW}`, newSecret()]) {
      const env = { ...process.env, CALLBACK_SECRET: secrets };
      const listening = watch(spawn(process.execPath, [join(folder, 'receiver.mjs')], { env }));
      const url = `http://localhost:${port}`;
      // The receiver refuses a body without a signature.
      let forged: number | undefined;
      await until(() => {
        void fetch(url, { method: 'POST', body: '{}' }).then(
          ({ status }) => {
            forged = status;
          },
          () => {},
        );
        return forged !== undefined;
      });
      expect(forged).to.equal(401);
      const { id } = JSON.parse(await outputOf(adapt(submit, services).replaceAll(host, `localhost:${port}`)));
      await untilTask(services.tasks, id);
      const isKnown = secrets.includes(OLD) || secrets.includes(NEW);
      if (isKnown) await until(() => listening.output() === `task ${id}: completed\n`);
      else {
        const line = await services.logged(
          ({ msg, reason }) => msg === 'task failed' && /answered 401/.test(`${reason}`),
        );
        expect(line.attempt).to.equal(1);
        expect(listening.output()).to.equal('');
      }
      listening.child.kill('SIGKILL');
      await listening.exited;
    }
  });

  it('has for users of BullMQ an action that replaces their processor, and a program that submits a task once', async () => {
    const cwd = await temporaryFolder();
    await writeFile(join(cwd, 'handlers.ts'), examples('www/guide/coming-from.md', 'From BullMQ', 'ts')[0] ?? '');
    await mkdir(join(cwd, 'node_modules'));
    await symlink(projectFolder, join(cwd, 'node_modules/ticker-and-tasks'));
    await symlink(join(projectFolder, 'dist'), join(cwd, 'dist'));
    const services = await startServices({ cwd, env: { TASK_HANDLERS: './handlers.ts' } });
    const submit = examples('www/guide/coming-from.md', 'From BullMQ', 'js').find((example) =>
      example.includes('fetch('),
    );
    await writeFile(join(cwd, 'submit.mjs'), adapt(submit, services));

    const outputs: string[] = [];
    for (let time = 1; time <= 2; time++) outputs.push(await outputOf(`node ${cwd}/submit.mjs`));
    expect(outputs[0]).to.match(/^202 \{"id":/);
    expect(outputs[1]).to.equal(outputs[0]);
    const { id } = JSON.parse(outputs[0]?.slice(4) ?? '');
    const body = await untilTask(services.tasks, id);
    expect(JSON.parse(body.result)).to.deep.equal({ output: { sent: 'ada@example.com' } });
  });

  it('creates and revokes a key and makes a backup while the services run, twice', async () => {
    const [DATA_DIR, HOME] = [await temporaryFolder(), await temporaryFolder()];
    await startServices({ env: { DATA_DIR } });
    const commands = ['Keys', 'Backup'].flatMap((heading) => examples('www/guide/data.md', heading)).join('');
    for (let time = 1; time <= 2; time++) {
      const output = await outputOf(`exec 2>&1\ndate() { echo ${time}; }\n${commands}`, { DATA_DIR, HOME });
      expect(output).to.match(/revoked key \d+ of alice/);
    }
    expect(readdirSync(join(HOME, 'backups'))).to.deep.equal(['1', '2']);
  });

  it('has a program that embeds both services, answers with a result and a price, and has no other listener', async () => {
    const port = await freePort();
    const program = await startExample(port);
    const ask = () => request(`http://127.0.0.1:${port}/hello`).catch(() => undefined);
    const answer = await eventually(ask, (found) => found?.body.prices?.length === 1);
    expect(answer?.body).to.deep.include({ output: 'HELLO' });
    expect(answer?.body.prices[0].symbol).to.equal('BTC-USD');
    program.child.kill('SIGTERM');
    expect(await program.exited, program.errors()).to.deep.equal({ code: 0, signal: null });
  });

  it('has requests that add, run and delete a schedule, and a module with one', async () => {
    const path = join(await temporaryFolder(), 'handlers.ts');
    await writeFile(path, examples('www/guide/scheduling.md', 'Every night', 'ts')[0] ?? '');
    const services = await startServices({ env: { TASK_HANDLERS: path } });
    const [add = '', others = ''] = examples('www/guide/scheduling.md', 'Every night').map((example) =>
      adapt(example, services),
    );
    expect(JSON.parse(await outputOf(add))).to.include({ name: 'nightly', cron: '0 3 * * *', source: 'api' });
    const names = async () =>
      (await request(`${services.tasks}/schedules`)).body.schedules.map(({ name }: { name: string }) => name);
    expect(await names()).to.include.members(['nightly', 'report']);
    expect(await outputOf(others)).to.include('"status":"queued"');
    expect(await names()).to.not.include('nightly');
  });
});

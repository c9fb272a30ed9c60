import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { newSecret } from '../../support/callback-secret.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, outputOf, projectWith } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { projectFolder, request, startServices, untilTask, watch } from '../../support/program.ts';
import { eventually, until } from '../../support/until.ts';

describe('the guide', () => {
  it('has a receiver of callbacks that accepts one with the new secret or the old one, and no forged one', async () => {
    const [url, port] = ['localhost:9000', await freePort()];
    const [receiver = ''] = examples('www/guide/callbacks.md', 'Try it', 'js');
    const [module = ''] = examples('www/guide/callbacks.md', 'Where the URL comes from', 'ts');
    const [, submit] = examples('www/guide/callbacks.md', 'Try it');
    const files = { 'receiver.mjs': receiver.replace('9000', `${port}`), 'handlers.ts': module };
    const folder = await projectWith(files);
    const [OLD, NEW] = [newSecret(), newSecret()];
    const CALLBACK_HOSTS = `localhost:${port},shop.example.com`;
    const TASK_HANDLERS = join(folder, 'handlers.ts');
    const services = await startServices({ env: { CALLBACK_HOSTS, CALLBACK_SECRET: `${NEW},${OLD}`, TASK_HANDLERS } });
    for (const CALLBACK_SECRET of [OLD, `${newSecret()},${NEW}`, newSecret()]) {
      const env = { ...process.env, CALLBACK_SECRET };
      const listening = watch(spawn(process.execPath, [join(folder, 'receiver.mjs')], { env }));
      const withoutSignature = await eventually(
        () => fetch(`http://localhost:${port}`, { method: 'POST', body: '{}' }).catch(() => undefined),
        (answer) => answer !== undefined,
      );
      expect(withoutSignature?.status).to.equal(401);
      const { id } = JSON.parse(await outputOf(adapt(submit, services).replaceAll(url, `localhost:${port}`)));
      await untilTask(services.tasks, id);
      const isKnown = CALLBACK_SECRET.includes(OLD) || CALLBACK_SECRET.includes(NEW);
      if (isKnown) await until(() => listening.output() === `task ${id}: completed\n`);
      else {
        const refused = await services.logged(
          ({ msg, reason }) => msg === 'task failed' && /answered 401/.test(`${reason}`),
        );
        expect([refused.attempt, listening.output()]).to.deep.equal([1, '']);
      }
      await listening.end('SIGKILL');
    }
  });

  it('has for users of BullMQ an action that replaces their processor, and a program that submits a task once', async () => {
    const [module = ''] = examples('www/guide/coming-from.md', 'From BullMQ', 'ts');
    const cwd = await projectWith({ 'handlers.ts': module });
    await symlink(join(projectFolder, 'dist'), join(cwd, 'dist'));
    const services = await startServices({ cwd, env: { TASK_HANDLERS: './handlers.ts' } });
    const programs = examples('www/guide/coming-from.md', 'From BullMQ', 'js');
    const submit = programs.find((program) => program.includes('fetch('));
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
    const [example = ''] = examples('www/guide/embedding.md', 'Without HTTP', 'js');
    const cwd = await projectWith({ 'program.mjs': example.replace('3000', `${port}`) });
    const program = watch(spawn(process.execPath, ['program.mjs'], { cwd }));
    const ask = () => request(`http://127.0.0.1:${port}/hello`).catch(() => undefined);
    const answer = await eventually(ask, (found) => found?.body.prices?.length === 1);
    expect(answer?.body).to.deep.include({ output: 'HELLO' });
    expect(answer?.body.prices[0].symbol).to.equal('BTC-USD');
    expect(await program.end(), program.errors()).to.deep.equal({ code: 0, signal: null });
  });

  it('has requests that add, run and delete a schedule, and a module with one', async () => {
    const [module = ''] = examples('www/guide/scheduling.md', 'Every night', 'ts');
    const folder = await projectWith({ 'handlers.ts': module });
    const services = await startServices({ env: { TASK_HANDLERS: join(folder, 'handlers.ts') } });
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

import { spawn, spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { banner } from '../../../main/process/serve.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { adapt, examples, outputOf, projectWith, section } from '../../support/examples.ts';
import { freePort } from '../../support/free-port.ts';
import { lackingPostgres, startPostgres } from '../../support/postgres-server.ts';
import { newSecret, post, projectFolder, request, startServices, untilTask, watch } from '../../support/program.ts';
import { describeWith, lackingProgram } from '../../support/requirements.ts';
import { eventually, until } from '../../support/until.ts';
import { connect } from '../../support/websocket.ts';

/** Creates a project in which `node dist/main` finds a handlers module. */
async function projectOf(module: string): Promise<string> {
  const cwd = await projectWith({ 'handlers.ts': module });
  await symlink(join(projectFolder, 'dist'), join(cwd, 'dist'));
  return cwd;
}

describe('the README', () => {
  it('shows what a start on a terminal prints, with localhost for loopback and every interface, otherwise the address', () => {
    const [, text = '', key = ''] =
      /```\n( {2}Prices.*API key (\w+)\n[\s\S]*?)```/.exec(section('README.md', 'Run it')) ?? [];
    const at = (port: number) => ({ host: '127.0.0.1', port });
    expect(`\n${text}\n`).to.equal(banner({ ticker: at(8081), tasks: at(8080), admin: at(9464) }, key));
    expect(banner({ ticker: at(1), tasks: at(1) }, key), 'without the admin listener').to.not.include('Operation');
    const hosts = { '192.0.2.7': '192.0.2.7', '2001:db8::1': '[2001:db8::1]' };
    const all = { '::': 'localhost', '::1': 'localhost', '0.0.0.0': 'localhost', ...hosts };
    for (const [host, shown] of Object.entries(all))
      expect(banner({ ticker: { host, port: 1 }, tasks: at(1) }, key)).to.include(`http://${shown}:1`);
  });

  it('proposes actions and symbols that work, and commands that queue a task and list it, also if repeated', async () => {
    const [module = '', ...others] = examples('README.md', 'Make it yours', 'ts');
    expect(others).to.deep.equal([]);
    const cwd = await projectOf(module);
    const [, command = ''] = /`([^`]+) npm start`/.exec(section('README.md', 'Make it yours')) ?? [];
    const env = Object.fromEntries(command.split(' ').map((setting) => setting.split(/=(.*)/)));
    expect(env).to.have.keys('TASK_HANDLERS', 'TICKER_SYMBOLS');
    const services = await startServices({ cwd, env });
    const submit = async (action: string, data: object) =>
      (await post(`${services.tasks}/tasks`, { action, data })).body;

    const outcome = async (action: string, data: object) =>
      JSON.parse((await untilTask(services.tasks, (await submit(action, data)).id)).result).output;
    expect(await outcome('words', { text: 'three short words' })).to.equal(3);
    expect(await outcome('mean', { numbers: [1, 5] })).to.equal(3);
    await services.logged(({ msg, action }) => msg === 'the mean of 2 numbers' && action === 'mean');
    expect(await submit('mean', { numbers: [] })).to.include({ error: 'invalid data', path: '/numbers' });
    const client = await connect(services.stream, { token: await services.token() });
    const { data } = await client.nextOf('ticker');
    expect(data.map(({ symbol }: { symbol: string }) => symbol)).to.deep.equal(['BTC-USD', 'LTC-USD', 'DOGE-USD']);

    const example = adapt(examples('README.md', 'Try it')[0], services);
    for (let time = 1; time <= 2; time++)
      expect(await outputOf(example)).to.match(/^\{"id":"[0-9a-f-]{36}","status":"queued"\}\n\{"tasks":\[/);
  });
});

describe('the guide', () => {
  it('has a receiver of callbacks that accepts one with the new secret or the old one, and no forged one', async () => {
    const [url, port] = ['localhost:9000', await freePort()];
    const [receiver = ''] = examples('www/guide/callbacks.md', 'Try it', 'js');
    const [module = ''] = examples('www/guide/callbacks.md', 'Where the URL comes from', 'ts');
    const [, submit] = examples('www/guide/callbacks.md', 'Try it');
    const folder = await projectWith({ 'receiver.mjs': receiver.replace('9000', `${port}`), 'handlers.ts': module });
    const [OLD, NEW] = [newSecret(), newSecret()];
    const CALLBACK_HOSTS = `localhost:${port},shop.example.com`;
    const TASK_HANDLERS = join(folder, 'handlers.ts');
    const services = await startServices({ env: { CALLBACK_HOSTS, CALLBACK_SECRET: `${NEW},${OLD}`, TASK_HANDLERS } });
    for (const CALLBACK_SECRET of [OLD, `${newSecret()},${NEW}`, newSecret()]) {
      const env = { ...process.env, CALLBACK_SECRET };
      const listening = watch(spawn(process.execPath, [join(folder, 'receiver.mjs')], { env }));
      const send = () => fetch(`http://localhost:${port}`, { method: 'POST', body: '{}' }).catch(() => undefined);
      expect((await eventually(send, (answer) => answer !== undefined))?.status).to.equal(401);
      const { id } = JSON.parse(await outputOf(adapt(submit, services).replaceAll(url, `localhost:${port}`)));
      await untilTask(services.tasks, id);
      const isKnown = CALLBACK_SECRET.includes(OLD) || CALLBACK_SECRET.includes(NEW);
      if (isKnown) await until(() => listening.output() === `task ${id}: completed\n`);
      else {
        const refused = await services.logged(({ reason }) => /answered 401/.test(`${reason}`));
        expect([refused.attempt, listening.output()]).to.deep.equal([1, '']);
      }
      await listening.end('SIGKILL');
    }
  });

  it('has for users of BullMQ an action that replaces their processor, and a program that submits a task once', async () => {
    const [module = ''] = examples('www/guide/coming-from.md', 'From BullMQ', 'ts');
    const cwd = await projectOf(module);
    const services = await startServices({ cwd, env: { TASK_HANDLERS: './handlers.ts' } });
    const programs = examples('www/guide/coming-from.md', 'From BullMQ', 'js');
    const submit = programs.find((program) => program.includes('fetch('));
    await writeFile(join(cwd, 'submit.mjs'), adapt(submit, services));

    const output = await outputOf(`node ${cwd}/submit.mjs`);
    expect(output).to.match(/^202 \{"id":/);
    expect(await outputOf(`node ${cwd}/submit.mjs`)).to.equal(output);
    const { id } = JSON.parse(output.slice(4));
    const body = await untilTask(services.tasks, id);
    expect(JSON.parse(body.result)).to.deep.equal({ output: { sent: 'ada@example.com' } });
  });

  it('creates and revokes a key and makes a backup while the services run, twice', async () => {
    const HOME = await temporaryFolder();
    const { env } = await startServices();
    const commands = ['Keys', 'Backup'].flatMap((heading) => examples('www/guide/data.md', heading)).join('');
    for (let time = 1; time <= 2; time++) {
      const output = await outputOf(`exec 2>&1\ndate() { echo ${time}; }\n${commands}`, { ...env, HOME });
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

describeWith(lackingProgram('psql') ?? lackingPostgres(), 'the two nodes of the guide', () => {
  it('start, each list the tasks of the other, and stop', async () => {
    const postgres = await startPostgres();
    afterTest(() => postgres.remove());
    const { host, port: PGPORT } = new URL(postgres.url);
    const ports: Record<string, string> = {};
    for (const port of ['8080', '8081', '8082', '8083', '9464', '9465']) ports[port] = String(await freePort());
    const script = examples('www/guide/several-nodes.md', 'Two nodes on one machine')
      .join('')
      .replace('npm run setup && npm run build\n', '')
      .replaceAll(' dist/main', ` ${projectFolder}dist/main`)
      .replace('127.0.0.1:5432', host)
      .replaceAll(/\b(808[0-3]|946[45])\b/g, (port) => ports[port] ?? port);
    const { 8080: TASKS_PORT, 8081: TICKER_PORT, 9464: ADMIN_PORT } = ports;
    const own = { PGHOST: '127.0.0.1', PGPORT, PGUSER: 'spec', TICKER_PORT, TASKS_PORT, ADMIN_PORT };
    const options = { cwd: await temporaryFolder(), env: { ...process.env, ...own }, detached: true };
    const child = spawn('bash', ['-c', `set -e\nexec 2>&1\ntrap 'tail node*.log' ERR\n${script}`], options);
    const { exited, output } = watch(child);
    // The process group, which is empty if everything that the script started has ended.
    afterTest(() => spawnSync('kill', ['-KILL', '--', `-${child.pid}`]));
    expect(await exited, output()).to.include({ code: 0 });
    expect(output().match(/"status":"ready"/g), output()).to.have.length(2);
    const [, id] = /"id":"([0-9a-f-]{36})".*"status":"completed"/.exec(output()) ?? [];
    expect(output()).to.match(new RegExp(`"tasks":\\[\\{"id":"${id}".*"status":"completed"`));
  });
});

import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { holdTasks } from '../support/held-tasks.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { runOn } from '../support/migrated-folder.ts';
import { type HttpResponse, post, request, startServices, untilAnswer } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../support/small-disk.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually, until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

describe('under load', () => {
  // Two threads of the pool, the ticker's and the one for maintenance.
  const THREADS = 4;

  it(`a backup holds every task accepted before it, and either queue driver continues with them ${seedNote}`, async () => {
    const folder = join(await temporaryFolder(), 'copy');
    const first = await startServices({ env: { QUEUE_DRIVER: 'sqlite' } });
    const client = await watchSteadily(first);
    const random = randomFrom(0);
    const [before, others] = [new Ledger(), new Ledger()];
    // Submissions continue until the process is killed.
    const ended = others.flood(first.tasks, random, 2);
    const stopped = before.flood(first.tasks, random);
    await before.grows(50);
    await stopped();
    expect(await runCommand('backup', [folder], { dataDir: first.env.DATA_DIR })).to.include({ code: 0, stderr: '' });
    await others.grows(20);
    await client.checkAfterNextTick();
    await first.end('SIGKILL');
    await ended();

    for (const driver of ['sqlite', 'memory']) {
      const restored = join(await temporaryFolder(), 'restored');
      cpSync(folder, restored, { recursive: true });
      for (const file of ['auth.db', 'tasks.db'])
        expect(runOn(restored, 'PRAGMA integrity_check', file)).to.deep.equal([{ integrity_check: 'ok' }]);
      const second = await startServices({ env: { DATA_DIR: restored, QUEUE_DRIVER: driver } });
      await before.settled(second, driver === 'sqlite');
      expect((await post(`${second.ticker}/auth/token`, { api_key: first.apiKey })).status).to.equal(200);
      expect(await second.end()).to.deep.include({ code: 0 });
    }
  });

  it(`the sudden end of threads loses no task and charges none without a crash, and the stream continues, even if all of them end ${seedNote}`, async () => {
    const services = await startServices({ nodeOptions: inspectable, env: { QUEUE_DRIVER: 'sqlite' } });
    const inspector = await inspect(services);
    const random = randomFrom(0);
    const client = await connect(services.stream, { token: await services.token() });
    const ledger = new Ledger();
    const stopped = ledger.flood(services.tasks, random, 2);
    let killed = 0;
    await inspector.alive(/./, THREADS);
    for (const { pool, ticker } of [
      { pool: 1, ticker: 0 },
      { pool: 0, ticker: 1 },
      { pool: 2, ticker: 1 },
    ]) {
      await ledger.grows(random.below(30));
      const victims = [inspector.kill(/piscina/, pool), inspector.kill(/ticker/, ticker)];
      expect(victims.map(({ count }) => count)).to.deep.equal([pool, ticker]);
      killed += pool;
      await Promise.all(victims.map(({ dead }) => dead));
      await inspector.alive(/./, THREADS);
      await queueCounts(services.tasks);
    }
    const all = inspector.kill(/./);
    expect(all.count).to.equal(THREADS);
    killed += 2;
    await all.dead;
    await inspector.alive(/./, THREADS);
    await stopped();
    await ledger.settled(services);
    const retries = services.lines.filter(({ decision }) => decision === 'retry');
    expect(retries.length).to.be.at.most(killed);
    expect(retries.filter(({ failure }) => failure !== 'crash')).to.deep.equal([]);
    const second = Math.floor(Date.now() / 1000);
    while ((await client.nextOf('ticker')).data[0].timestamp <= second);
  });
});

describeWithSmallDisk('a full disk', () => {
  /** Kind of the ledger's task that is larger than a database page. */
  const LARGE = 2;

  it(`lets the durable queue refuse what it cannot store, and loses no accepted task, even at a stop ${seedNote}`, async () => {
    const disk = await mountSmallDisk(64);
    const { module, release } = await holdTasks();
    const settings = { DATA_DIR: disk.path, QUEUE_DRIVER: 'sqlite', SHUTDOWN_TIMEOUT_MS: '500' };
    const env = { ...settings, TASK_HANDLERS: module, TASK_UNKNOWN_ACTIONS: 'process' };
    const services = await startServices({ env });
    const client = await watchSteadily(services);
    const ledger = new Ledger();
    const random = randomFrom(2);
    const stopped = ledger.flood(services.tasks, random, 2);
    const submitLarge = () => ledger.submit(services.tasks, random, LARGE);
    for (let time = 0; time < 2; time++) {
      await ledger.grows(random.below(30));
      disk.fill();
      const readiness = () => submitLarge().then(() => request(`${services.admin}/readyz`));
      const isFailed = (answer: HttpResponse) => answer.body.checks.tasks_database.state === 'failed';
      const { status, body } = await eventually(readiness, isFailed);
      expect([status, body.status]).to.deep.equal([503, 'not ready']);
      expect(await submitLarge()).to.equal(500);
      expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
      expect((await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).status).to.equal(200);
      await queueCounts(services.tasks);
      await disk.free();
      await untilAnswer(`${services.admin}/readyz`, ({ body }) => body.checks.tasks_database.state === 'ok');
      await until(async () => (await submitLarge()) === 202);
    }
    await stopped();
    await ledger.settled(services);
    await client.checkAfterNextTick();

    const held: string[] = [];
    for (let i = 0; i < 20; i++) held.push((await post(`${services.tasks}/tasks`, { action: 'hold' })).body.id);
    disk.fill();
    expect(await services.end()).to.deep.include({ code: 0 });
    const last = services.lines.find(({ msg }) => msg.startsWith('stopped'));
    expect(last).to.include({ msg: 'stopped', unfinished: 20 });
    await disk.free();
    await release();
    const next = await startServices({ env });
    await ledger.settled(next);
    for (const id of held) expect((await request(`${next.tasks}/tasks/${id}`)).body.status, id).to.equal('completed');
  });
});

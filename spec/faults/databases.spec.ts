import { rename, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { holdTasks } from '../support/held-tasks.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { post, type RunningServices, request, startServices, untilAnswer } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

/** Damages or moves a database file. The returned function restores the file. */
type Fault = (path: string) => Promise<() => Promise<void>>;

const moveAway: Fault = async (path) => {
  await rename(path, `${path}.away`);
  return () => rename(`${path}.away`, path);
};

const replaceBy =
  (content: string): Fault =>
  async (path) => {
    const giveBack = await moveAway(path);
    await writeFile(path, content);
    return giveBack;
  };

const faults: Readonly<Record<string, Fault>> = {
  async locked(path) {
    const other = openBeside(dirname(path), basename(path));
    other.exec('BEGIN EXCLUSIVE');
    return async () => other.exec('ROLLBACK');
  },
  'taken away': moveAway,
  'replaced by garbage': replaceBy('garbage '.repeat(1000)),
  'replaced by an empty file': replaceBy(''),
  async 'replaced by another database'(path) {
    const giveBack = await moveAway(path);
    const folder = await temporaryFolder();
    migrate(folder);
    await rename(join(folder, basename(path)), path);
    return giveBack;
  },
};

const SPECIFIED = ['database unavailable', 'lookup failed', 'query failed', 'failed to queue task'];
const WAIT = 'results cannot be stored: all tasks wait';

const exchangeKey = ({ ticker, apiKey }: RunningServices) => post(`${ticker}/auth/token`, { api_key: apiKey });

/** Sends every request that needs a database. Each response must be a success or a specified error. */
async function ask(services: RunningServices): Promise<void> {
  const answers = await Promise.all([
    exchangeKey(services),
    request(`${services.tasks}/tasks`),
    request(`${services.tasks}/tasks?status=completed`),
  ]);
  for (const { status, body } of answers) {
    expect(status).to.be.oneOf([200, 500]);
    if (status === 500) expect(body).to.have.all.keys('error').and.property('error').that.is.oneOf(SPECIFIED);
  }
}

/** Waits until at least `count` tasks are listed, and returns their ids. */
async function listedIds({ tasks }: RunningServices, count: number): Promise<string[]> {
  const { body } = await untilAnswer(`${tasks}/tasks`, (answer) => answer.body.count >= count);
  return body.tasks.map(({ id }: { id: string }) => id);
}

describe('a process with the durable queue whose database', () => {
  it(`is locked, moved away or replaced refuses what it cannot store, and loses no task and no tick ${seedNote}`, async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
    const client = await watchSteadily(services);
    const ledger = new Ledger();
    const random = randomFrom(0);
    const stopped = ledger.flood(services.tasks, random, 2, 20);
    for (const name of ['auth.db', 'tasks.db']) {
      for (const [what, fault] of Object.entries(faults)) {
        await until(async () => (await ledger.submit(services.tasks, random)) === 202);
        const repair = await fault(join(DATA_DIR, name));
        for (let i = 2 + random.below(3); i > 0; i--) {
          await ask(services);
          const status = await ledger.submit(services.tasks, random);
          expect(status, `${name} ${what}`).to.equal(name === 'tasks.db' ? 500 : 202);
          await queueCounts(services.tasks);
        }
        await repair();
      }
    }
    await stopped();
    expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
    expect((await exchangeKey(services)).status).to.equal(200);
    await ledger.settled(services, DATA_DIR);
    await client.checkAfterNextTick();
    expect(services.lines.filter(({ level }) => level >= 60)).to.deep.equal([]);
    expect(await services.end()).to.deep.include({ code: 0 });
  });

  it('is away at SIGTERM exits with code 20, and the tasks are processed once the file is back', async () => {
    const { module: TASK_HANDLERS, release } = await holdTasks();
    const DATA_DIR = await temporaryFolder();
    const env = {
      DATA_DIR,
      QUEUE_DRIVER: 'sqlite',
      SHUTDOWN_TIMEOUT_MS: '500',
      TASK_HANDLERS,
      TASK_UNKNOWN_ACTIONS: 'process',
    };
    const services = await startServices({ env });
    const client = await connect(services.stream, { token: await services.token() });
    const ids: string[] = [];
    for (let i = 0; i < 10; i++) ids.push((await post(`${services.tasks}/tasks`, { action: 'hold' })).body.id);
    const giveBack = await moveAway(join(DATA_DIR, 'tasks.db'));
    services.child.kill('SIGTERM');
    expect((await client.closed).code).to.equal(1001);
    expect(await services.exited).to.deep.include({ code: 20 });
    await giveBack();
    await release();
    expect(await listedIds(await startServices({ env }), 10)).to.have.members(ids);
  });
});

describe('a process with the in-memory queue', () => {
  it('keeps its tasks while the databases are away or locked, and reports tables that are missing', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    await expectBackAfterAbsence(services, DATA_DIR);
    await expectStoredAfterLock(services, DATA_DIR);
    openBeside(DATA_DIR, 'auth.db').exec('DROP TABLE api_keys');
    openBeside(DATA_DIR).exec('DROP TABLE tasks');
    expect(await exchangeKey(services)).to.deep.include({ status: 500, body: { error: 'lookup failed' } });
    expect(await request(`${services.tasks}/tasks`)).to.deep.include({ status: 500, body: { error: 'query failed' } });
  });
});

async function expectBackAfterAbsence(services: RunningServices, folder: string): Promise<void> {
  const bringBack = await Promise.all(['auth.db', 'tasks.db'].map((name) => moveAway(join(folder, name))));
  const unavailable = { status: 500, body: { error: 'database unavailable' } };
  expect(await exchangeKey(services)).to.deep.include(unavailable);
  expect(await request(`${services.tasks}/tasks`)).to.deep.include(unavailable);
  const { body, status } = await post(`${services.tasks}/tasks`, { action: 'sum' });
  expect(status).to.equal(202);
  const pause = await services.logged(({ msg }) => msg === WAIT);
  expect(pause.reason).to.match(/tasks\.db does not exist$/);
  expect((await request(`${services.tasks}/tasks/${body.id}`)).body.status).to.be.oneOf(['queued', 'running']);

  for (const giveBack of bringBack) await giveBack();
  expect((await exchangeKey(services)).status).to.equal(200);
  expect(await listedIds(services, 1)).to.deep.equal([body.id]);
}

/** Submits tasks while the rows are locked. The queue has stored one task before. */
async function expectStoredAfterLock(services: RunningServices, folder: string): Promise<void> {
  const before = await listedIds(services, 1);
  const other = openBeside(folder);
  other.exec('BEGIN IMMEDIATE');
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => post(`${services.tasks}/tasks`, { action: 'sum' })),
  );
  await services.logged(({ msg, reason }) => msg === WAIT && reason === 'database is locked');
  expect((await request(`${services.tasks}/tasks`)).body.count).to.equal(1);
  other.exec('COMMIT');
  expect(await listedIds(services, 11)).to.have.members([...before, ...answers.map(({ body }) => body.id)]);
}

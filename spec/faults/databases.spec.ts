import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { randomFrom } from '../support/seed.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { itSurvivesDamage, lock, moveAway } from './damaged-databases.ts';

/** Opens a second connection to a database that a process has open. */
function openBeside(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 5000 });
  afterTest(() => database.close());
  return database;
}

const WAIT = 'results cannot be stored: all tasks wait';
describe('a database', () => {
  itSurvivesDamage('sqlite', ['auth.db', 'tasks.db', 'queue.db']);

  it('queue.db that is away at SIGTERM: an orderly end that reports its tasks as lost', async () => {
    const DATA_DIR = await temporaryFolder();
    const env = { DATA_DIR, QUEUE_DRIVER: 'sqlite', SHUTDOWN_TIMEOUT_MS: '500' };
    const services = await startServices({ env });
    const client = await connect(services.stream, { token: await services.token() });
    const ledger = new Ledger();
    const unlock = await lock(join(DATA_DIR, 'tasks.db'));
    for (let i = 0; i < 10; i++) await ledger.submit(services.tasks, randomFrom(i));
    const giveBack = await moveAway(join(DATA_DIR, 'queue.db'));
    services.child.kill('SIGTERM');
    expect((await client.closed).code).to.equal(1001);
    expect(await services.exited).to.deep.include({ code: 20 });
    const last = services.lines.at(-1);
    // A discarded task needs no row.
    expect(last)
      .to.include({ msg: 'stopped: accepted tasks are lost' })
      .and.property('unfinished')
      .that.is.within(1, 10);
    await unlock();
    await giveBack();
    await ledger.settled(await startServices({ env }), DATA_DIR);
  });

  it('that is taken away, then locked by another process, then has lost its table: errors, and every task once', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    await expectBackAfterAbsence(services, DATA_DIR);
    await expectStoredAfterLock(services, DATA_DIR);
    openBeside(join(DATA_DIR, 'auth.db')).exec('DROP TABLE api_keys');
    openBeside(join(DATA_DIR, 'tasks.db')).exec('DROP TABLE tasks');
    expect(await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).to.deep.include({
      status: 500,
      body: { error: 'lookup failed' },
    });
    expect(await request(`${services.tasks}/tasks`)).to.deep.include({ status: 500, body: { error: 'query failed' } });
  });
});

async function expectBackAfterAbsence(services: RunningServices, folder: string): Promise<void> {
  const bringBack = await Promise.all(['auth.db', 'tasks.db'].map((name) => moveAway(join(folder, name))));
  const unavailable = { status: 500, body: { error: 'database unavailable' } };
  expect(await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).to.deep.include(unavailable);
  expect(await request(`${services.tasks}/tasks`)).to.deep.include(unavailable);
  const { body, status } = await post(`${services.tasks}/tasks`, { action: 'sum' });
  expect(status).to.equal(202);
  const pause = await services.logged(({ msg }) => msg === WAIT);
  expect(pause.reason).to.match(/tasks\.db does not exist$/);
  expect((await request(`${services.tasks}/tasks/${body.id}`)).body.status).to.be.oneOf(['queued', 'running']);

  for (const giveBack of bringBack) await giveBack();
  expect((await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).status).to.equal(200);
  expect(await listedIds(services, 1)).to.deep.equal([body.id]);
}

/** Submits tasks while the rows are locked. The queue has stored one task before. */
async function expectStoredAfterLock(services: RunningServices, folder: string): Promise<void> {
  const before = await listedIds(services, 1);
  const other = openBeside(join(folder, 'tasks.db'));
  other.exec('BEGIN IMMEDIATE');
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => post(`${services.tasks}/tasks`, { action: 'sum' })),
  );
  await services.logged(({ msg, reason }) => msg === WAIT && reason === 'database is locked');
  expect((await request(`${services.tasks}/tasks`)).body.count).to.equal(1);
  other.exec('COMMIT');
  expect(await listedIds(services, 11)).to.have.members([...before, ...answers.map(({ body }) => body.id)]);
}

/** Waits until at least `count` tasks are listed, and returns their ids. */
async function listedIds({ tasks }: RunningServices, count: number): Promise<string[]> {
  const { body } = await eventually(
    () => request(`${tasks}/tasks`),
    (answer) => answer.body.count >= count,
  );
  return body.tasks.map(({ id }: { id: string }) => id);
}

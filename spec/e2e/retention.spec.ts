import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices, untilTask } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { eventually } from '../support/until.ts';

const DAY = 86_400;

/** Returns the id of an old row. */
const oldId = (row: number) => `00000000-0000-4000-8000-${String(row).padStart(12, '0')}`;

/** Creates a data folder with rows of past days, and a connection to them. */
async function aged(rows: number): Promise<{ DATA_DIR: string; count: () => number }> {
  const DATA_DIR = await temporaryFolder();
  migrate(DATA_DIR);
  const tasks = new DatabaseSync(join(DATA_DIR, 'tasks.db'), { timeout: 5000 });
  afterTest(() => tasks.close());
  const insert = tasks.prepare(
    "INSERT INTO tasks (rowid, id, payload, status, result, created_at, processed_at) VALUES (?1, ?2, ?3, 'completed', '{\"output\":0}', ?4, ?4)",
  );
  const then = Math.floor(Date.now() / 1000) - 3 * DAY;
  tasks.exec('BEGIN');
  for (let row = 1; row <= rows; row++) {
    const message = { id: oldId(row), action: 'sum', data: {}, created_at: then };
    insert.run(row, message.id, JSON.stringify(message), then);
  }
  tasks.exec('COMMIT');
  return { DATA_DIR, count: () => tasks.prepare('SELECT count(*) AS count FROM tasks').get()?.count as number };
}

async function settled({ tasks }: RunningServices): Promise<void> {
  await eventually(
    () => queueCounts(tasks),
    ({ waiting, delayed, in_flight }) => waiting + delayed + in_flight === 0,
  );
}

describe('retention', () => {
  it(`of a number of rows: under load the older ones go, and nothing is held up ${seedNote}`, async () => {
    const { DATA_DIR, count } = await aged(5000);
    const services = await startServices({ env: { DATA_DIR, TASK_RETENTION_ROWS: '500' } });
    const ledger = new Ledger();
    const random = randomFrom(0);
    let over = false;
    const load = ledger.flood(services.tasks, random, { clients: 4, over: () => over });
    await eventually(
      async () => {
        const { status, body } = await request(`${services.tasks}/tasks`);
        expect(status).to.equal(200);
        expect(body.count).to.equal(100);
      },
      () => count() <= 600 + 2 * ledger.size && ledger.size >= 300,
    );
    over = true;
    await load;
    await settled(services);
    await eventually(count, (rows) => rows <= 500);
    expect(count()).to.equal(500);
    expect(await request(`${services.tasks}/tasks/${oldId(1)}`)).to.deep.include({
      status: 404,
      body: { error: 'task not found' },
    });
    const last = await post(`${services.tasks}/tasks`, { action: 'sum' });
    await untilTask(services.tasks, last.body.id);
    services.child.kill('SIGTERM');
    expect(await services.exited).to.deep.include({ code: 0 });
    expect(services.lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
  }).timeout(60_000);

  it('of days: old rows go, those of today stay', async () => {
    const { DATA_DIR, count } = await aged(1000);
    const services = await startServices({ env: { DATA_DIR, TASK_RETENTION_DAYS: '2' } });
    for (let time = 0; time < 5; time++) await post(`${services.tasks}/tasks`, { action: 'sum' });
    await settled(services);
    await eventually(count, (rows) => rows <= 5);
    expect((await request(`${services.tasks}/tasks`)).body.count).to.equal(5);
  });

  it('is off unless it is asked for: every row stays', async () => {
    const { DATA_DIR, count } = await aged(1000);
    const services = await startServices({ env: { DATA_DIR } });
    const { body } = await post(`${services.tasks}/tasks`, { action: 'sum' });
    await settled(services);
    expect((await request(`${services.tasks}/tasks/${body.id}`)).body.status).to.equal('completed');
    expect(count()).to.equal(1001);
  });
});

import { expect } from 'chai';
import { Ledger, untilIdle } from '../support/ledger.ts';
import { migratedFolder, openBeside } from '../support/migrated-folder.ts';
import { request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { until } from '../support/until.ts';

const OLD_ROWS = 5000;
const [OLDEST, TASK_RETENTION_ROWS] = ['00000000-0000-4000-8000-000000000001', '500'];

/** Creates a data folder with many rows of three days ago. Returns a connection to them. */
async function agedFolder() {
  const DATA_DIR = await migratedFolder();
  const rows = openBeside(DATA_DIR);
  const then = Math.floor(Date.now() / 1000) - 3 * 86_400;
  rows.exec(`WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${OLD_ROWS})
    INSERT INTO tasks (rowid, id, payload, status, result, created_at, processed_at)
    SELECT n, format('00000000-0000-4000-8000-%012d', n), '{"action":"sum"}', 'completed', '{}', ${then}, ${then} FROM numbers`);
  const count = () => rows.prepare('SELECT count(*) AS count FROM tasks').get()?.count as number;
  return { DATA_DIR, count };
}

describe('retention', () => {
  it(`keeps the newest TASK_RETENTION_ROWS rows under load, and delays no request ${seedNote}`, async () => {
    const { DATA_DIR, count } = await agedFolder();
    const services = await startServices({ env: { DATA_DIR, TASK_RETENTION_ROWS } });
    const ledger = new Ledger();
    const stopped = ledger.flood(services.tasks, randomFrom(0));
    await until(async () => {
      const { status, body } = await request(`${services.tasks}/tasks`);
      expect([status, body.count]).to.deep.equal([200, 100]);
      return count() <= 600 + 2 * ledger.size && ledger.size >= 300;
    });
    await stopped();
    await untilIdle(services.tasks);
    await until(() => count() <= 500);
    expect(count()).to.equal(500);
    const missing = { status: 404, body: { error: 'task not found' } };
    expect(await request(`${services.tasks}/tasks/${OLDEST}`)).to.deep.include(missing);
    expect(await services.end()).to.deep.include({ code: 0 });
    expect(services.lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
  });
});

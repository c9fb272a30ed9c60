import { expect } from 'chai';
import { Ledger } from '../support/ledger.ts';
import { migratedFolder, openBeside } from '../support/migrated-folder.ts';
import { request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { until } from '../support/until.ts';

const [OLD_ROWS, KEPT_ROWS] = [5000, 500];

describe('retention', () => {
  it(`keeps the newest TASK_RETENTION_ROWS rows under load, and delays no request ${seedNote}`, async () => {
    const DATA_DIR = await migratedFolder();
    const rows = openBeside(DATA_DIR);
    rows.exec(`WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ${OLD_ROWS})
      INSERT INTO tasks (rowid, id, payload, status, result, created_at, processed_at)
      SELECT n, format('00000000-0000-4000-8000-%012d', n), '{"action":"sum"}', 'completed', '{}', 1, 1 FROM numbers`);
    const count = () => rows.prepare('SELECT count(*) AS count FROM tasks').get()?.count as number;
    const services = await startServices({ env: { DATA_DIR, TASK_RETENTION_ROWS: `${KEPT_ROWS}` } });
    const ledger = new Ledger();
    const stopped = ledger.flood(services.tasks, randomFrom(0));
    await until(async () => {
      const { status, body } = await request(`${services.tasks}/tasks`);
      expect([status, body.count]).to.deep.equal([200, 100]);
      return count() <= 600 + 2 * ledger.size && ledger.size >= 300;
    });
    await stopped();
    await until(() => count() === KEPT_ROWS);
    const oldest = `${services.tasks}/tasks/00000000-0000-4000-8000-000000000001`;
    expect((await request(oldest)).body).to.deep.equal({ error: 'task not found' });
    expect(await services.end()).to.deep.include({ code: 0 });
    expect(services.lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
  });
});

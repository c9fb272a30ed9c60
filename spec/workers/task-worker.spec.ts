import { readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { BatchRunner } from '../../main/tasks/pool/batch-runner.ts';
import { workerFile } from '../../main/worker-file.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { unheard } from '../tasks/pool/running.ts';

/** Starts a thread of workers/task-worker with an empty database, and a second connection to the database. */
async function start() {
  const dataDir = await temporaryFolder();
  migrate(dataDir);
  const file = join(dataDir, 'tasks.db');
  const runner = await BatchRunner.start({
    file: workerFile('task-worker'),
    threads: 1,
    timeoutMs: 60_000,
    memoryMb: 64,
    workerData: { dataDir, writeLock: new SharedArrayBuffer(4) },
    log: captureLog().log,
  });
  afterTest(() => runner.destroy());
  const beside = new DatabaseSync(file);
  afterTest(() => beside.close());
  const runBatch = (...bodies: string[]) => runner.run(bodies.map((body) => ({ ...unheard, body }))).outcomes;
  const work = async (body: string) => (await runBatch(body))[0];
  const task = (id: string, action: string, data: object) => work(JSON.stringify({ id, action, data, created_at: 5 }));
  const rows = () => beside.prepare('SELECT * FROM tasks ORDER BY rowid').all();
  return { file, beside, work, runBatch, task, rows };
}

/**
 * Counts the transactions in a write-ahead log. The last frame of each transaction contains the size of the database.
 */
function commits(path: string): number {
  const log = readFileSync(path);
  const frameBytes = 24 + log.readUInt32BE(8);
  let count = 0;
  for (let frame = 32; frame < log.length; frame += frameBytes) if (log.readUInt32BE(frame + 4) > 0) count += 1;
  return count;
}

const unstored = (reason: string) => ({ ended: 'unstored', reason });
const raised = (reason: string, permanent: boolean) => ({ ended: 'raised', reason, permanent });

describe('a task thread', () => {
  it('stores the row of a task: the message text unchanged, its output, and when it was done', async () => {
    const { work, rows } = await start();
    const body = '{"id": "a",  "action":"uppercase","data":{"text":"\\u00fc","__proto__":1},"created_at":5}';
    const before = Math.floor(Date.now() / 1000);
    expect(await work(body)).to.deep.equal({ ended: 'returned' });
    const [row, ...others] = rows();
    expect(others).to.deep.equal([]);
    const { processed_at, ...rest } = row ?? {};
    expect(rest).to.deep.equal({
      id: 'a',
      payload: body,
      status: 'completed',
      result: '{"output":"Ü"}',
      created_at: 5,
    });
    expect(processed_at)
      .to.satisfy(Number.isSafeInteger)
      .and.to.be.within(before, Date.now() / 1000);
  });

  it('stores what each action gives', async () => {
    const { task, rows } = await start();
    await task('a', 'uppercase', {});
    await task('b', 'sum', { numbers: [0.1, 0.2] });
    await task('c', 'sum', {});
    await task('d', 'anything', { deep: [[{}]] });
    expect(rows().map(({ result }) => result)).to.deep.equal([
      '{"output":""}',
      '{"output":0.30000000000000004}',
      '{"output":0}',
      '{"output":"processed"}',
    ]);
  });

  it('replaces the row of a task that it is given again', async () => {
    const { task, rows } = await start();
    await task('a', 'uppercase', { text: 'old' });
    await task('a', 'uppercase', { text: 'new' });
    expect(rows().map(({ id, result }) => [id, result])).to.deep.equal([['a', '{"output":"NEW"}']]);
  });

  it('stores no row for a task that cannot succeed', async () => {
    const { task, rows } = await start();
    expect(await task('a', 'sum', { numbers: ['1'] })).to.deep.equal(
      raised('data.numbers must hold finite numbers only', true),
    );
    expect(rows()).to.deep.equal([]);
  });

  it('raises an error while the database is away, and stores when it is back', async () => {
    const { file, task, rows } = await start();
    await task('a', 'sum', {});
    renameSync(file, `${file}.away`);
    expect(await task('b', 'sum', {})).to.deep.equal(unstored(`${file} does not exist`));
    renameSync(`${file}.away`, file);
    expect(await task('c', 'sum', {})).to.deep.equal({ ended: 'returned' });
    expect(rows().map(({ id }) => id)).to.deep.equal(['a', 'c']);
  });

  it('raises an error when the row cannot be stored', async () => {
    const { beside, task } = await start();
    beside.exec('DROP TABLE tasks');
    expect(await task('a', 'sum', {})).to.deep.equal(unstored('no such table: tasks'));
  });

  it('stores the rows of a batch in one transaction', async () => {
    const { runBatch, file, task, rows } = await start();
    const body = (id: string) => JSON.stringify({ id, action: 'sum', data: {}, created_at: 5 });
    await task('first', 'sum', {});
    const before = commits(`${file}-wal`);
    expect(await runBatch(body('a'), body('b'), body('c'))).to.deep.equal(Array(3).fill({ ended: 'returned' }));
    expect(commits(`${file}-wal`)).to.equal(before + 1);
    expect(rows().map(({ id }) => id)).to.deep.equal(['first', 'a', 'b', 'c']);
  });

  it('stores the others of a batch when one row cannot be', async () => {
    const { runBatch, beside, rows } = await start();
    beside.exec(`CREATE TRIGGER t BEFORE INSERT ON tasks WHEN new.id = 'b' BEGIN SELECT RAISE(ABORT, 'not b'); END`);
    const body = (id: string) => JSON.stringify({ id, action: 'sum', data: {}, created_at: 5 });
    expect(await runBatch(body('a'), body('b'), body('c'))).to.deep.equal([
      { ended: 'returned' },
      raised('not b', false),
      { ended: 'returned' },
    ]);
    expect(rows().map(({ id }) => id)).to.deep.equal(['a', 'c']);
  });
});

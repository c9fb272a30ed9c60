import { expect } from 'chai';
import { BatchRunner } from '../../main/tasks/pool/batch-runner.ts';
import { workerFile } from '../../main/worker-file.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { describeWithPostgres, migratedSchema } from '../support/servers.ts';
import { unheard } from '../tasks/pool/running.ts';

/** Starts a thread of workers/task-worker with empty tables. */
async function start({ url: databaseUrl, sql }: Awaited<ReturnType<typeof migratedSchema>>) {
  const runner = await BatchRunner.start({
    file: workerFile('task-worker'),
    threads: 1,
    timeoutMs: 60_000,
    memoryMb: 64,
    workerData: { databaseUrl },
    log: captureLog().log,
  });
  afterTest(() => runner.destroy());
  const runBatch = (...bodies: string[]) =>
    runner.run(bodies.map((body, index) => ({ ...unheard, body, sequence: index }))).outcomes;
  const rows = () => sql('SELECT * FROM tasks ORDER BY arrival');
  return { sql, runBatch, rows };
}

const body = (id: string, text = '') => JSON.stringify({ id, action: 'uppercase', data: { text }, created_at: 5 });
const returned = { ended: 'returned' };

describeWithPostgres('a task thread over PostgreSQL', () => {
  it('stores the rows of a batch: the message texts unchanged, their output, their place, and when they were done', async () => {
    const { runBatch, rows } = await start(await migratedSchema());
    const before = Math.floor(Date.now() / 1000);
    const texts = [
      body('a', 'ü"\\{}'),
      body('b', 'nul \0 and half \ud800'),
      '{ "id": "c", "action":"sum","data":{},"created_at":6 }',
    ];
    expect(await runBatch(...texts)).to.deep.equal([returned, returned, returned]);
    const stored = await rows();
    expect(stored.map(({ processed_at, ...rest }) => rest)).to.deep.equal([
      { id: 'a', payload: texts[0], status: 'completed', result: '{"output":"Ü\\"\\\\{}"}', created_at: 5, arrival: 0 },
      {
        id: 'b',
        payload: texts[1],
        status: 'completed',
        result: '{"output":"NUL \\u0000 AND HALF \\ud800"}',
        created_at: 5,
        arrival: 1,
      },
      { id: 'c', payload: texts[2], status: 'completed', result: '{"output":0}', created_at: 6, arrival: 2 },
    ]);
    for (const { processed_at } of stored) expect(processed_at).to.be.within(before, Date.now() / 1000);
  });

  it('stores the others of a batch when one row is refused', async () => {
    const { runBatch, sql, rows } = await start(await migratedSchema());
    await sql("ALTER TABLE tasks ADD CONSTRAINT not_b CHECK (id <> 'b')");
    const reason = 'new row for relation "tasks" violates check constraint "not_b"';
    expect(await runBatch(body('a'), body('b'), body('c'))).to.deep.equal([
      returned,
      { ended: 'raised', reason, permanent: false },
      returned,
    ]);
    expect((await rows()).map(({ id }) => id)).to.deep.equal(['a', 'c']);
  });

  it('counts no crash while the server is away, and stores when it is back', async () => {
    const server = await startPostgres();
    afterTest(() => server.remove());
    const { runBatch } = await start(await migratedSchema(server));
    expect(await runBatch(body('a'))).to.deep.equal([returned]);
    await server.stop();
    // The first batch finds its connection closed; the second one cannot connect.
    for (const reason of [/: start it, or fix DATABASE_URL$/, /^cannot reach PostgreSQL at .*: connect ECONNREFUSED/]) {
      for (const outcome of await runBatch(body('b'), body('c'))) {
        expect(outcome).to.have.property('ended', 'unstored');
        expect(outcome).to.have.property('reason').that.matches(reason);
      }
    }
    await server.start();
    expect(await runBatch(body('b'), body('c'))).to.deep.equal([returned, returned]);
  });

  it('counts no crash when the table is gone', async () => {
    const { runBatch, sql } = await start(await migratedSchema());
    await sql('DROP TABLE tasks');
    const reason = 'relation "tasks" does not exist';
    expect(await runBatch(body('a'), body('b'))).to.deep.equal(Array(2).fill({ ended: 'unstored', reason }));
  });
});

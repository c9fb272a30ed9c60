import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { post, request, startProgram, startServices } from '../support/program.ts';
import { eventually } from '../support/until.ts';

const submit = async (tasks: string, action = 'sum', headers = {}) =>
  (await request(`${tasks}/tasks`, { method: 'POST', body: JSON.stringify({ action }), headers })).body.id as string;

/** Opens a database and holds its write lock until `COMMIT`. */
function lockRows(dataDir: string): DatabaseSync {
  const database = new DatabaseSync(join(dataDir, 'tasks.db'));
  afterTest(() => database.close());
  database.exec('BEGIN IMMEDIATE');
  return database;
}

describe('a deploy with the in-memory queue', () => {
  it('loses nothing: on SIGTERM what cannot be finished in time is left to the next process, which cannot begin before', async () => {
    const env = { DATA_DIR: await temporaryFolder(), SHUTDOWN_TIMEOUT_MS: '300' };
    const first = await startServices({ env });
    const early = await startProgram({ env });
    expect((await early.exited).code).to.equal(1);
    const { msg } = early.lines.at(-1) ?? {};
    expect(msg).to.equal(`${env.DATA_DIR} is in use: stop the services that use it, or set DATA_DIR to another folder`);
    const dead = (await post(`${first.tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } })).body.id;
    await first.logged(({ msg }) => msg === 'task failed');
    const rows = lockRows(env.DATA_DIR);
    const ids = new Set<string>();
    for (let i = 0; i < 20; i++) ids.add(await submit(first.tasks));
    const named = await submit(first.tasks, 'sum', { 'Idempotency-Key': 'k' });
    ids.add(named);
    first.child.kill('SIGTERM');
    expect(await first.exited).to.deep.include({ code: 0 });
    expect(first.lines.at(-1)).to.include({ level: 30, msg: 'stopped', unfinished: 21 });
    rows.exec('COMMIT');

    const second = await startServices({ env });
    const stored = rows.prepare('SELECT id FROM tasks');
    const kept = await eventually(
      () => stored.all(),
      ({ length }) => length >= 21,
    );
    expect(kept.map(({ id }) => id)).to.have.members([...ids]);
    expect((await request(`${second.tasks}/tasks/${dead}`)).body).to.include({ status: 'failed', attempts: 1 });
    expect(await submit(second.tasks, 'sum', { 'Idempotency-Key': 'k' })).to.equal(named);

    second.child.kill('SIGTERM');
    expect(await second.exited).to.deep.include({ code: 0 });
    // All tasks completed in the second process, so the third one has only the dead letter.
    const third = await startServices({ env });
    const { body } = await request(`${third.tasks}/queue`);
    expect(body).to.include({ accepted: 1, dead: 1, waiting: 0, delayed: 0, in_flight: 0 });
    expect(stored.all()).to.have.length(21);
  });

  it('logs that tasks could not be kept, and exits with a distinct code', async () => {
    const env = { DATA_DIR: await temporaryFolder(), SHUTDOWN_TIMEOUT_MS: '200' };
    const first = await startServices({ env });
    lockRows(env.DATA_DIR);
    const queue = new DatabaseSync(join(env.DATA_DIR, 'queue.db'));
    afterTest(() => queue.close());
    queue.exec('BEGIN IMMEDIATE');
    await submit(first.tasks);
    first.child.kill('SIGTERM');
    expect(await first.exited).to.deep.include({ code: 20 });
    expect(first.lines.at(-1)).to.include({ level: 40, msg: 'stopped: accepted tasks are lost', unfinished: 1 });
  });
});

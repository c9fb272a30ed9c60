import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { post, type RunningServices, request, startServices, untilAnswer } from '../support/program.ts';

/** Waits until `/readyz` responds with a status, because of the check `because` if given. Returns the checks. */
async function checksWhen({ admin }: RunningServices, status: number, because?: string) {
  const { body } = await untilAnswer(
    `${admin}/readyz`,
    (answer) => answer.status === status && (because === undefined || answer.body.checks[because].state === 'failed'),
  );
  expect(body.status).to.equal(status === 200 ? 'ready' : 'not ready');
  return body.checks;
}

describe('the admin listener of a process', () => {
  it('is ready unless a database is gone or locked, or the services stop, and names the failed check', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const path = (file: string) => join(DATA_DIR, file);
    const names = 'shutdown auth_database ticker tasks_database task_threads task_queue token_store';
    const healthy = await checksWhen(services, 200);
    expect(Object.keys(healthy)).to.have.members([...names.split(' '), 'queue_paused', 'dead_letters', 'log']);
    for (const check of Object.values(healthy)) expect(check).to.deep.equal({ state: 'ok' });

    for (const [file, name] of Object.entries({ 'auth.db': 'auth_database', 'tasks.db': 'tasks_database' })) {
      await rename(path(file), path('away'));
      const checks = await checksWhen(services, 503, name);
      expect(checks[name]).to.deep.equal({ state: 'failed', detail: `${path(file)} does not exist` });
      expect((await request(`${services.admin}/healthz`)).status).to.equal(200);
      await rename(path('away'), path(file));
      await checksWhen(services, 200);
    }

    const database = openBeside(DATA_DIR);
    const postWhileLocked = () => {
      database.exec('BEGIN EXCLUSIVE');
      return post(`${services.tasks}/tasks`, { action: 'sum' });
    };
    await postWhileLocked();
    const locked = await checksWhen(services, 503, 'task_queue');
    expect(locked.task_queue).to.deep.equal({ state: 'failed', detail: 'database is locked' });
    database.exec('ROLLBACK');
    await checksWhen(services, 200);

    await postWhileLocked();
    services.child.kill('SIGTERM');
    const { shutdown } = await checksWhen(services, 503, 'shutdown');
    expect(shutdown).to.deep.equal({ state: 'failed', detail: 'shutting down' });
    database.exec('ROLLBACK');
    expect((await services.exited).code).to.equal(0);
    expect(services.lines.at(-1)).to.include({ msg: 'stopped', unfinished: 0 });
  });
});

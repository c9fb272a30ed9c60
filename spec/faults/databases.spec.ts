import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';

/** A second connection to a database that a process has open. */
function openBeside(path: string): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: 5000 });
  afterTest(() => database.close());
  return database;
}

const WAIT = 'what is done cannot be written down: all tasks wait';

describe('a database', () => {
  it('that is taken away and given back: errors meanwhile, nothing lost', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    for (const name of ['auth.db', 'tasks.db']) await rename(join(DATA_DIR, name), join(DATA_DIR, `${name}.away`));

    const unavailable = { status: 500, body: { error: 'database unavailable' } };
    expect(await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).to.deep.include(unavailable);
    expect(await request(`${services.tasks}/tasks`)).to.deep.include(unavailable);
    const { body, status } = await post(`${services.tasks}/tasks`, { action: 'sum' });
    expect(status).to.equal(202);
    const pause = await services.logged(({ msg }) => msg === WAIT);
    expect(pause.reason).to.match(/tasks\.db does not exist$/);
    expect((await request(`${services.tasks}/tasks/${body.id}`)).body.status).to.be.oneOf(['queued', 'running']);

    for (const name of ['auth.db', 'tasks.db']) await rename(join(DATA_DIR, `${name}.away`), join(DATA_DIR, name));
    expect((await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).status).to.equal(200);
    for (;;) {
      const { body: listing } = await request(`${services.tasks}/tasks`);
      if (listing.count === 1) break;
    }
  });

  it('that is locked by another process: tasks wait, are tried again, and are stored once', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    const other = openBeside(join(DATA_DIR, 'tasks.db'));
    other.exec('BEGIN IMMEDIATE');
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => post(`${services.tasks}/tasks`, { action: 'sum' })),
    );
    const pause = await services.logged(({ msg }) => msg === WAIT);
    expect(pause.reason).to.equal('database is locked');
    expect((await request(`${services.tasks}/tasks`)).body.count).to.equal(0);
    other.exec('COMMIT');
    for (;;) {
      const { body } = await request(`${services.tasks}/tasks`);
      if (body.count < 10) continue;
      const ids = body.tasks.map(({ id }: { id: string }) => id);
      expect(ids).to.have.members(answers.map(({ body: { id } }) => id));
      break;
    }
  });

  it('that has lost its table: 500 with the error of the query', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR } });
    openBeside(join(DATA_DIR, 'auth.db')).exec('DROP TABLE api_keys');
    openBeside(join(DATA_DIR, 'tasks.db')).exec('DROP TABLE tasks');
    expect(await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).to.deep.include({
      status: 500,
      body: { error: 'lookup failed' },
    });
    expect(await request(`${services.tasks}/tasks`)).to.deep.include({ status: 500, body: { error: 'query failed' } });
  });
});

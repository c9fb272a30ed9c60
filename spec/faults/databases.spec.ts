import { rename, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { openBeside } from '../support/migrated-folder.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { until } from '../support/until.ts';

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

const exchangeKey = ({ ticker, apiKey }: RunningServices) => post(`${ticker}/auth/token`, { api_key: apiKey });

/** Sends every request that needs a database. The contract says which errors are allowed. */
async function ask(services: RunningServices): Promise<void> {
  const paths = ['/tasks', '/tasks?status=completed'];
  const answers = [exchangeKey(services), ...paths.map((path) => request(services.tasks + path))];
  for (const { status } of await Promise.all(answers)) expect(status).to.be.oneOf([200, 500]);
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
});

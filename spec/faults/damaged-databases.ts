import { rename, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';
import { eventually } from '../support/until.ts';

/** Damages or moves a database file. The returned function restores the file. */
type Fault = (path: string) => Promise<() => Promise<void>>;

export const moveAway: Fault = async (path) => {
  await rename(path, `${path}.away`);
  return () => rename(`${path}.away`, path);
};

export const lock: Fault = async (path) => {
  const other = new DatabaseSync(path, { timeout: 5000 });
  other.exec('BEGIN EXCLUSIVE');
  return async () => other.close();
};

const faults: Readonly<Record<string, Fault>> = {
  locked: lock,
  'taken away': moveAway,
  async 'replaced by garbage'(path) {
    const giveBack = await moveAway(path);
    await writeFile(path, 'garbage '.repeat(1000));
    return giveBack;
  },
  async 'replaced by an empty file'(path) {
    const giveBack = await moveAway(path);
    await writeFile(path, '');
    return giveBack;
  },
  async 'replaced by another database'(path) {
    const giveBack = await moveAway(path);
    const folder = await temporaryFolder();
    migrate(folder);
    await rename(join(folder, basename(path)), path);
    return giveBack;
  },
};

const SPECIFIED = ['database unavailable', 'lookup failed', 'query failed', 'failed to queue task'];

/** Sends every request that needs a database. Each response must be a success or a specified error. */
async function ask(services: RunningServices): Promise<void> {
  const answers = await Promise.all([
    post(`${services.ticker}/auth/token`, { api_key: services.apiKey }),
    request(`${services.tasks}/tasks`),
    request(`${services.tasks}/tasks?status=completed`),
  ]);
  for (const { status, body } of answers) {
    expect(status).to.be.oneOf([200, 500]);
    if (status === 500) expect(body).to.have.all.keys('error').and.property('error').that.is.oneOf(SPECIFIED);
  }
}

/** Defines the spec that damages the databases of a process with that queue, one after the other. */
export function itSurvivesDamage(driver: 'memory' | 'sqlite', databases: readonly string[]): void {
  it(`that is locked, taken away, replaced, ${databases.join(' and ')} under the ${driver} queue: nothing lost ${seedNote}`, async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR, QUEUE_DRIVER: driver } });
    const client = await watchSteadily(services);
    const ledger = new Ledger();
    const random = randomFrom(driver.length);
    let over = false;
    const load = ledger.flood(services.tasks, random, { clients: 2, pauseMs: 20, over: () => over });
    for (const name of databases) {
      for (const [what, fault] of Object.entries(faults)) {
        await eventually(
          () => ledger.submit(services.tasks, random),
          (status) => status === 202,
        );
        const mend = await fault(join(DATA_DIR, name));
        for (let i = 2 + random.below(3); i > 0; i--) {
          await ask(services);
          const status = await ledger.submit(services.tasks, random);
          expect(status, `${name} ${what}`).to.equal(name === 'queue.db' ? 500 : 202);
          await queueCounts(services.tasks);
        }
        await mend();
      }
    }
    over = true;
    await load;
    for (const address of [`${services.tasks}/tasks`, `${services.ticker}/`]) {
      expect((await request(address)).status).to.equal(200);
    }
    expect((await post(`${services.ticker}/auth/token`, { api_key: services.apiKey })).status).to.equal(200);
    await ledger.settled(services, DATA_DIR);
    await client.checkAfterNextTick();
    expect(services.lines.filter(({ level }) => level >= 60)).to.deep.equal([]);
    services.child.kill('SIGTERM');
    expect(await services.exited).to.deep.include({ code: 0 });
  }).timeout(60_000);
}

import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { Ledger } from '../support/ledger.ts';
import { post, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';

describe('a backup under load', () => {
  it(`holds every task accepted before it, and either queue driver continues with them ${seedNote}`, async () => {
    const dataDir = await temporaryFolder();
    const folder = join(await temporaryFolder(), 'copy');
    const first = await startServices({ env: { DATA_DIR: dataDir, QUEUE_DRIVER: 'sqlite' } });
    const client = await watchSteadily(first);
    const random = randomFrom(0);
    const [before, others] = [new Ledger(), new Ledger()];
    // Submissions continue until the process is killed.
    const load = others.flood(first.tasks, random, { clients: 2 });
    await before.flood(first.tasks, random, { clients: 4, over: () => before.size >= 50 });
    expect(await runCommand('backup', [folder], { dataDir })).to.include({ code: 0, stderr: '' });
    await others.grows(20);
    await client.checkAfterNextTick();
    first.child.kill('SIGKILL');
    await Promise.all([first.exited, load]);

    for (const driver of ['sqlite', 'memory']) {
      const restored = join(await temporaryFolder(), 'restored');
      cpSync(folder, restored, { recursive: true });
      for (const file of ['auth.db', 'tasks.db']) {
        const database = new DatabaseSync(join(restored, file));
        expect(database.prepare('PRAGMA integrity_check').all(), file).to.deep.equal([{ integrity_check: 'ok' }]);
        database.close();
      }
      const second = await startServices({ env: { DATA_DIR: restored, QUEUE_DRIVER: driver } });
      await before.settled(second, restored, driver === 'sqlite');
      expect((await post(`${second.ticker}/auth/token`, { api_key: first.apiKey })).status).to.equal(200);
      expect(await second.end()).to.deep.include({ code: 0 });
    }
  });
});

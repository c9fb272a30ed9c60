import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { Ledger } from '../support/ledger.ts';
import { runOn } from '../support/migrated-folder.ts';
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
    const ended = others.flood(first.tasks, random, 2);
    const stopped = before.flood(first.tasks, random);
    await before.grows(50);
    await stopped();
    expect(await runCommand('backup', [folder], { dataDir })).to.include({ code: 0, stderr: '' });
    await others.grows(20);
    await client.checkAfterNextTick();
    await first.end('SIGKILL');
    await ended();

    for (const driver of ['sqlite', 'memory']) {
      const restored = join(await temporaryFolder(), 'restored');
      cpSync(folder, restored, { recursive: true });
      for (const file of ['auth.db', 'tasks.db'])
        expect(runOn(restored, 'PRAGMA integrity_check', file)).to.deep.equal([{ integrity_check: 'ok' }]);
      const second = await startServices({ env: { DATA_DIR: restored, QUEUE_DRIVER: driver } });
      await before.settled(second, restored, driver === 'sqlite');
      expect((await post(`${second.ticker}/auth/token`, { api_key: first.apiKey })).status).to.equal(200);
      expect(await second.end()).to.deep.include({ code: 0 });
    }
  });
});

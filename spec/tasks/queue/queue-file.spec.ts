import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { defaults } from '../../../main/config.ts';
import { openQueue } from '../../../main/tasks/queue/open.ts';
import { publishAll } from '../../drivers/inbox.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { until } from '../../support/until.ts';

async function start(driver: 'memory' | 'sqlite' = 'sqlite') {
  const dataDir = await temporaryFolder();
  migrate(dataDir);
  const opened = openQueue({ ...defaults.queue, driver }, dataDir, captureLog().log);
  afterTest(() => opened.close());
  return { ...opened, path: join(dataDir, 'queue.db') };
}

describe('the check of the queue file', () => {
  it('is healthy from the start', async () => {
    const { fileProblem } = await start();
    expect(fileProblem?.()).to.equal(undefined);
  });

  it('names a file that was deleted, before any submission fails', async () => {
    const { fileProblem, path } = await start();
    renameSync(path, `${path}.away`);
    expect(fileProblem?.()).to.equal(`${path} does not exist`);
    renameSync(`${path}.away`, path);
    expect(fileProblem?.()).to.equal(undefined);
  });

  it('fails with the first failed write, and recovers without another submission', async () => {
    const { queue, fileProblem, path } = await start();
    const other = new DatabaseSync(path);
    afterTest(() => other.close());
    other.exec('BEGIN IMMEDIATE');
    expect(await publishAll(queue, 'a').catch(({ message }) => message)).to.equal('database is locked');
    expect(fileProblem?.()).to.equal('database is locked');
    other.exec('COMMIT');
    await until(() => fileProblem?.() === undefined);
    await publishAll(queue, 'b');
  });

  it('is absent from the in-memory queue', async () => {
    expect(await start('memory')).to.not.have.property('fileProblem');
  });
});

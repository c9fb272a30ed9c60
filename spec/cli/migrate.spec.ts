import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';

const migrate = (cwd: string, settings: { dataDir?: string; databaseUrl?: string } = {}) =>
  runCommand('migrate', [], { cwd, ...settings });

describe('npm run migrate', () => {
  it('creates the databases in DATA_DIR, prints what it has created, and ends with exit code 0', async () => {
    const folder = await temporaryFolder();
    const upToDate = 'the databases in there are up to date\n';
    const created = 'created there/auth.db\ncreated there/tasks.db\n';
    for (const stdout of [created + upToDate, upToDate])
      expect(await migrate(folder, { dataDir: 'there' })).to.deep.equal({ code: 0, stdout, stderr: '' });
    writeFileSync(join(folder, 'there', 'auth.db'), '');
    const { stdout } = await migrate(folder, { dataDir: 'there' });
    expect(stdout).to.equal(`created there/auth.db in an empty file\n${upToDate}`);
  });

  it('uses the folder data if DATA_DIR is unset, and refuses a folder that another process migrates', async () => {
    const folder = await temporaryFolder();
    const runs = await Promise.all(Array.from({ length: 3 }, () => migrate(folder)));
    const stderr = 'data is in use: stop the services that use it, or set DATA_DIR to another folder\n';
    for (const run of runs) expect(run).to.deep.include(run.code === 0 ? { stderr: '' } : { code: 1, stderr });
    expect(runs.some(({ code }) => code === 0)).to.equal(true);
    expect(await migrate(folder)).to.include({ code: 0 });
    expect(readdirSync(join(folder, 'data'))).to.include.members(['auth.db', 'tasks.db']);
  });
});

describeWithPostgres('npm run migrate with DATABASE_URL', () => {
  it('creates the tables in PostgreSQL and no file', async () => {
    const { url, sql } = await emptySchema();
    const { host, pathname } = new URL(url);
    const folder = await temporaryFolder();
    const expected = { code: 0, stdout: `PostgreSQL at ${host}${pathname} is up to date\n`, stderr: '' };
    expect(await migrate(folder, { databaseUrl: url })).to.deep.equal(expected);
    expect(await sql('SELECT * FROM tasks')).to.deep.equal([]);
    expect(readdirSync(folder)).to.deep.equal([]);
  });
});

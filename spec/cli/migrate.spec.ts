import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';

const file = fileURLToPath(new URL('../../main/cli/migrate.ts', import.meta.url));

/** Runs the migration in a folder with only the given settings. */
async function migrate(cwd: string, settings: Record<string, string> = {}) {
  const { DATA_DIR: _folder, DATABASE_URL: _address, ...outer } = process.env;
  return run(process.execPath, [file], { cwd, env: { ...outer, ...settings } });
}

describe('npm run migrate', () => {
  it('creates the databases in DATA_DIR, prints what it has created, and ends with exit code 0', async () => {
    const folder = await temporaryFolder();
    const upToDate = 'the databases in there are up to date\n';
    const created = 'created there/auth.db\ncreated there/tasks.db\n';
    for (const stdout of [created + upToDate, upToDate])
      expect(await migrate(folder, { DATA_DIR: 'there' })).to.deep.equal({ code: 0, stdout, stderr: '' });
    writeFileSync(join(folder, 'there', 'auth.db'), '');
    const { stdout } = await migrate(folder, { DATA_DIR: 'there' });
    expect(stdout).to.equal(`created there/auth.db in an empty file\n${upToDate}`);
  });

  it('uses the folder data if DATA_DIR is unset or empty', async () => {
    const folder = await temporaryFolder();
    for (const settings of [{}, { DATA_DIR: '' }]) expect(await migrate(folder, settings)).to.include({ code: 0 });
    for (const name of ['auth.db', 'tasks.db']) expect(existsSync(join(folder, 'data', name))).to.equal(true);
  });

  it('fails with one line if a file is not a database', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'auth.db'), 'garbage '.repeat(1000));
    const { code, stdout, stderr } = await migrate(folder, { DATA_DIR: '.' });
    expect([code, stdout]).to.deep.equal([1, '']);
    expect(stderr).to.match(/^cannot migrate auth\.db: file is not a database: restore it from a backup, or .*\n$/);
  });

  it('refuses a folder that another process migrates', async () => {
    const folder = await temporaryFolder();
    const runs = await Promise.all(Array.from({ length: 3 }, () => migrate(folder)));
    const stderr = 'data is in use: stop the services that use it, or set DATA_DIR to another folder\n';
    for (const run of runs) expect(run).to.deep.include(run.code === 0 ? { stderr: '' } : { code: 1, stderr });
    expect(runs.some(({ code }) => code === 0)).to.equal(true);
    expect(await migrate(folder)).to.include({ code: 0 });
  });
});

describeWithPostgres('npm run migrate with DATABASE_URL', () => {
  it('creates the tables in PostgreSQL and no file, and fails with one line if no server listens', async () => {
    const { url, sql } = await emptySchema();
    const { host, pathname } = new URL(url);
    const folder = await temporaryFolder();
    const expected = { code: 0, stdout: `PostgreSQL at ${host}${pathname} is up to date\n`, stderr: '' };
    expect(await migrate(folder, { DATABASE_URL: url })).to.deep.equal(expected);
    expect(await sql('SELECT * FROM tasks')).to.deep.equal([]);
    const reason = 'connect ECONNREFUSED 127.0.0.1:1: start it, or fix DATABASE_URL';
    const refused = { code: 1, stdout: '', stderr: `cannot reach PostgreSQL at 127.0.0.1:1/test: ${reason}\n` };
    const DATABASE_URL = 'postgres://spec:secret@127.0.0.1:1/test';
    expect(await migrate(folder, { DATABASE_URL })).to.deep.equal(refused);
    expect(readdirSync(folder)).to.deep.equal([]);
  });
});

import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';

const file = fileURLToPath(new URL('../../main/cli/migrate.ts', import.meta.url));

/** Runs the migration as a program. `DATA_DIR` is unset if undefined. */
async function migrate(DATA_DIR: string | undefined, cwd: string, more: Record<string, string> = {}) {
  const { DATA_DIR: _folder, DATABASE_URL: _address, ...outer } = process.env;
  const env = { ...outer, ...more };
  return run(process.execPath, [file], { cwd, env: DATA_DIR === undefined ? env : { ...env, DATA_DIR } });
}

describe('the migration as a program', () => {
  it('makes the databases, says so, and ends with exit code 0', async () => {
    const folder = await temporaryFolder();
    const upToDate = 'the databases in there are up to date\n';
    const created = ['auth.db', 'tasks.db'].map((file) => `created there/${file}\n`).join('');
    expect(await migrate('there', folder)).to.deep.equal({ code: 0, stdout: created + upToDate, stderr: '' });
    expect(await migrate('there', folder)).to.deep.equal({ code: 0, stdout: upToDate, stderr: '' });
    writeFileSync(join(folder, 'there', 'auth.db'), '');
    expect((await migrate('there', folder)).stdout).to.equal(`created there/auth.db in an empty file\n${upToDate}`);
    for (const name of ['auth.db', 'tasks.db']) expect(existsSync(join(folder, 'there', name))).to.equal(true);
  });

  it('takes the folder data where nothing is said', async () => {
    const folder = await temporaryFolder();
    expect(await migrate(undefined, folder)).to.include({ code: 0 });
    expect(await migrate('', folder)).to.include({ code: 0 });
    expect(existsSync(join(folder, 'data', 'tasks.db'))).to.equal(true);
  });

  it('says in one line why it fails, and ends with exit code 1', async () => {
    const folder = await temporaryFolder();
    writeFileSync(join(folder, 'auth.db'), 'garbage '.repeat(1000));
    expect(await migrate('.', folder)).to.deep.equal({
      code: 1,
      stdout: '',
      stderr:
        'cannot migrate auth.db: file is not a database: restore it from a backup, or move it and its -wal file away to start with an empty one\n',
    });
  });

  it('refuses a folder that another process migrates', async () => {
    const folder = await temporaryFolder();
    const runs = await Promise.all(Array.from({ length: 3 }, () => migrate('data', folder)));
    const stderr = 'data is in use: stop the services that use it, or set DATA_DIR to another folder\n';
    for (const run of runs) expect(run).to.deep.include(run.code === 0 ? { stderr: '' } : { code: 1, stderr });
    expect(runs.some(({ code }) => code === 0)).to.equal(true);
    expect(await migrate('data', folder)).to.include({ code: 0 });
  });
});

describeWithPostgres('the migration as a program, with DATABASE_URL', () => {
  it('makes the tables there and no file, says so, and ends with exit code 0', async () => {
    const { url, sql } = await emptySchema();
    const { host, pathname } = new URL(url);
    const folder = await temporaryFolder();
    const expected = { code: 0, stdout: `PostgreSQL at ${host}${pathname} is up to date\n`, stderr: '' };
    expect(await migrate('.', folder, { DATABASE_URL: url })).to.deep.equal(expected);
    expect(readdirSync(folder)).to.deep.equal([]);
    expect(await sql('SELECT * FROM tasks')).to.deep.equal([]);
  });

  it('says in one line why it fails, without the password, and ends with exit code 1', async () => {
    const DATABASE_URL = 'postgres://spec:secret@127.0.0.1:1/test';
    const reason = 'connect ECONNREFUSED 127.0.0.1:1: start it, or fix DATABASE_URL';
    const expected = { code: 1, stdout: '', stderr: `cannot reach PostgreSQL at 127.0.0.1:1/test: ${reason}\n` };
    expect(await migrate('.', await temporaryFolder(), { DATABASE_URL })).to.deep.equal(expected);
  });
});

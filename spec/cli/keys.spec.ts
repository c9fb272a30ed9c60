import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { migratedFolder, openBeside } from '../support/migrated-folder.ts';
import { describeWithPostgres, emptySchema, migratedSchema } from '../support/servers.ts';

const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';
const failed = (stderr: string) => ({ code: 1, stdout: '', stderr: `${stderr}\n` });

async function fresh() {
  const dataDir = await migratedFolder();
  const beside = openBeside(dataDir, 'auth.db');
  const records = () => beside.prepare('SELECT * FROM api_keys ORDER BY id').all();
  return { dataDir, beside, records, keys: (...args: string[]) => runCommand('keys', args, { dataDir }) };
}

describe('npm run keys', () => {
  it('creates keys with the given user and role, and prints only the key to standard output', async () => {
    const { keys, records } = await fresh();
    const before = Math.floor(Date.now() / 1000);
    const { code, stdout, stderr } = await keys('create', '--user', 'alice');
    expect([code, stderr]).to.deep.equal([0, 'created key 1 of alice, role user: it is not shown again\n']);
    expect(stdout).to.match(/^[0-9a-f]{32}\n$/);
    const second = await keys('create', '--user=alice', '--role', 'viewer');
    const [created_at, ...later] = records().map((record) => record.created_at);
    expect(created_at).to.be.within(before, Date.now() / 1000 + 1);
    expect(records()).to.deep.equal([
      { id: 1, api_key: stdout.trim(), user_id: 'alice', role: 'user', created_at },
      { id: 2, api_key: second.stdout.trim(), user_id: 'alice', role: 'viewer', created_at: later[0] },
    ]);
  });

  it('creates no key whose role has no policy, and names the roles', async () => {
    const { dataDir, records } = await fresh();
    const known = '--role must be one of operator, submitter, user, viewer';
    const create = (role: string, policiesDir = '') =>
      runCommand('keys', ['create', '--user', 'a'.repeat(128), '--role', role], { dataDir, policiesDir });
    expect(await create('veiwer')).to.deep.equal(failed(`${known}, got "veiwer": did you mean viewer?`));
    expect(await create('auditor of "ü"')).to.deep.equal(failed(`${known}, got "auditor of \\"ü\\""`));
    const policiesDir = await temporaryFolder();
    await writeFile(join(policiesDir, 'auditor of "ü".json'), '{}');
    expect(await create('auditor of "ü"', policiesDir)).to.include({ code: 0 });
    expect(records()).to.have.lengthOf(1).and.have.nested.property('[0].role', 'auditor of "ü"');
  });

  it('lists the keys by their last four characters', async () => {
    const { keys, beside } = await fresh();
    expect((await keys('list')).stdout).to.equal('id  user  role  created  key\n');
    beside.prepare(insert).run(`${'k'.repeat(12)}wxyz`, 'alice', 'user', 1_700_000_000);
    beside.prepare(insert).run('k'.repeat(15), 'bob\u001b[2J', 'auditor', 0);
    const { code, stdout } = await keys('list');
    expect(code).to.equal(0);
    expect(stdout.split('\n')).to.deep.equal([
      'id  user     role     created                   key',
      '1   alice    user     2023-11-14T22:13:20.000Z  …wxyz',
      '2   bob\u{fffd}[2J  auditor  1970-01-01T00:00:00.000Z  …',
      '',
    ]);
  });

  it('revokes the key with the given id, and no other, and says which key the demo user has then, which demo prints or creates', async () => {
    const { keys, records, beside } = await fresh();
    for (const user of ['alice', 'demo', 'demo']) beside.prepare(insert).run(randomUUID(), user, 'user', 1);
    const stderr = 'revoked key 1 of alice: its tokens expire within an hour, those for tasks within a day\n';
    expect(await keys('revoke', '1')).to.deep.equal({ code: 0, stdout: '', stderr });
    expect(records().map(({ id }) => id)).to.deep.equal([2, 3]);
    expect(await keys('revoke', '1')).to.deep.equal(failed('no key with id 1: list keys with "npm run keys -- list"'));
    for (const [command, note] of [
      ['revoke 2', ''],
      ['revoke 3', 'the user demo gets a new key at the next start of the services'],
      ['create --user demo', 'the oldest key of the user demo is logged at every start of the services'],
    ] as const)
      expect((await keys(...command.split(' '))).stderr.split('\n')[1]).to.equal(note);
    expect((await keys('demo')).stdout).to.equal(`${records()[0]?.api_key}\n`);
    await keys('revoke', '4');
    const created = (await keys('demo')).stdout;
    expect(created).to.match(/^[0-9a-f]{32}\n$/);
    expect(created).to.equal(`${records()[0]?.api_key}\n`);
  });

  it('fails with one line if the databases do not exist, and creates none', async () => {
    const cwd = await temporaryFolder();
    const reason = 'run "npm start" or "npm run migrate", or set DATA_DIR to its folder';
    const expected = failed(`${join('data', 'auth.db')} does not exist: ${reason}`);
    for (const args of [['list'], ['create', '--user', 'a']])
      expect(await runCommand('keys', args, { cwd })).to.deep.equal(expected);
  });

  it('fails with one line while another program locks the keys, and if their table is missing', async () => {
    const { keys, beside, dataDir } = await fresh();
    const file = join(dataDir, 'auth.db');
    beside.exec('BEGIN IMMEDIATE');
    const reason = 'another program has locked it: try again when that program has ended';
    expect(await keys('create', '--user', 'a')).to.deep.equal(failed(`${file}: ${reason}`));
    expect((await keys('list')).code).to.equal(0);
    beside.exec('COMMIT');
    expect((await keys('create', '--user', 'a')).code).to.equal(0);
    beside.exec('DROP TABLE api_keys');
    expect(await keys('list')).to.deep.equal(failed(`${file}: no such table: api_keys`));
  });
});

describeWithPostgres('npm run keys with DATABASE_URL', () => {
  it('creates, lists and revokes keys in PostgreSQL', async () => {
    const { url: databaseUrl, sql } = await migratedSchema();
    const cwd = await temporaryFolder();
    const keys = (...args: string[]) => runCommand('keys', args, { databaseUrl, cwd });
    const key = (await keys('create', '--user', 'alice', '--role', 'viewer')).stdout.trim();
    expect(await sql('SELECT api_key FROM api_keys')).to.deep.equal([{ api_key: key }]);
    const { stdout } = await keys('list');
    expect(stdout.split('\n')[1]).to.match(new RegExp(`^1   alice  viewer  \\d{4}-.*Z  …${key.slice(-4)}$`));
    expect(await keys('revoke', '1')).to.include({ code: 0 });
    expect(await sql('SELECT * FROM api_keys')).to.deep.equal([]);
  });

  it('fails with one line if the table is missing, and shows no password', async () => {
    const { url: databaseUrl } = await emptySchema();
    const { host, pathname } = new URL(databaseUrl);
    const line = `PostgreSQL at ${host}${pathname}: table api_keys does not exist: run "npm run migrate"`;
    expect(await runCommand('keys', ['list'], { databaseUrl })).to.deep.equal(failed(line));
  });
});

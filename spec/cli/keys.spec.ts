import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { fresh, itRefuses } from './keys-program.ts';

const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';

describe('the program of the keys', () => {
  it('makes a key, and prints that alone to standard output', async () => {
    const { keys, records } = await fresh();
    const before = Math.floor(Date.now() / 1000);
    const { code, stdout, stderr } = await keys('create', '--user', 'alice');
    expect(code).to.equal(0);
    expect(stdout).to.match(/^[0-9a-f]{32}\n$/);
    expect(stderr).to.equal('created key 1 of alice, role user: it is not shown again\n');
    const { created_at, ...rest } = records()[0] as { created_at: number };
    expect(rest).to.deep.equal({ id: 1, api_key: stdout.trim(), user_id: 'alice', role: 'user' });
    expect(created_at).to.be.within(before, Date.now() / 1000);
  });

  it('gives a key the role that is asked for, and a user as many keys as are asked for', async () => {
    const { keys, records } = await fresh();
    await keys('create', '--user=alice', '--role', 'auditor of "ü"');
    await keys('create', '--role', 'user', '--user', 'alice');
    expect(records().map(({ user_id, role }) => [user_id, role])).to.deep.equal([
      ['alice', 'auditor of "ü"'],
      ['alice', 'user'],
    ]);
    expect(new Set(records().map(({ api_key }) => api_key))).to.have.property('size', 2);
  });

  it('lists the keys by their last four characters', async () => {
    const { keys, beside } = await fresh();
    expect((await keys('list')).stdout).to.equal('id  user  role  created  key\n');
    beside.prepare(insert).run(`${'k'.repeat(28)}wxyz`, 'alice', 'user', 1_700_000_000);
    beside.prepare(insert).run('short', 'bob\u001b[2J', 'auditor', 0);
    const { code, stdout } = await keys('list');
    expect(code).to.equal(0);
    expect(stdout.split('\n')).to.deep.equal([
      'id  user     role     created                   key',
      '1   alice    user     2023-11-14T22:13:20.000Z  …wxyz',
      '2   bob\u{fffd}[2J  auditor  1970-01-01T00:00:00.000Z  …',
      '',
    ]);
  });

  it('revokes the key of an id, and no other', async () => {
    const { keys, records, beside } = await fresh();
    for (const key of ['k1', 'k2']) beside.prepare(insert).run(key, 'alice', 'user', 1);
    expect(await keys('revoke', '2')).to.deep.equal({
      code: 0,
      stdout: '',
      stderr: 'revoked key 2 of alice: tokens already issued expire within an hour\n',
    });
    expect(records()).to.have.lengthOf(1).and.have.nested.property('[0].id', 1);
  });

  it('prints the key of the demo user alone, and creates it only once', async () => {
    const { keys, records } = await fresh();
    const first = await keys('demo');
    expect(first).to.include({ code: 0, stderr: '' });
    expect(first.stdout).to.match(/^[0-9a-f]{32}\n$/);
    expect(await keys('demo')).to.deep.equal(first);
    expect(records().map(({ user_id, api_key }) => [user_id, api_key])).to.deep.equal([['demo', first.stdout.trim()]]);
  });

  it('says that the demo user is created again, and that its key is logged', async () => {
    const { keys, beside } = await fresh();
    for (const key of ['k1', 'k2']) beside.prepare(insert).run(key, 'demo', 'user', 1);
    expect((await keys('revoke', '1')).stderr.split('\n')).to.have.lengthOf(2);
    const [, second] = (await keys('revoke', '2')).stderr.split('\n');
    expect(second).to.equal('the user demo gets a new key at the next start of the services');
    const [, logged] = (await keys('create', '--user', 'demo')).stderr.split('\n');
    expect(logged).to.equal('the oldest key of the user demo is logged at every start of the services');
  });

  it('has a usage', async () => {
    const { keys } = await fresh();
    for (const args of [['--help'], ['-h'], ['create', '--help']]) {
      const { code, stdout, stderr } = await keys(...args);
      expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
      expect(stdout).to.match(/^npm run keys -- <command>\n/);
    }
  });

  // Further arguments are in keys.long.ts.
  itRefuses([
    [[], 'a command is missing'],
    [['toString'], 'unknown command "toString"'],
    [['create'], '--user is missing'],
    [['create', '--users', 'a'], /^Unknown option '--users'/],
    [['revoke', 'x\u001b'], 'the id of a key is a whole number, got "x\\u001b"'],
  ]);

  it('says in one line that there is no such key', async () => {
    const { keys } = await fresh();
    const stderr = 'no key with id 7: list keys with "npm run keys -- list"\n';
    expect(await keys('revoke', '7')).to.deep.equal({ code: 1, stdout: '', stderr });
  });

  it('says in one line that the databases are not made yet, and makes none', async () => {
    const cwd = await temporaryFolder();
    const reason = 'run "npm start" or "npm run migrate", or set DATA_DIR to its folder';
    const stderr = `${join('data', 'auth.db')} does not exist: ${reason}\n`;
    for (const args of [['list'], ['create', '--user', 'a'], ['revoke', '1']]) {
      expect(await runCommand('keys', args, { cwd })).to.deep.equal({ code: 1, stdout: '', stderr });
    }
  });

  it('says in one line what else is wrong with the file', async () => {
    const { keys, beside, dataDir } = await fresh();
    beside.exec('DROP TABLE api_keys');
    const stderr = `${join(dataDir, 'auth.db')}: no such table: api_keys\n`;
    expect(await keys('list')).to.deep.equal({ code: 1, stdout: '', stderr });
  });

  it('waits for a lock for a while, and says in one line when that was in vain', async () => {
    const { keys, beside, dataDir } = await fresh();
    beside.exec('BEGIN IMMEDIATE');
    const reason = 'another program has locked it: try again when that program has ended';
    const stderr = `${join(dataDir, 'auth.db')}: ${reason}\n`;
    expect(await keys('create', '--user', 'a')).to.deep.equal({ code: 1, stdout: '', stderr });
    expect((await keys('list')).code).to.equal(0);
    beside.exec('COMMIT');
    expect((await keys('create', '--user', 'a')).code).to.equal(0);
  });
});

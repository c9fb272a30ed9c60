import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { describeWithPostgres, emptySchema, migratedSchema } from '../support/servers.ts';

describeWithPostgres('the program of the keys, with DATABASE_URL', () => {
  it('makes, lists and revokes keys in PostgreSQL', async () => {
    const { url: databaseUrl, sql } = await migratedSchema();
    const cwd = await temporaryFolder();
    const keys = (...args: string[]) => runCommand('keys', args, { databaseUrl, cwd });
    const made = await keys('create', '--user', 'alice', '--role', 'auditor');
    expect(made).to.include({ code: 0, stderr: 'created key 1 of alice, role auditor: it is not shown again\n' });
    expect(made.stdout).to.match(/^[0-9a-f]{32}\n$/);
    const key = made.stdout.trim();
    expect(await sql('SELECT id, api_key, user_id, role FROM api_keys')).to.deep.equal([
      { id: 1, api_key: key, user_id: 'alice', role: 'auditor' },
    ]);
    const { stdout } = await keys('list');
    expect(stdout.split('\n')[1]).to.match(new RegExp(`^1   alice  auditor  \\d{4}-.*Z  …${key.slice(-4)}$`));
    const stderr = 'revoked key 1 of alice: tokens already issued expire within an hour\n';
    expect(await keys('revoke', '1')).to.deep.equal({ code: 0, stdout: '', stderr });
    expect(await sql('SELECT * FROM api_keys')).to.deep.equal([]);
    expect(await keys('revoke', '1')).to.include({ code: 1 });
  });

  it('says in one line that the table is not made yet', async () => {
    const { url: databaseUrl } = await emptySchema();
    const { host, pathname } = new URL(databaseUrl);
    const stderr = `PostgreSQL at ${host}${pathname}: table api_keys does not exist: run "npm run migrate"\n`;
    expect(await runCommand('keys', ['list'], { databaseUrl })).to.deep.equal({ code: 1, stdout: '', stderr });
  });

  it('says in one line that there is no server, and no password', async () => {
    const reason = 'connect ECONNREFUSED 127.0.0.1:1: start it, or fix DATABASE_URL';
    const stderr = `cannot reach PostgreSQL at 127.0.0.1:1/test: ${reason}\n`;
    for (const args of [['list'], ['create', '--user', 'a'], ['revoke', '1']]) {
      const ended = await runCommand('keys', args, { databaseUrl: 'postgres://spec:secret@127.0.0.1:1/test' });
      expect(ended).to.deep.equal({ code: 1, stdout: '', stderr });
    }
  });
});

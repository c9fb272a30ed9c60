import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { fillDataFolder } from '../support/migrated-folder.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';

describe('a start', () => {
  it('logs the port of each listener and the demo key, which it creates if the demo user has none', async () => {
    const dataDir = await temporaryFolder();
    const env = { DATA_DIR: dataDir };
    const first = await startServices({ env });
    const listening = first.lines.filter(({ msg }) => msg === 'listening');
    expect(listening.map(({ service, host }) => [service, host])).to.deep.equal([
      ['ticker', '127.0.0.1'],
      ['tasks', '127.0.0.1'],
      ['admin', '127.0.0.1'],
    ]);
    expect(first.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
    const demoLog = (services: RunningServices) => services.lines.find((line) => line.api_key)?.msg;
    expect([demoLog(first), first.apiKey]).to.match(/^demo API key created,[0-9a-f]{32}$/);
    expect((await first.end()).code).to.equal(0);

    const second = await startServices({ env });
    expect([demoLog(second), second.apiKey]).to.deep.equal(['demo API key exists', first.apiKey]);
    // Keys are created and revoked while the services run.
    const exchange = async (api_key: string) => post(`${second.ticker}/auth/token`, { api_key });
    const made = await runCommand('keys', ['create', '--user', 'alice', '--role', 'viewer'], { dataDir });
    expect((await exchange(made.stdout.trim())).body).to.include({ user_id: 'alice', role: 'viewer' });
    expect((await exchange(first.apiKey)).status).to.equal(200);
    await runCommand('keys', ['revoke', '1'], { dataDir });
    expect(await exchange(first.apiKey)).to.deep.include({ status: 401, body: { error: 'invalid API key' } });
    expect((await second.end()).code).to.equal(0);

    const third = await startServices({ env });
    expect(demoLog(third)).to.equal('demo API key created');
    expect(third.apiKey).to.not.equal(first.apiKey);
  });

  it('logs which databases it creates, warns of one in an empty file, and opens no inspector on SIGUSR1', async () => {
    const DATA_DIR = await temporaryFolder();
    fillDataFolder(DATA_DIR);
    rmSync(join(DATA_DIR, 'tasks.db'));
    truncateSync(join(DATA_DIR, 'auth.db'));
    const services = await startServices({ env: { DATA_DIR } });
    const created = services.lines.filter(({ msg }) => msg.startsWith('database created'));
    const warning = 'database created in an empty file: if the file held data, stop and restore a backup';
    expect(created.map(({ level, file, msg }) => [level, file, msg])).to.deep.equal([
      [40, join(DATA_DIR, 'auth.db'), warning],
      [30, join(DATA_DIR, 'tasks.db'), 'database created'],
    ]);
    services.child.kill('SIGUSR1');
    expect((await request(`${services.tasks}/queue`)).status).to.equal(200);
    expect((await services.end()).code).to.equal(0);
    expect(services.errors()).to.equal('');
  });
});

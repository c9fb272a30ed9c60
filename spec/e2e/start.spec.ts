import { rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';

describe('a start', () => {
  it('logs the port of each listener and the key of the demo user, which it creates once', async () => {
    const DATA_DIR = await temporaryFolder();
    const first = await startServices({ env: { DATA_DIR } });
    const listening = first.lines.filter(({ msg }) => msg === 'listening');
    expect(listening.map(({ service }) => service)).to.deep.equal(['ticker', 'tasks', 'admin']);
    for (const { host } of listening) expect(host).to.equal('127.0.0.1');
    expect(first.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
    expect(first.ticker).to.not.equal(first.tasks);
    expect(first.apiKey).to.match(/^[0-9a-f]{32}$/);
    expect(first.lines.find((line) => line.api_key)?.msg).to.equal('demo API key created');
    first.child.kill('SIGTERM');
    await first.exited;
    const second = await startServices({ env: { DATA_DIR } });
    expect(second.apiKey).to.equal(first.apiKey);
    expect(second.lines.find((line) => line.api_key)?.msg).to.equal('demo API key exists');
    expect((await post(`${second.ticker}/auth/token`, { api_key: first.apiKey })).status).to.equal(200);
  });

  it('logs which databases it creates, warns of one in an empty file, and opens no inspector on SIGUSR1', async () => {
    const DATA_DIR = await temporaryFolder();
    migrate(DATA_DIR);
    rmSync(join(DATA_DIR, 'tasks.db'));
    truncateSync(join(DATA_DIR, 'auth.db'));
    const services = await startServices({ env: { DATA_DIR } });
    const created = services.lines.filter(({ msg }) => msg.startsWith('database created'));
    expect(created.map(({ level, file }) => [level, file])).to.deep.equal([
      [40, join(DATA_DIR, 'auth.db')],
      [30, join(DATA_DIR, 'tasks.db')],
    ]);
    expect(created[0]?.msg).to.equal(
      'database created in an empty file: if the file held data, stop and restore a backup',
    );
    services.child.kill('SIGUSR1');
    expect((await request(`${services.tasks}/queue`)).status).to.equal(200);
    services.child.kill('SIGTERM');
    expect(await services.exited).to.deep.equal({ code: 0, signal: null });
    expect(services.errors()).to.equal('');
  });
});

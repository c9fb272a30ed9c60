import { existsSync, readFileSync, rmSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { runCommand } from '../support/command.ts';
import { migratedFolder } from '../support/migrated-folder.ts';
import { post, type RunningServices, request, startServices, untilAnswer } from '../support/program.ts';

const TOKEN_KEY = 'a key of at least thirty-two bytes';

const bearing = (token: string) => ({ headers: { Authorization: `Bearer ${token}` } });
const historyOf = ({ ticker }: RunningServices) => `${ticker}/prices/history`;
const status = async (services: RunningServices, token: string) =>
  (await request(historyOf(services), bearing(token))).status;
const demoLog = ({ lines }: RunningServices) => lines.find(({ api_key }) => api_key)?.msg;

describe('a start', () => {
  it('logs which databases it creates, and keeps keys, prices, and tokens of an orderly stop, unless they or their API keys were revoked or TOKEN_KEY changes', async () => {
    const DATA_DIR = await migratedFolder();
    rmSync(join(DATA_DIR, 'tasks.db'));
    truncateSync(join(DATA_DIR, 'auth.db'));
    const file = join(DATA_DIR, 'tokens.json');
    const kept = () => JSON.parse(readFileSync(file, 'utf8'));
    const start = (env: Record<string, string> = {}) =>
      startServices({ env: { DATA_DIR, TICK_INTERVAL_MS: '100', ...env } });
    const first = await start();
    const listening = first.lines.filter(({ msg }) => msg === 'listening');
    const hosts = ['ticker', 'tasks', 'admin'].map((service) => [service, '127.0.0.1']);
    expect(listening.map(({ service, host }) => [service, host])).to.deep.equal(hosts);
    const notes = first.lines.filter(({ level, msg }) => level >= 40 || msg.startsWith('database created'));
    const warning = 'database created in an empty file: if the file held data, stop and restore a backup';
    expect(notes.map(({ level, file, msg }) => [level, file, msg])).to.deep.equal([
      [40, join(DATA_DIR, 'auth.db'), warning],
      [30, join(DATA_DIR, 'tasks.db'), 'database created'],
    ]);
    first.child.kill('SIGUSR1');
    expect([demoLog(first), first.apiKey]).to.match(/^demo API key created,[0-9a-f]{32}$/);
    const [valid, revoked] = [await first.token(), await first.token()];
    await request(`${first.ticker}/auth/token`, { method: 'DELETE', ...bearing(revoked) });
    const { body } = await untilAnswer(historyOf(first), (answer) => answer.body.timestamps.length > 1, bearing(valid));
    expect(await first.end()).to.deep.include({ code: 0 });
    expect(first.errors(), 'no inspector').to.equal('');
    expect(statSync(file).mode & 0o777, 'only the owner can read the tokens').to.equal(0o600);
    expect(readFileSync(file, 'utf8')).not.to.include(valid);
    expect(kept()).to.have.all.keys('key', 'records');
    const second = await start();
    expect(existsSync(file)).to.equal(false);
    expect([demoLog(second), second.apiKey]).to.deep.equal(['demo API key exists', first.apiKey]);
    expect([await status(second, valid), await status(second, revoked)]).to.deep.equal([200, 401]);
    const { timestamps } = (await request(historyOf(second), bearing(valid))).body;
    expect(timestamps[0]).to.equal(body.timestamps[0]);
    await second.end('SIGINT');
    const third = await start({ TOKEN_KEY });
    expect(await status(third, valid), 'with a new key').to.equal(401);
    const token = await third.token();
    await third.end();
    expect(kept()).to.have.all.keys('records');
    const fourth = await start({ TOKEN_KEY });
    expect(await status(fourth, token), 'under TOKEN_KEY').to.equal(200);
    const exchange = async (api_key: string) => post(`${fourth.ticker}/auth/token`, { api_key });
    const made = await runCommand('keys', ['create', '--user', 'alice', '--role', 'viewer'], { dataDir: DATA_DIR });
    expect((await exchange(made.stdout.trim())).body).to.include({ user_id: 'alice', role: 'viewer' });
    expect((await exchange(first.apiKey)).status).to.equal(200);
    await runCommand('keys', ['revoke', '1'], { dataDir: DATA_DIR });
    expect(await exchange(first.apiKey)).to.deep.include({ status: 401, body: { error: 'invalid API key' } });
    await fourth.end();
    const fifth = await start({ TOKEN_KEY });
    expect(await status(fifth, token), 'without its API key').to.equal(401);
    expect(demoLog(fifth)).to.equal('demo API key created');
    expect(fifth.apiKey).to.not.equal(first.apiKey);
    const last = await fifth.token();
    await fifth.end('SIGKILL');
    expect(await status(await start({ TOKEN_KEY }), last), 'after a crash').to.equal(401);
  });
});

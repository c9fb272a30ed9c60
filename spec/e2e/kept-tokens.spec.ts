import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runOn } from '../support/migrated-folder.ts';
import { type RunningServices, request, startServices } from '../support/program.ts';

const TOKEN_KEY = 'a key of at least thirty-two bytes';

describe('a token over a restart', () => {
  let DATA_DIR: string;
  const file = () => join(DATA_DIR, 'tokens.json');
  const start = (env: Record<string, string> = {}) => startServices({ env: { DATA_DIR, ...env } });
  const status = async ({ ticker }: RunningServices, token: string) =>
    (await request(`${ticker}/prices/history`, { headers: { Authorization: `Bearer ${token}` } })).status;

  beforeEach(async () => {
    DATA_DIR = await temporaryFolder();
  });

  for (const [kind, env] of [
    ['a random key', {}],
    ['TOKEN_KEY', { TOKEN_KEY }],
  ] as const) {
    it(`under ${kind} stays valid after an orderly stop, unless it or its API key was revoked, in a file only its owner can read`, async () => {
      const first = await start(env);
      const [kept, revoked] = [await first.token(), await first.token()];
      await request(`${first.ticker}/auth/token`, {
        method: 'DELETE',
        headers: { Authorization: `Bearer ${revoked}` },
      });
      await first.end();
      expect(statSync(file()).mode & 0o777).to.equal(0o600);
      const content = readFileSync(file(), 'utf8');
      expect(content).not.to.include(kept);
      expect(content).not.to.include(TOKEN_KEY);
      expect(JSON.parse(content)).to.have.all.keys(kind === 'TOKEN_KEY' ? ['records'] : ['key', 'records']);

      const second = await start(env);
      expect(existsSync(file())).to.equal(false);
      expect(await status(second, kept)).to.equal(200);
      expect(await status(second, revoked)).to.equal(401);
      await second.end('SIGINT');
      const third = await start(env);
      expect(await status(third, kept), 'after a second restart').to.equal(200);
      await third.end();
      runOn(DATA_DIR, 'DELETE FROM api_keys RETURNING id', 'auth.db');
      expect(await status(await start(env), kept), 'without its API key').to.equal(401);
    });
  }

  it('for a task stays valid, too', async () => {
    const env = { TASKS_REQUIRE_TOKEN: 'true', QUEUE_DRIVER: 'sqlite' };
    const first = await start(env);
    const headers = { Authorization: `Bearer ${await first.token()}` };
    const submitted = await request(`${first.tasks}/tasks`, { method: 'POST', headers, body: '{"action":"sum"}' });
    const path = `/tasks/${submitted.body.id}`;
    const created = await request(`${first.tasks}${path}/token`, { method: 'POST', headers, body: '{}' });
    await first.end();
    const second = await start(env);
    const visitor = { Authorization: `Bearer ${created.body.token}` };
    expect((await request(second.tasks + path, { headers: visitor })).status).to.equal(200);
  });

  it('ends with a warning if the file cannot be written, and the stop succeeds', async () => {
    const services = await start();
    await services.token();
    mkdirSync(file());
    expect(await services.end()).to.deep.equal({ code: 0, signal: null });
    expect(services.lines.map(({ msg }) => msg)).to.include(
      'the tokens cannot be kept: users must sign in again after the next start',
    );
  });

  it('ends with a crash, and if TOKEN_KEY has changed', async () => {
    const first = await start({ TOKEN_KEY });
    const token = await first.token();
    await first.end('SIGKILL');
    const second = await start({ TOKEN_KEY });
    expect(await status(second, token)).to.equal(401);
    const next = await second.token();
    await second.end();
    expect(await status(await start({ TOKEN_KEY: `another ${TOKEN_KEY}` }), next)).to.equal(401);
  });

  for (const content of ['{"records": [{"id"', '{}', '"text"', '{"key": 5, "records": []}']) {
    it(`ends with a warning if the file is damaged: ${content}`, async () => {
      writeFileSync(file(), content);
      const services = await start();
      expect(services.lines.map(({ msg }) => msg)).to.include(
        'the tokens of the last run cannot be used: users must sign in again',
      );
      expect(existsSync(file())).to.equal(false);
    });
  }
});

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { post, projectFolder, startServices } from '../support/program.ts';

/** Runs the guide's command in a shell. */
async function npmRunKeys(DATA_DIR: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'keys', '--', ...args], {
    cwd: projectFolder,
    env: { ...process.env, DATA_DIR },
  });
  return stdout;
}

describe('npm run keys', () => {
  it('makes and revokes keys of services that run, and replaces the key of the demo user, with a start in between', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ env: { DATA_DIR, LOG_LEVEL: 'trace' } });
    const exchange = (api_key: string) => post(`${services.ticker}/auth/token`, { api_key });
    const output = await npmRunKeys(DATA_DIR, 'create', '--user', 'alice', '--role', 'auditor');
    expect(output).to.match(/^[0-9a-f]{32}\n$/);
    const key = output.trim();
    expect(await exchange(key))
      .to.have.property('body')
      .that.includes({ user_id: 'alice', role: 'auditor' });

    const listing = await npmRunKeys(DATA_DIR, 'list');
    expect(listing)
      .to.match(/^1 +demo /m)
      .and.match(new RegExp(`^2 +alice +auditor .*…${key.slice(-4)}$`, 'm'));
    for (const secret of [key, services.apiKey]) expect(listing).to.not.include(secret);

    await npmRunKeys(DATA_DIR, 'revoke', '2');
    expect(await exchange(key)).to.deep.include({ status: 401, body: { error: 'invalid API key' } });
    expect((await exchange(services.apiKey)).status).to.equal(200);
    expect(services.output()).to.not.include(key);

    await npmRunKeys(DATA_DIR, 'revoke', '1');
    expect((await exchange(services.apiKey)).status).to.equal(401);
    services.child.kill('SIGTERM');
    await services.exited;
    const second = await startServices({ env: { DATA_DIR } });
    expect(second.lines.find((line) => line.api_key)?.msg).to.equal('demo API key created');
    expect(second.apiKey).to.not.equal(services.apiKey);
  });
});

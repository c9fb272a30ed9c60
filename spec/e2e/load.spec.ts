import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { type Ended, run } from '../support/command.ts';
import { projectFolder, startServices } from '../support/program.ts';

/** Runs the load tool as `npm run load` does. */
function load(args: string[], env: Record<string, string> = {}): Promise<Ended> {
  const file = join(projectFolder, 'spec/load/load.ts');
  const options = { cwd: dirname(file), env: { ...process.env, ...env } };
  return run(process.execPath, [file, ...args], options);
}

describe('the load tool', () => {
  const started = onceForSuite(() => startServices({ env: { MAX_CONNECTIONS: '5', TICK_INTERVAL_MS: '100' } }));

  it('ends with exit code 1 and names the exceeded limits', async () => {
    const { ticker, apiKey } = started();
    const args = ['--connections', '8', '--duration', '1', '--url', ticker, '--key', apiKey, '--max-lateness', '0'];
    const { code, stdout, stderr } = await load(args);
    expect(code).to.equal(1);
    expect(stdout).to.match(/^lost +3: HTTP 503$/m);
    expect(stderr).to.match(/^limit broken: lost 3\.0 is over 0$/m);
    expect(stderr).to.match(/^limit broken: lateness [\d.]+ is over 0$/m);
  });

  it('fails with one line if an argument or the key is wrong', async () => {
    const DATA_DIR = await temporaryFolder();
    const { ticker } = started();
    for (const [args, message] of [
      [['--connections', '0'], '--connections must be a whole number of at least 1, got "0"'],
      [['--max-skew', 'x'], '--max-skew must be a number of at least 0, got "x"'],
      [['--url', 'ftp://x'], '--url must be like http://127.0.0.1:8081, got "ftp://x"'],
      [[], `there is no key of the demo user in ${DATA_DIR}/auth.db: give one with --key, or set DATA_DIR`],
      [['--url', ticker, '--key', 'wrong'], `${ticker}/auth/token answers 401: invalid API key`],
    ] as const) {
      const { code, stderr } = await load([...args], { DATA_DIR });
      expect([code, stderr]).to.deep.equal([1, `${message}\n`]);
    }
    expect((await load(['--nonsense'])).stderr).to.match(/^Unknown option '--nonsense'/);
    expect((await load(['--help'])).stdout).to.match(/^npm run load -- \[options\]/);
  });
});

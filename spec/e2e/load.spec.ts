import { expect } from 'chai';
import { onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { projectFolder, startServices } from '../support/program.ts';

const load = (args: readonly string[], DATA_DIR = '') =>
  run(process.execPath, ['spec/load/load.ts', ...args], { cwd: projectFolder, env: { ...process.env, DATA_DIR } });

describe('the load tool', () => {
  const started = onceForSuite(() => startServices({ env: { MAX_CONNECTIONS: '5', TICK_INTERVAL_MS: '100' } }));

  it('ends with exit code 1 and names the exceeded limits', async () => {
    const { ticker, apiKey } = started();
    const service = ['--url', ticker, '--key', apiKey];
    const { code, stdout, stderr } = await load([
      '--connections',
      '8',
      '--duration',
      '1',
      '--max-lateness',
      '0',
      ...service,
    ]);
    expect(code).to.equal(1);
    expect(stdout).to.match(/^lost +3: HTTP 503$/m);
    expect(stderr).to.match(/^limit broken: lost 3\.0 is over 0$/m);
    expect(stderr).to.match(/^limit broken: lateness [\d.]+ is over 0$/m);
  });

  it('fails with one line if an argument or the key is wrong', async () => {
    const DATA_DIR = await temporaryFolder();
    const { ticker } = started();
    for (const [args, message] of [
      [['--nonsense'], "Unknown option '--nonsense'"],
      [['--connections', '0'], '--connections must be a whole number of at least 1, got "0"'],
      [['--max-skew', 'x'], '--max-skew must be a number of at least 0, got "x"'],
      [['--url', 'ftp://x'], '--url must be like http://127.0.0.1:8081, got "ftp://x"'],
      [[], `there is no key of the demo user in ${DATA_DIR}/auth.db: give one with --key, or set DATA_DIR`],
      [['--url', ticker, '--key', 'wrong'], `${ticker}/auth/token answers 401: invalid API key`],
    ] as const) {
      const { code, stderr } = await load(args, DATA_DIR);
      expect([code, stderr.split('\n')[0]]).to.deep.equal([1, message]);
    }
  });
});

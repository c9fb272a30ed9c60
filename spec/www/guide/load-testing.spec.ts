import { symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { type ClientOptions, WebSocket } from 'ws';
import { afterTest, onceForSuite, temporaryFolder } from '../../support/cleanup.ts';
import { run } from '../../support/command.ts';
import { adapt, examples, outputOf } from '../../support/examples.ts';
import { projectFolder, startServices } from '../../support/program.ts';
import { describeWith, lackingProgram } from '../../support/requirements.ts';
import { until } from '../../support/until.ts';

const FILE = 'www/guide/load-testing.md';
const [script = ''] = examples(FILE, 'With k6', 'js');

/** Reduces the numbers of an example, so that the test is short. */
const brief = (example: string) =>
  example.replace('1000 --duration 30', '2 --duration 2').replace('seq 1000', 'seq 10').replace('seq 20', 'seq 3');

const load = (args: readonly string[], DATA_DIR = '') =>
  run(process.execPath, ['spec/load/load.ts', ...args], { cwd: projectFolder, env: { ...process.env, DATA_DIR } });

describe('the load tests of the guide', () => {
  const running = onceForSuite(() => startServices({ env: { MAX_CONNECTIONS: '5', TICK_INTERVAL_MS: '100' } }));

  it('have a tool that ends with exit code 1 and names the exceeded limits', async () => {
    const { ticker, apiKey } = running();
    const options = `--connections 8 --duration 1 --max-lateness 0 --url ${ticker} --key ${apiKey}`;
    const { code, stdout, stderr } = await load(options.split(' '));
    expect(code).to.equal(1);
    expect(stdout).to.match(/^lost +3: HTTP 503$/m);
    expect(stderr).to.match(/^limit broken: lost 3\.0 is over 0$/m);
    expect(stderr).to.match(/^limit broken: lateness [\d.]+ is over 0$/m);
  });

  it('have a tool that fails with one line if an argument or the key is wrong', async () => {
    const DATA_DIR = await temporaryFolder();
    const { ticker } = running();
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

  it('load the stream with npm run load, which reports the ticks of all clients', async () => {
    const services = running();
    // Without `preload`, which installs what `npm test` has installed.
    const env = { API_KEY: services.apiKey, npm_config_ignore_scripts: 'true' };
    const text = await outputOf(brief(adapt(examples(FILE, 'The stream')[0], services)), env);
    expect(text).to.match(/^missed +\d+$/m);
    expect(text).to.include('2 of 2');
    const [, ticks, received] = /^ticks +(\d+), received (\d+) times$/m.exec(text) ?? [];
    expect(Number(received)).to.be.within(1, Number(ticks) * 2);
    for (const figure of ['skew', 'lateness'])
      expect(text).to.match(new RegExp(`^${figure} +p50 [\\d.]+ ms +p99 [\\d.]+ ms +max [\\d.]+ ms$`, 'm'));
  });

  it('open clients of wscat', async () => {
    const TMPDIR = await temporaryFolder();
    const services = running();
    const env = { TOKEN: await services.token(), TMPDIR };
    const output = await outputOf(brief(adapt(examples(FILE, 'The stream')[1], services)), env);
    const counts = Array.from(output.trim().split('\n'), (line) => Number(line.split(':')[1]));
    expect(counts).to.have.lengthOf(3);
    // The snapshot and at least one tick. The clients start slowly on a loaded machine.
    for (const count of counts) expect(count).to.be.at.least(2);
  });

  it('load the task queue with curl', async () => {
    const output = await outputOf(brief(adapt(examples(FILE, 'Tasks')[0], running())));
    expect(JSON.parse(output)).to.include({ accepted: 10 });
  });

  it('are a k6 script that fits the types of k6', async () => {
    const folder = await temporaryFolder();
    await symlink(join(projectFolder, 'node_modules'), join(folder, 'node_modules'));
    await writeFile(join(folder, 'stream.js'), script);
    const options = '--noEmit --checkJs --strict false --skipLibCheck';
    const modules = '--lib esnext --types k6 --module esnext --moduleResolution bundler';
    await outputOf(`tsc --ignoreConfig ${options} ${modules} ${folder}/stream.js`);
  });

  it('are a k6 script that gets a token and streams, with an imitation of k6', async () => {
    const services = running();
    const body = adapt(script, services)
      .replace(/^import .*$/gm, '')
      .replace('export default function', 'function each')
      .replaceAll('export ', '');
    const token = await services.token();
    const counted: string[] = [];
    const asked: unknown[] = [];
    const imitation = {
      http: { post: (...args: unknown[]) => asked.push(args) && { json: () => token } },
      Counter: function Counter(name: string) {
        return { add: () => counted.push(name) };
      },
      WebSocket: function Socket(url: string, _protocols: null, options: ClientOptions) {
        const socket = new WebSocket(url, options);
        afterTest(() => socket.terminate());
        return socket;
      },
      __ENV: { API_KEY: services.apiKey },
      setTimeout: () => {},
    };
    new Function(...Object.keys(imitation), `${body}; each(setup());`)(...Object.values(imitation));
    await until(() => counted.length > 1);
    expect(counted).to.include('ticks').and.not.include('failures');
    expect(asked).to.deep.equal([[`${services.ticker}/auth/token`, JSON.stringify({ api_key: services.apiKey })]]);
  });

  describeWith(lackingProgram('wrk'), 'with wrk', () => {
    it('load the task queue', async () => {
      const file = join(await temporaryFolder(), 'tasks.lua');
      const text = adapt(examples(FILE, 'Tasks')[1], running()).replace('-d 30', '-d 1').replaceAll('tasks.lua', file);
      expect(await outputOf(text)).to.not.match(/Non-2xx/);
    });
  });
});

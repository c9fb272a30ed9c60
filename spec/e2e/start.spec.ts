import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { post, projectFolder, startProgram, startServices } from '../support/program.ts';

const run = promisify(execFile);

/** Runs the program with settings that prevent its start. Returns the exit code and the messages. */
async function failure(env: Record<string, string>): Promise<{ code: number | null; text: string[] }> {
  const program = await startProgram({ env });
  const { code } = await program.exited;
  const text =
    program.errors().trim() ||
    program.lines
      .filter(({ level }) => level >= 60)
      .map(({ msg }) => msg)
      .join('\n');
  return { code, text: text.split('\n') };
}

describe('the start', () => {
  it('logs a line for each listener with its port, and the demo key, which is created once, at every start', async () => {
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

  it('ends with one line and exit code 1 when a setting is bad', async () => {
    const { code, text } = await failure({ TICKER_PORT: 'http' });
    expect(code).to.equal(1);
    expect(text).to.deep.equal(['TICKER_PORT must be a whole number from 0 to 65535, got "http"']);
  });

  it('ends with one line and exit code 1 when the byte budgets do not fit into the heap', async () => {
    const { code, text } = await failure({ QUEUE_MAX_BYTES: '1000000000', NODE_OPTIONS: '--max-old-space-size=300' });
    expect(code).to.equal(1);
    expect(text).to.have.lengthOf(1);
    expect(text[0]).to.match(/QUEUE_MAX_BYTES .* more than half of the heap limit .*--max-old-space-size=\d+/);
  });

  it('ends with one line and exit code 1 when the price source cannot be used, before it touches anything', async () => {
    const folder = await temporaryFolder();
    const DATA_DIR = join(folder, 'data');
    const PRICE_SOURCE = join(folder, 'source.ts');
    for (const source of ['throw new Error("no key");', 'await new Promise(() => {});', 'export default [];']) {
      await writeFile(PRICE_SOURCE, source);
      const { code, text } = await failure({ DATA_DIR, PRICE_SOURCE });
      expect(code).to.equal(1);
      expect(text).to.have.length(1);
      expect(text[0]).to.match(/^the price source \S+source\.ts cannot be used: /);
      expect(existsSync(DATA_DIR)).to.equal(false);
    }
  });

  const takings: [variable: string, env: Record<string, string>][] = [
    ['TICKER_PORT', {}],
    ['TASKS_PORT', {}],
    ['ADMIN_PORT', {}],
    ['TASKS_PORT', { REUSE_PORT: 'true' }],
  ];
  for (const [variable, env] of takings) {
    it(`ends with one line and exit code 1 when the port of ${variable} is taken ${JSON.stringify(env)}`, async () => {
      const server = createServer();
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      afterTest(() => new Promise((resolve) => server.close(resolve)));
      const { port } = server.address() as { port: number };
      const { code, text } = await failure({ ...env, [variable]: String(port) });
      expect(code).to.equal(1);
      expect(text).to.deep.equal([
        `port ${port} is in use: stop the program that uses it, or set ${variable} to another port`,
      ]);
    });
  }

  it('names all ports that are taken in one line, before it touches anything', async () => {
    const services = await startServices();
    const ports = [services.ticker, services.tasks, services.admin].map((url) => new URL(url).port);
    const [TICKER_PORT = '', TASKS_PORT = '', ADMIN_PORT = ''] = ports;
    const DATA_DIR = join(await temporaryFolder(), 'data');
    const { code, text } = await failure({ TICKER_PORT, TASKS_PORT, ADMIN_PORT, DATA_DIR });
    expect(code).to.equal(1);
    expect(text).to.deep.equal([
      `the ports ${TICKER_PORT} (TICKER_PORT), ${TASKS_PORT} (TASKS_PORT), ${ADMIN_PORT} (ADMIN_PORT) are in use: ` +
        'stop the program that uses them, or set the variables to other ports',
    ]);
    expect(existsSync(DATA_DIR)).to.equal(false);
  });

  it('ends with one line and exit code 1 when the migration fails', async () => {
    const DATA_DIR = await temporaryFolder();
    await writeFile(join(DATA_DIR, 'tasks.db'), 'this is no database, whatever its name says'.repeat(100));
    const { code, text } = await failure({ DATA_DIR });
    expect(code).to.equal(1);
    expect(text).to.have.length(1);
    expect(text[0]).to.include(`cannot migrate ${join(DATA_DIR, 'tasks.db')}: file is not a database: restore it `);
    expect(await readFile(join(DATA_DIR, 'tasks.db'), 'utf8')).to.match(/^this is no database/);
  });

  it('ends with one line and exit code 1 when the data folder is in use, and leaves it as it was', async () => {
    const DATA_DIR = await temporaryFolder();
    const first = await startServices({ env: { DATA_DIR } });
    // An older version of the services made this folder: a migration would change it under the running process.
    const database = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
    afterTest(() => database.close());
    database.exec('PRAGMA user_version = 0; DROP INDEX uncompleted_tasks_by_status');
    const { code, text } = await failure({ DATA_DIR });
    expect(code).to.equal(1);
    expect(text).to.deep.equal([
      `${DATA_DIR} is in use: stop the services that use it, or set DATA_DIR to another folder`,
    ]);
    expect(database.prepare('PRAGMA user_version').get()).to.deep.include({ user_version: 0 });
    const migrate = run(process.execPath, ['dist/main', 'migrate'], {
      cwd: projectFolder,
      env: { ...process.env, DATA_DIR },
    });
    expect((await migrate.catch((error) => error)).stderr).to.equal(`${text[0]}\n`);
    expect((await post(`${first.tasks}/tasks`, { action: 'sum' })).status).to.equal(202);
  });

  it('ends with one line and exit code 1 when the data folder cannot be made', async () => {
    const folder = await temporaryFolder();
    await writeFile(join(folder, 'file'), '');
    const { code, text } = await failure({ DATA_DIR: join(folder, 'file', 'data') });
    expect(code).to.equal(1);
    expect(text).to.have.length(1);
    expect(text[0])
      .to.include(join(folder, 'file', 'data'))
      .and.to.include('DATA_DIR');
  });

  it('has a migration that can be run alone', async () => {
    const folder = await temporaryFolder();
    const migrate = (DATA_DIR: string) =>
      run(process.execPath, ['dist/main', 'migrate'], { cwd: projectFolder, env: { ...process.env, DATA_DIR } });
    for (let time = 0; time < 2; time++) {
      expect((await migrate(join(folder, 'data'))).stdout.split('\n').slice(-2)).to.deep.equal([
        `the databases in ${join(folder, 'data')} are up to date`,
        '',
      ]);
    }
    await mkdir(join(folder, 'bad', 'auth.db'), { recursive: true });
    const failed = await migrate(join(folder, 'bad')).catch((error: unknown) => error);
    expect(failed).to.include({ code: 1 });
    expect((failed as { stderr: string }).stderr).to.match(/^cannot migrate .*auth\.db: .+\n$/);
  });
});

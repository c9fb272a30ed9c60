import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { until } from '../support/until.ts';

/** Module preloaded into the program. It copies one page per millisecond, so the backup outlasts every test. */
const SLOW_COPY = `
  import { syncBuiltinESMExports } from 'node:module';
  import sqlite from 'node:sqlite';
  const { backup } = sqlite;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  sqlite.backup = (source, path, options) =>
    backup(source, path, {
      rate: 1,
      progress: () => {
        Atomics.wait(cell, 0, 0, 1);
        options.progress();
      },
    });
  syncBuiltinESMExports();
`;

async function fresh(): Promise<{ dataDir: string; folder: string }> {
  const dataDir = await temporaryFolder();
  migrate(dataDir);
  return { dataDir, folder: await temporaryFolder() };
}

describe('the program of the backup', () => {
  it('says in one line what it has copied, and where to', async () => {
    const { dataDir, folder } = await fresh();
    const { code, stdout, stderr } = await runCommand('backup', ['new'], { dataDir, cwd: folder });
    expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
    expect(stdout).to.match(/^copied tasks\.db \(\d+ KiB\), auth\.db \(\d+ KiB\) to .*\n$/);
    expect(stdout).to.include(` to ${join(folder, 'new')}\n`);
    expect(readdirSync(join(folder, 'new'))).to.have.lengthOf(2);
  });

  it('has a usage', async () => {
    const { code, stdout } = await runCommand('backup', ['--help'], {});
    expect(code).to.equal(0);
    expect(stdout).to.match(/^npm run backup -- <folder>\n/);
  });

  for (const [args, line] of [
    [[], 'name a folder for the backup'],
    [[''], 'name a folder for the backup'],
    [['a', 'b'], 'too many arguments: name one folder'],
    [['a', '--full'], /^Unknown option '--full'/],
  ] as [string[], string | RegExp][]) {
    it(`refuses ${JSON.stringify(args)} with one line and the usage`, async () => {
      const { dataDir, folder } = await fresh();
      const { code, stdout, stderr } = await runCommand('backup', args, { dataDir, cwd: folder });
      expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
      const [first, empty, usage] = stderr.split('\n');
      expect(first).to.match(typeof line === 'string' ? new RegExp(`^${line}$`) : line);
      expect([empty, usage]).to.deep.equal(['', 'npm run backup -- <folder>']);
      expect(readdirSync(folder)).to.deep.equal([]);
    });
  }

  it('says in one line what to use instead where the rows are in PostgreSQL', async () => {
    const { dataDir, folder } = await fresh();
    const databaseUrl = 'postgres://spec:secret@127.0.0.1:1/test';
    const stderr = 'DATABASE_URL is set, so rows and keys are in PostgreSQL: back them up with pg_dump\n';
    expect(await runCommand('backup', ['new'], { dataDir, databaseUrl, cwd: folder })).to.deep.equal({
      code: 1,
      stdout: '',
      stderr,
    });
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  it('says in one line why it failed, with exit code 1', async () => {
    const { dataDir } = await fresh();
    const stderr = `${dataDir} is the data folder itself: name another one\n`;
    expect(await runCommand('backup', [dataDir], { dataDir })).to.deep.equal({ code: 1, stdout: '', stderr });
  });

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    it(`leaves nothing behind on ${signal}`, async () => {
      const { dataDir, folder } = await fresh();
      const database = new DatabaseSync(join(dataDir, 'tasks.db'));
      database.exec("INSERT INTO tasks (id, payload, created_at) VALUES ('a', zeroblob(100000000), 1)");
      database.close();
      const file = fileURLToPath(new URL('../../main/cli/backup.ts', import.meta.url));
      const env = { ...process.env, DATA_DIR: dataDir };
      const args = ['--import', `data:text/javascript,${encodeURIComponent(SLOW_COPY)}`, file, join(folder, 'new')];
      const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
      afterTest(() => child.kill('SIGKILL'));
      let errors = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        errors += text;
      });
      const exited = once(child, 'close');
      await until(() => existsSync(join(folder, 'new', 'tasks.db.partial')));
      // Repeated signals: Ctrl-C reaches a program from the terminal and again from npm.
      const insisting = setInterval(() => {
        if (existsSync(join(folder, 'new'))) child.kill(signal);
      }, 1);
      afterTest(() => clearInterval(insisting));
      expect(await exited).to.deep.equal([1, null]);
      expect(errors).to.equal(`cannot copy tasks.db: ended by ${signal}\n`);
      expect(readdirSync(folder)).to.deep.equal([]);
    });
  }
});

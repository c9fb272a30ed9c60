import { spawn } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { runCommand } from '../support/command.ts';
import { migratedFolder, runOn } from '../support/migrated-folder.ts';
import { watch } from '../support/program.ts';
import { until } from '../support/until.ts';

/**
 * Module preloaded into the program. After each step, the copy waits until the spec has sent a signal. Each deletion
 * sends another one, because Ctrl-C reaches a program from the terminal and again from npm.
 */
const HELD_COPY = `
  import fs from 'node:fs';
  import { syncBuiltinESMExports } from 'node:module';
  const { existsSync, rmSync } = fs;
  fs.rmSync = (...args) => {
    process.kill(process.pid, process.env.SIGNAL);
    rmSync(...args);
  };
  const sqlite = process.getBuiltinModule('node:sqlite');
  const { backup } = sqlite;
  const cell = new Int32Array(new SharedArrayBuffer(4));
  sqlite.backup = (source, path, options) => {
    const progress = () => {
      while (!existsSync(process.env.SIGNALLED)) Atomics.wait(cell, 0, 0, 5);
      options.progress();
    };
    return backup(source, path, { ...options, progress });
  };
  syncBuiltinESMExports();
`;

describe('npm run backup', () => {
  it('fails with one line if the rows are in PostgreSQL', async () => {
    const [dataDir, folder] = [await migratedFolder(), await temporaryFolder()];
    const databaseUrl = 'postgres://spec:secret@127.0.0.1:1/test';
    const stderr = 'DATABASE_URL is set, so rows and keys are in PostgreSQL: back them up with pg_dump\n';
    const ended = await runCommand('backup', ['new'], { dataDir, cwd: folder, databaseUrl });
    expect(ended).to.deep.equal({ code: 1, stdout: '', stderr });
    expect(readdirSync(folder)).to.deep.equal([]);
  });

  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    it(`leaves nothing behind after ${signal}`, async () => {
      const [dataDir, folder] = [await migratedFolder(), await temporaryFolder()];
      runOn(dataDir, "INSERT INTO tasks (id, payload, created_at) VALUES ('a', zeroblob(10000000), 1)");
      const file = fileURLToPath(new URL('../../main/cli/backup.ts', import.meta.url));
      const env = { ...process.env, DATA_DIR: dataDir, SIGNALLED: join(dataDir, 'signalled'), SIGNAL: signal };
      const args = ['--import', `data:text/javascript,${encodeURIComponent(HELD_COPY)}`, file, join(folder, 'new')];
      const { child, exited, errors } = watch(spawn(process.execPath, args, { env }));
      await until(() => existsSync(join(folder, 'new', 'tasks.db.partial')));
      child.kill(signal);
      writeFileSync(env.SIGNALLED, '');
      expect(await exited).to.deep.equal({ code: 1, signal: null });
      expect(errors()).to.equal(`cannot copy tasks.db: ended by ${signal}\n`);
      expect(readdirSync(folder)).to.deep.equal([]);
    });
  }
});

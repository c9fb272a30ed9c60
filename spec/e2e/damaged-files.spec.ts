import { closeSync, existsSync, openSync, readFileSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { request, startProgram, startServices } from '../support/program.ts';

const PAGE = 4096;

/** Creates a folder whose databases contain rows. */
async function usedFolder(): Promise<string> {
  const folder = await temporaryFolder();
  migrate(folder);
  const fill = (file: string, sql: string) => {
    const database = new DatabaseSync(join(folder, file));
    const insert = database.prepare(sql);
    database.exec('BEGIN');
    for (let row = 1; row <= 200; row++) insert.run(row, 'x'.repeat(200));
    database.exec('COMMIT');
    database.close();
  };
  fill('auth.db', "INSERT INTO api_keys (api_key, user_id, created_at) VALUES (?1 || ?2, 'alice', 1)");
  fill('tasks.db', 'INSERT INTO tasks (id, payload, created_at) VALUES (?1, ?2, 1)');
  fill('queue.db', 'INSERT INTO messages (seq, turn, id, body, first_at) VALUES (?1, ?1, ?1, ?2, 1)');
  return folder;
}

/** Overwrites all pages but the first, so that SQLite still recognizes the file. */
function damage(path: string): void {
  const pages = readFileSync(path).length / PAGE;
  const file = openSync(path, 'r+');
  writeSync(file, Buffer.alloc((pages - 1) * PAGE, 7), 0, (pages - 1) * PAGE, PAGE);
  closeSync(file);
}

/** Returns the log lines of a failed start. */
async function failure(DATA_DIR: string, driver = 'sqlite'): Promise<string[]> {
  const program = await startProgram({ env: { DATA_DIR, QUEUE_DRIVER: driver } });
  expect((await program.exited).code).to.equal(1);
  expect(program.errors()).to.equal('');
  return program.lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
}

describe('the start, with a damaged file', () => {
  for (const name of ['auth.db', 'tasks.db', 'queue.db']) {
    for (const driver of ['memory', 'sqlite']) {
      it(`${name} under the ${driver} queue: one line names the file and what to do`, async () => {
        const folder = await usedFolder();
        const path = join(folder, name);
        damage(path);
        const [line = '', ...others] = await failure(folder, driver);
        expect(others).to.deep.equal([]);
        expect(line)
          .to.include(`cannot migrate ${path}: `)
          .and.to.match(/: restore it from a backup, or move it and its -wal file away to start with an empty one$/);
        expect(line).to.not.include('\n');
      });
    }
  }

  it('queue.lock: one line names the file and what to do', async () => {
    const folder = await usedFolder();
    const path = join(folder, 'queue.lock');
    writeFileSync(path, 'no database '.repeat(1000));
    expect(await failure(folder)).to.deep.equal([
      `cannot lock ${path}: file is not a database: delete the file, which holds no data`,
    ]);
  });

  it('whose log is there and whose database is missing or empty: the log stays', async () => {
    for (const lose of [rmSync, truncateSync]) {
      const folder = await usedFolder();
      const path = join(folder, 'queue.db');
      lose(path);
      writeFileSync(`${path}-wal`, 'what was written last');
      const [line = '', ...others] = await failure(folder);
      expect(others).to.deep.equal([]);
      expect(line).to.match(
        /^cannot migrate .*queue\.db: the file is missing or empty, but .*queue\.db-wal is not: restore /,
      );
      expect(readFileSync(`${path}-wal`, 'utf8')).to.equal('what was written last');
    }
  });

  it('logs which databases are created, and warns of each created in an empty file', async () => {
    const folder = await usedFolder();
    rmSync(join(folder, 'queue.db'));
    truncateSync(join(folder, 'auth.db'));
    const services = await startServices({ env: { DATA_DIR: folder } });
    const created = services.lines.filter(({ msg }) => msg.startsWith('database created'));
    expect(created.map(({ level, file }) => [level, file])).to.deep.equal([
      [40, join(folder, 'auth.db')],
      [30, join(folder, 'queue.db')],
    ]);
    expect(created[0]?.msg).to.equal(
      'database created in an empty file: if the file held data, stop and restore a backup',
    );
    expect(existsSync(join(folder, 'queue.db'))).to.equal(true);
  });
});

describe('the inspector', () => {
  it('is not opened by SIGUSR1', async () => {
    const services = await startServices();
    services.child.kill('SIGUSR1');
    expect((await request(`${services.tasks}/queue`)).status).to.equal(200);
    services.child.kill('SIGTERM');
    expect(await services.exited).to.deep.equal({ code: 0, signal: null });
    expect(services.errors()).to.equal('');
  });
});

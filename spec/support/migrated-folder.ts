import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { migrate } from '../../db/sqlite/migrate.ts';
import { afterTest, temporaryFolder } from './cleanup.ts';

let template: string | undefined;

/** Opens a connection to a database beside the one of a process. It is closed after the test, if not before. */
export function openBeside(dataDir: string, file = 'tasks.db'): DatabaseSync {
  const database = new DatabaseSync(join(dataDir, file), { timeout: 5000 });
  afterTest(() => database.isOpen && database.close());
  return database;
}

export function runOn(dataDir: string, sql: string, file = 'tasks.db'): Record<string, unknown>[] {
  using database = new DatabaseSync(join(dataDir, file), { timeout: 5000 });
  return database.prepare(sql).all();
}

/** Creates a data folder with empty databases, which are copies, because a migration waits for the disk several times. */
export async function migratedFolder(): Promise<string> {
  if (template === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'ticker-spec-'));
    process.once('exit', () => rmSync(folder, { recursive: true }));
    migrate(folder);
    template = folder;
  }
  const dataDir = await temporaryFolder();
  cpSync(template, dataDir, { recursive: true });
  return dataDir;
}

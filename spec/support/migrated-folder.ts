import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { migrate } from '../../db/sqlite/migrate.ts';

let template: string | undefined;

/** Fills a data folder with empty databases. Copies them, because a migration waits for the disk several times. */
export function fillDataFolder(dataDir: string): void {
  if (template === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'ticker-spec-'));
    process.once('exit', () => rmSync(folder, { recursive: true }));
    migrate(folder);
    template = folder;
  }
  cpSync(template, dataDir, { recursive: true });
}

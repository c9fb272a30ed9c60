import type { DatabaseSync } from 'node:sqlite';

/** Largest file that is checked whole, in bytes: a larger one would delay the start. */
const MAX_WHOLE_CHECK = 64 * 1024 * 1024;

const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** The database file is damaged. */
export class Damaged extends Error {
  override name = 'Damaged';
}

/**
 * Checks every page of a database of up to 64 MiB. Of each table of a larger one, reads the first and the last row.
 *
 * @throws {Damaged} or the error of SQLite
 */
export function checkDamage(database: DatabaseSync, tables: readonly string[], maxWholeCheck = MAX_WHOLE_CHECK): void {
  const { bytes } = database
    .prepare('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size')
    .get() as { bytes: number };
  if (bytes > maxWholeCheck) {
    const present = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    for (const table of tables.filter((name) => present.get(name) !== undefined)) {
      for (const order of ['ASC', 'DESC'])
        database.prepare(`SELECT * FROM ${table} ORDER BY rowid ${order} LIMIT 1`).get();
    }
    return;
  }
  const { quick_check: result } = database.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
  if (result !== 'ok') throw new Damaged(`it is damaged: ${result.replaceAll('\n', ' ')}`);
}

/** Whether an error, of SQLite or of {@link checkDamage}, says that the file is damaged. */
export function isDamage(error: unknown): boolean {
  const { errcode } = error as { errcode?: number };
  // The low byte of an extended code is the primary one.
  const primary = errcode === undefined ? undefined : errcode & 0xff;
  return error instanceof Damaged || primary === SQLITE_CORRUPT || primary === SQLITE_NOTADB;
}

import type { DatabaseSync } from 'node:sqlite';

/** Maximum size in bytes of a database that is checked in full. Checking a larger one would delay startup. */
const MAX_WHOLE_CHECK = 64 * 1024 * 1024;

const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

export class Damaged extends Error {
  override name = 'Damaged';
}

/**
 * Checks every page, or the first and last row of each table if the database is larger than `maxWholeCheck` bytes.
 *
 * @throws {Damaged} if the check finds damage, or SQLite's error if the check itself fails
 */
export function checkDamage(database: DatabaseSync, tables: readonly string[], maxWholeCheck = MAX_WHOLE_CHECK): void {
  const size = database.prepare('SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size');
  const { bytes } = size.get() as { bytes: number };
  if (bytes > maxWholeCheck) {
    const present = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    for (const table of tables.filter((name) => present.get(name) !== undefined)) {
      database.prepare(`SELECT * FROM ${table} ORDER BY rowid LIMIT 1`).get();
      database.prepare(`SELECT * FROM ${table} ORDER BY rowid DESC LIMIT 1`).get();
    }
    return;
  }
  const { quick_check: result } = database.prepare('PRAGMA quick_check(1)').get() as { quick_check: string };
  if (result !== 'ok') throw new Damaged(`it is damaged: ${result.replaceAll('\n', ' ')}`);
}

/** Whether an error from SQLite or {@link checkDamage} means that the file is damaged. */
export function isDamage(error: unknown): boolean {
  // The low byte of an extended result code is the primary result code.
  const primary = ((error as { errcode?: number }).errcode ?? 0) & 0xff;
  return error instanceof Damaged || primary === SQLITE_CORRUPT || primary === SQLITE_NOTADB;
}

import { readdirSync, readFileSync } from 'node:fs';

/**
 * Reads the migrations in `folder`: only those newer than `version` if all tables that they create are among the present
 * `tables`. Returns the SQL text of each, and the version of the newest one. @throws {Error} if `version` is newer
 */
export function migrationSteps(folder: URL, version: number, tables: readonly string[] = []) {
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'));
  const read = (name: string) => readFileSync(new URL(name, folder), 'utf8');
  const files = names.sort().map((name) => ({ number: Number.parseInt(name, 10), sql: read(name) }));
  const newest = files.at(-1)?.number ?? 0;
  if (version > newest) throw new Error(`its schema has version ${version}, this program supports up to ${newest}`);
  const created = files.flatMap(({ sql }) => [...sql.matchAll(/^CREATE TABLE IF NOT EXISTS (\w+)/gm)]);
  const isComplete = created.every(([, table = '']) => tables.includes(table));
  return { newest, steps: files.filter(({ number }) => !isComplete || number > version).map(({ sql }) => sql) };
}

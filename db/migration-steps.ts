import { readdirSync, readFileSync } from 'node:fs';

/**
 * Reads all migrations in `folder`, or only those newer than the database's `version` if no table is missing
 * (`isComplete`).
 *
 * @returns `steps`, the SQL text of each migration, and `newest`, the newest migration's version
 * @throws {Error} if `version` is newer than the newest migration
 */
export function migrationSteps(folder: URL, { version, isComplete }: { version: number; isComplete: boolean }) {
  const files = readdirSync(folder).filter((name) => name.endsWith('.sql'));
  const numbered = files.sort().map((name) => ({ name, number: Number.parseInt(name, 10) }));
  const newest = numbered.at(-1)?.number ?? 0;
  if (version > newest) throw new Error(`its schema has version ${version}, this program supports up to ${newest}`);
  const missing = numbered.filter(({ number }) => !isComplete || number > version);
  return { newest, steps: missing.map(({ name }) => readFileSync(new URL(name, folder), 'utf8')) };
}

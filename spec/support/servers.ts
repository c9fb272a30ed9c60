import { randomBytes } from 'node:crypto';
import { Client, types } from 'pg';
import { PostgresDatabase, type PostgresOptions } from '../../db/postgres/database.ts';
import { migratePostgres } from '../../db/postgres/migrate.ts';
import { afterTest, onceForSuite } from './cleanup.ts';
import { lackingPostgres, startPostgres } from './postgres-server.ts';
import { describeWith } from './requirements.ts';

let shared: ReturnType<typeof startPostgres> | undefined;

/** Defines a suite that needs PostgreSQL. Without PostgreSQL the suite is pending locally and fails in CI. */
export function describeWithPostgres(title: string, define: () => void): void {
  describeWith(lackingPostgres(), title, () => {
    before(async () => {
      shared ??= startPostgres();
      await shared;
    });
    define();
  });
}

/** A schema of one test, with a connection separate from the product's. */
export interface Schema {
  /** `postgres://…`, with a search path that selects the schema. */
  url: string;
  sql<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>;
}

export async function emptySchema(): Promise<Schema> {
  shared ??= startPostgres();
  const { url } = await shared;
  const name = `spec_${randomBytes(8).toString('hex')}`;
  const schemaUrl = `${url}?options=-c%20search_path%3D${name}`;
  const getTypeParser = (oid: number, format?: 'text') => (oid === 20 ? Number : types.getTypeParser(oid, format));
  const client = new Client({ connectionString: schemaUrl, types: { getTypeParser: getTypeParser as never } });
  client.on('error', () => {});
  await client.connect();
  await client.query(`CREATE SCHEMA ${name}`);
  afterTest(async () => {
    await client.query(`DROP SCHEMA ${name} CASCADE`).catch(() => {});
    await client.end();
  });
  return { url: schemaUrl, sql: async (text, values) => (await client.query(text, values)).rows };
}

export async function migratedSchema(): Promise<Schema> {
  const schema = await emptySchema();
  await migratePostgres(schema.url);
  return schema;
}

/** Opens connections as the product does. They are closed after the test. */
export function openDatabase(url: string, options: Partial<PostgresOptions> = {}): PostgresDatabase {
  const database = new PostgresDatabase(url, { connections: 2, timeLimitMs: 5000, ...options });
  afterTest(() => database.close());
  return database;
}

/** Migrates a schema once for the suite, because that costs 0.1 s of CPU time, and restores it after each test. */
export function migratedSchemaForSuite(): () => Schema {
  const schema = onceForSuite(async () => {
    const migrated = await migratedSchema();
    const tables = await migrated.sql<{ name: string }>(
      "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace",
    );
    const restored: string[] = [];
    for (const { name } of tables) {
      if ((await migrated.sql(`SELECT FROM ${name} LIMIT 1`)).length === 0) continue;
      await migrated.sql(`CREATE TEMP TABLE first_${name} AS TABLE ${name}`);
      restored.push(`INSERT INTO ${name} TABLE first_${name}`);
    }
    // No trigger sees that rows are restored.
    await migrated.sql("SET session_replication_role = 'replica'");
    const names = tables.map(({ name }) => name).join();
    return { ...migrated, restore: [`TRUNCATE ${names}`, ...restored].join(';') };
  });
  return () => {
    const { sql, restore } = schema();
    afterTest(() => sql(restore));
    return schema();
  };
}

/** Returns the settings common to the nodes of one test, which share an empty schema. */
export async function sharedSettings(): Promise<{ DATABASE_URL: string; TOKEN_KEY: string }> {
  const { url: DATABASE_URL } = await emptySchema();
  return { DATABASE_URL, TOKEN_KEY: 'the key that all nodes of a spec share' };
}

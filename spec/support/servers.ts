import { randomBytes } from 'node:crypto';
import { Client, types } from 'pg';
import { migratePostgres } from '../../db/postgres/migrate.ts';
import { afterTest } from './cleanup.ts';
import { lackingPostgres, type PostgresServer, startPostgres } from './postgres-server.ts';
import { describeWith, lackingProgram } from './requirements.ts';

let shared: Promise<PostgresServer> | undefined;

/** A suite that starts NATS servers of its own: pending on a machine without the program, but never in CI. */
export function describeWithNats(title: string, define: () => void): void {
  describeWith(lackingProgram('nats-server'), title, define);
}

/** A suite that needs both. */
export function describeWithServers(title: string, define: () => void): void {
  describeWithPostgres(title, () => describeWithNats('with NATS', define));
}

/** A suite that needs PostgreSQL: pending where it is not installed, but never in CI. All suites share one server. */
export function describeWithPostgres(title: string, define: () => void): void {
  describeWith(lackingPostgres(), title, () => {
    before(async () => {
      shared ??= startPostgres();
      await shared;
    });
    define();
  });
}

/** A name for streams, buckets and subjects that nobody else has. */
export function ownName(): string {
  return `spec_${randomBytes(12).toString('hex')}`;
}

/** A schema of one test, and a connection beside those of the product. */
export interface Schema {
  /** `postgres://…`, whose tables are in that schema. */
  url: string;
  /** Runs a statement there. */
  sql<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>;
}

/** An empty schema on the server that all suites share, or on another, that is removed after the test. */
export async function emptySchema(server?: PostgresServer): Promise<Schema> {
  shared ??= server === undefined ? startPostgres() : undefined;
  const { url } = server ?? (await (shared as Promise<PostgresServer>));
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

/** As {@link emptySchema}, with the tables in it. */
export async function migratedSchema(server?: PostgresServer): Promise<Schema> {
  const schema = await emptySchema(server);
  await migratePostgres(schema.url);
  return schema;
}

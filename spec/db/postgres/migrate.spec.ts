import { userInfo } from 'node:os';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { acquireLock } from '../../../db/postgres/database.ts';
import { migratePostgres } from '../../../db/postgres/migrate.ts';
import { afterTest } from '../../support/cleanup.ts';
import { run } from '../../support/command.ts';
import { describeWithPostgres, emptySchema, migratedSchema, openDatabase } from '../../support/servers.ts';

const failure = (url: string, timeLimitMs?: number) =>
  migratePostgres(url, timeLimitMs)
    .then(() => '')
    .catch(({ message }: Error) => message);

const COLUMNS = `SELECT column_name || ' ' || data_type || CASE is_nullable WHEN 'YES' THEN ' null' ELSE '' END AS is
  FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position`;

describeWithPostgres('migratePostgres', () => {
  it('makes tables that begin with the columns of the specification', async () => {
    const { sql } = await migratedSchema();
    const columns = async (table: string) => (await sql(COLUMNS, [table])).map(({ is }) => is);
    const keyColumns = ['id bigint', 'api_key text', 'user_id text', 'role text', 'created_at bigint'];
    expect(await columns('api_keys')).to.deep.equal(keyColumns);
    const taskColumns = ['id text', 'payload text', 'status text', 'result text null', 'created_at bigint'];
    expect((await columns('tasks')).slice(0, 6)).to.deep.equal([...taskColumns, 'processed_at bigint null']);
    await sql("INSERT INTO tasks (id, payload, created_at) VALUES ('a', '{}', 1)");
    await sql("INSERT INTO api_keys (api_key, user_id, created_at) VALUES ('k', 'alice', 1)");
    const defaults = { status: 'pending', result: null, role: 'user' };
    expect(await sql('SELECT t.status, result, role FROM tasks t, api_keys')).to.deep.equal([defaults]);
  });

  it('may be run again, and leaves what is there', async () => {
    const { url, sql } = await migratedSchema();
    await sql("INSERT INTO tasks (id, payload, created_at) VALUES ('a', '{}', 1)");
    await sql("INSERT INTO messages (id, run_at, accepted_at, body) VALUES ('b', 1, 1, '{}')");
    await sql('UPDATE queue_state SET paused = true');
    await migratePostgres(url);
    expect(await sql('SELECT id FROM tasks')).to.deep.equal([{ id: 'a' }]);
    expect(await sql('SELECT id, paused FROM messages, queue_state')).to.deep.equal([{ id: 'b', paused: true }]);
    expect(await sql('SELECT count(*) AS n FROM schema_version')).to.deep.equal([{ n: 1 }]);
  });

  it('waits for a migration of another node, and for its own steps, longer than the statement timeout', async () => {
    const { url, sql } = await emptySchema();
    // A step of the migration inserts a row here.
    await sql('CREATE TABLE queue_state (paused boolean, slow text DEFAULT pg_sleep(2.5))');
    const migrated = await openDatabase(url, { timeLimitMs: 30_000 }).transaction(async (query) => {
      await acquireLock(query, 'migration');
      const migration = failure(url, 1500);
      // Longer than the client's timeout, which is 500 ms above that of the server.
      await query('SELECT pg_sleep(2.5)');
      expect(await sql("SELECT to_regclass('tasks') AS tasks")).to.deep.equal([{ tasks: null }]);
      // A deadlock if the waiting migration has made the table, too.
      await query('CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)');
      return { migration };
    });
    expect(await migrated.migration).to.equal('');
    expect(await sql('SELECT version FROM schema_version')).to.deep.equal([{ version: 11 }]);
  });

  it('makes all of it or nothing', async () => {
    const { url, sql } = await emptySchema();
    // This table lacks the columns that the migration's last step indexes, so that step fails.
    await sql('CREATE TABLE tasks (id text)');
    expect(await failure(url)).to.match(/^cannot migrate PostgreSQL at .*: column "created_at" does not exist$/);
    const tables = 'SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()';
    expect(await sql(tables)).to.deep.equal([{ name: 'tasks' }]);
  });

  it('refuses a schema that is newer than it knows, and leaves it', async () => {
    const { url, sql } = await migratedSchema();
    await sql('UPDATE schema_version SET version = 99');
    await sql('DROP TABLE tasks');
    expect(await failure(url)).to.match(/: its schema has version 99, this program supports up to 11$/);
    expect(await sql("SELECT to_regclass('tasks') AS tasks")).to.deep.equal([{ tasks: null }]);
  });

  it('refuses a database of another encoding, in which not every text could be kept', async () => {
    const { url, sql } = await emptySchema();
    const name = `spec_latin_${Date.now()}`;
    await sql(`CREATE DATABASE ${name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
    afterTest(() => sql(`DROP DATABASE ${name} WITH (FORCE)`));
    const latin = Object.assign(new URL(url), { pathname: name, search: '' }).href;
    expect(await failure(latin)).to.match(/: its encoding is LATIN1: create the database with ENCODING 'UTF8'$/);
  });

  it('uses the name of the system’s user in an address without one, even if USER is unset', async () => {
    const { url, sql } = await emptySchema();
    const { host, pathname, search } = new URL(url);
    const program = fileURLToPath(new URL('../../../main/cli/migrate.ts', import.meta.url));
    const { USER: _user, LOGNAME: _name, PGUSER: _pgUser, ...others } = process.env;
    const env = { ...others, DATABASE_URL: `postgres://${host}${pathname}${search}` };
    const { stderr } = await run(process.execPath, [program], { env });
    const [owner] = await sql("SELECT relowner::regrole AS name FROM pg_class WHERE oid = to_regclass('tasks')");
    // A server that does not know the user names it in its refusal.
    const user = stderr === '' ? owner?.name : /role "(.+)" does not exist/.exec(stderr)?.[1];
    expect(user).to.equal(userInfo().username);
  });

  it('says in one line what is wrong with an address, and never the password', async () => {
    const { url } = await emptySchema();
    const { host } = new URL(url);
    const remedy = 'fix DATABASE_URL, for example postgres://user:password@127.0.0.1:5432/database';
    for (const [user, database, reason] of [
      ['spec', 'nowhere', 'database "nowhere" does not exist'],
      ['nobody', 'postgres', 'role "nobody" does not exist'],
    ] as const) {
      const line = `PostgreSQL at ${host}/${database} refuses the connection: ${reason}: ${remedy}`;
      expect(await failure(`postgres://${user}:secret@${host}/${database}`)).to.equal(line);
    }
    for (const address of ['secret@[::', 'secret%@h/db', 'secret@h:x/db'])
      expect(await failure(`postgres://spec:${address}`))
        .to.match(/^(DATABASE_URL is invalid: .*|cannot reach PostgreSQL at .*)$/)
        .and.not.include('secret');
  });
});

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';

async function migrated(file: 'auth.db' | 'tasks.db'): Promise<DatabaseSync> {
  const folder = await temporaryFolder();
  migrate(folder);
  const database = new DatabaseSync(join(folder, file));
  afterTest(() => database.close());
  return database;
}

/** Returns each column's name, type, default, nullability and primary-key flag. */
function columns(database: DatabaseSync, table: string): unknown[][] {
  return database
    .prepare(`PRAGMA table_info(${table})`)
    .all()
    .map(({ name, type, notnull, dflt_value, pk }) => [name, type, notnull === 1 || pk === 1, dflt_value, pk === 1]);
}

describe('the table api_keys', () => {
  it('has the columns of the specification', async () => {
    expect(columns(await migrated('auth.db'), 'api_keys')).to.deep.equal([
      ['id', 'INTEGER', true, null, true],
      ['api_key', 'TEXT', true, null, false],
      ['user_id', 'TEXT', true, null, false],
      ['role', 'TEXT', true, "'user'", false],
      ['created_at', 'INTEGER', true, null, false],
    ]);
  });

  it('gives each record the role user and an id that is never used again', async () => {
    const database = await migrated('auth.db');
    const insert = database.prepare("INSERT INTO api_keys (api_key, user_id, created_at) VALUES (?, 'alice', 1)");
    insert.run('k1');
    expect(insert.run('k2').lastInsertRowid).to.equal(2);
    database.exec("DELETE FROM api_keys WHERE api_key = 'k2'");
    expect(insert.run('k3').lastInsertRowid).to.equal(3);
    expect(database.prepare('SELECT DISTINCT role FROM api_keys').all()).to.deep.equal([{ role: 'user' }]);
  });

  it('takes each key once', async () => {
    const database = await migrated('auth.db');
    const insert = database.prepare("INSERT INTO api_keys (api_key, user_id, created_at) VALUES ('k', ?, 1)");
    insert.run('alice');
    expect(() => insert.run('bob')).to.throw('UNIQUE constraint failed: api_keys.api_key');
  });
});

describe('the table tasks', () => {
  it('has the columns of the specification', async () => {
    expect(columns(await migrated('tasks.db'), 'tasks')).to.deep.equal([
      ['id', 'TEXT', true, null, true],
      ['payload', 'TEXT', true, null, false],
      ['status', 'TEXT', true, "'pending'", false],
      ['result', 'TEXT', false, null, false],
      ['created_at', 'INTEGER', true, null, false],
      ['processed_at', 'INTEGER', false, null, false],
    ]);
  });

  it('gives a row that says nothing else the status pending, no result and no end', async () => {
    const database = await migrated('tasks.db');
    database.exec("INSERT INTO tasks (id, payload, created_at) VALUES ('a', '{}', 1)");
    expect(database.prepare('SELECT status, result, processed_at FROM tasks').all()).to.deep.equal([
      { status: 'pending', result: null, processed_at: null },
    ]);
  });

  it('takes each id once, and none that is null', async () => {
    const database = await migrated('tasks.db');
    const insert = database.prepare("INSERT INTO tasks (id, payload, created_at) VALUES (?, '{}', 1)");
    insert.run('a');
    expect(() => insert.run('a')).to.throw('UNIQUE constraint failed: tasks.id');
    expect(() => insert.run(null)).to.throw('NOT NULL constraint failed: tasks.id');
  });
});

import { expect } from 'chai';
import { PostgresApiKeys } from '../../../db/postgres/api-keys.ts';
import { PostgresDatabase } from '../../../db/postgres/database.ts';
import { afterTest } from '../../support/cleanup.ts';
import { describeWithPostgres, migratedSchema } from '../../support/servers.ts';
import { describeApiKeyStore } from '../api-key-store.ts';

async function fresh() {
  const { url, sql } = await migratedSchema();
  const open = () => {
    const database = new PostgresDatabase(url, { connections: 2, timeLimitMs: 5000 });
    afterTest(() => database.close());
    return database;
  };
  const database = open();
  return {
    sql,
    open,
    keys: new PostgresApiKeys(database),
    async insert(...row: unknown[]) {
      await sql('INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES ($1, $2, $3, $4)', row);
    },
    all: () => sql('SELECT * FROM api_keys ORDER BY id'),
    async update(text: string) {
      await sql(text);
    },
    close: () => database.close(),
  };
}

describeWithPostgres('PostgresApiKeys', () => {
  describeApiKeyStore(fresh);

  it('makes one demo user when ten nodes start at once', async () => {
    const { open, all } = await fresh();
    const made = await Promise.all(Array.from({ length: 10 }, () => new PostgresApiKeys(open()).ensureDemoUser(1)));
    expect(made.filter(({ created }) => created)).to.have.lengthOf(1);
    expect(new Set(made.map(({ apiKey }) => apiKey))).to.have.property('size', 1);
    expect(await all()).to.have.lengthOf(1);
  });
});

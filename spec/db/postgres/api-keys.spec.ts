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

  it('looks a key up by the index of its digest, and by nothing else', async () => {
    const { sql, keys, open } = await fresh();
    await sql(
      "INSERT INTO api_keys (api_key, user_id, created_at) SELECT 'key ' || n, 'alice', n FROM generate_series(1, 5000) n",
    );
    await sql('ANALYZE api_keys');
    const texts: string[] = [];
    const database = open();
    const { query } = database;
    Object.assign(database, {
      query: ((text, values) => {
        texts.push(text);
        expect(values).to.have.lengthOf(1);
        expect(values?.[0]).to.be.instanceOf(Buffer).with.property('length', 32);
        return query(text, values);
      }) satisfies typeof query,
    });
    expect(await new PostgresApiKeys(database).findOwner('key 7')).to.deep.equal(await keys.findOwner('key 7'));
    expect(texts).to.have.lengthOf(1);
    await sql(`PREPARE find (bytea) AS ${texts[0]}`);
    const plan = JSON.stringify(await sql("EXPLAIN EXECUTE find ('\\x00')"));
    expect(plan).to.include('Index Scan using api_keys_by_digest').and.not.include('Filter');
  });

  it('makes one demo user when ten nodes start at once', async () => {
    const { open, all } = await fresh();
    const made = await Promise.all(Array.from({ length: 10 }, () => new PostgresApiKeys(open()).ensureDemoUser(1)));
    expect(made.filter(({ created }) => created)).to.have.lengthOf(1);
    expect(new Set(made.map(({ apiKey }) => apiKey))).to.have.property('size', 1);
    expect(await all()).to.have.lengthOf(1);
  });
});

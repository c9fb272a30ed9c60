import { expect } from 'chai';
import { EXHAUSTED } from '../../../db/message-change.ts';
import { acquireLock, PostgresDatabase } from '../../../db/postgres/database.ts';
import { PostgresStore, WRITE_CONNECTIONS } from '../../../db/postgres/store.ts';
import {
  DatabaseUnavailable,
  type Delivery,
  QueueFull,
  type Recovery,
  type Settlement,
  SUSPECT_DEATHS,
  ValueRefused,
} from '../../../db/task-store.ts';
import { openNode } from '../../store/postgres-driver.ts';
import { ack, complete, discard, release, retry, row } from '../../store/settlements.ts';
import { errorOf, messageOf, numbers, roomy, START, sorted } from '../../store/stage.ts';
import { boundDeadLetters, purgeIn, redriveIn } from '../../store/store-calls.ts';
import { afterTest } from '../../support/cleanup.ts';
import { randomFrom, seedNote } from '../../support/seed.ts';
import { describeWithPostgres, migratedSchema, type Schema } from '../../support/servers.ts';
import { severable } from '../../support/severable.ts';
import { until } from '../../support/until.ts';

const now = () => START;

async function openStore(url: string, owner: string, bounds = roomy): Promise<PostgresStore> {
  const store = await openNode(url, owner, { bounds, now });
  afterTest(() => store.close());
  return store;
}

/** Opens the store of the owner `one` on empty tables. */
async function freshStore() {
  const schema = await migratedSchema();
  return { ...schema, schema, store: await openStore(schema.url, 'one') };
}

const publishAll = (store: PostgresStore, ids: Iterable<string>) =>
  Promise.all([...ids].map((id) => store.publish(messageOf(id))));
const settleAll = (store: PostgresStore, deliveries: readonly Delivery[], settlement: Settlement) =>
  store.settle(deliveries.map((delivery) => ({ delivery, settlement })));
const idsOf = (deliveries: readonly { id: string }[]) => sorted(deliveries.map(({ id }) => id).join(''));

const COUNTED = `SELECT
  (SELECT count(*) FROM messages WHERE state = 'waiting') AS waiting,
  (SELECT count(*) FROM messages WHERE state = 'scheduled') AS scheduled,
  (SELECT count(*) FROM messages WHERE state = 'retrying') AS retrying,
  (SELECT count(*) FROM messages WHERE state = 'running') AS "inFlight",
  (SELECT count(*) FROM messages WHERE state = 'failed') AS dead,
  (SELECT coalesce(sum(bytes), 0)::bigint FROM messages WHERE state <> 'failed') AS bytes,
  (SELECT count(*) FROM tasks) AS completed`;

/** Expects the counts of a store to be those of the tables. */
async function expectTrueCounts({ sql }: Schema, store: PostgresStore, except?: string) {
  const counts = await store.counts();
  const [counted] = await sql(COUNTED);
  if (except !== undefined) delete counted?.[except];
  expect(counts).to.include(counted);
  const { accepted, completed, dead, dropped, cancelled, waiting, scheduled, retrying, inFlight } = counts;
  expect(accepted).to.equal(completed + dead + dropped + cancelled + waiting + scheduled + retrying + inFlight);
  const [stored] = await sql(`SELECT sum(dead)::bigint AS dead, sum(dead_bytes)::bigint AS bytes,
    sum(keys)::bigint AS keys FROM queue_counts`);
  const [letters] = await sql(`SELECT count(*) AS dead, coalesce(sum(bytes), 0)::bigint AS bytes,
    (SELECT count(*) FROM idempotency_keys) AS keys FROM messages WHERE state = 'failed'`);
  expect(stored).to.deep.equal(letters);
  return counts;
}

describeWithPostgres('PostgresStore', () => {
  it('writes what is asked for in one event loop turn in one transaction: submissions, settlements with a take', async () => {
    const { sql, store } = await freshStore();
    const transactions = 'SELECT DISTINCT xmin::text FROM messages UNION SELECT DISTINCT xmin::text FROM tasks';
    await publishAll(store, 'abcd');
    expect(await sql(transactions)).to.have.length(1);
    const { deliveries } = await store.take(2, true);
    const [{ effects }, taken] = await Promise.all([settleAll(store, deliveries, complete()), store.take(2, false)]);
    expect([effects, idsOf(taken.deliveries)]).to.deep.equal([['applied', 'applied'], 'cd']);
    expect(await sql(transactions)).to.have.length(1);
  });

  it('refuses a value that PostgreSQL cannot store, and nothing beside it', async () => {
    const { store } = await freshStore();
    const results = await Promise.allSettled([
      store.publish(messageOf('a')),
      store.publish({ ...messageOf('b'), body: '\0' }),
      store.publish(messageOf('c')),
      store.publish(messageOf('a')),
    ]);
    expect(
      results.map((result) => (result.status === 'fulfilled' ? result.value.id : result.reason.name)),
    ).to.deep.equal(['a', 'ValueRefused', 'c', 'ValueRefused']);
    const { deliveries } = await store.take(5, true);
    const [a, c] = deliveries as [Delivery, Delivery];
    const refused = { delivery: a, settlement: { kind: 'complete', result: '\0' } as const };
    const [error, taken] = await Promise.all([
      errorOf(() => store.settle([refused, { delivery: c, settlement: complete() }])),
      store.take(5, false),
    ]);
    expect(error).to.be.instanceOf(ValueRefused);
    expect(taken.deliveries).to.deep.equal([]);
    expect((await store.counts()).inFlight).to.equal(2);
    expect((await settleAll(store, [a, c], complete())).effects).to.deep.equal(['applied', 'applied']);
  });

  it('finds a task while it is completed, as a message or as a row', async () => {
    const { store } = await freshStore();
    await publishAll(store, 'a');
    const { deliveries } = await store.take(1, true);
    const finds = Array.from({ length: 20 }, () => store.reads.find('a'));
    await settleAll(store, deliveries, complete());
    finds.push(store.reads.find('a'));
    const found = (await Promise.all(finds)).map((each) => each && Object.keys(each)[0]);
    expect(found.slice(0, -1)).to.not.include(undefined);
    expect(found.at(-1)).to.equal('row');
  });

  it('works while a long transaction, such as that of pg_dump, reads all tables', async () => {
    const { schema, sql, store } = await freshStore();
    await publishAll(store, 'abc');
    await sql('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await sql('LOCK TABLE messages, tasks, queue_counts, queue_state, idempotency_keys IN ACCESS SHARE MODE');
    await sql('SELECT count(*) FROM messages');
    const { deliveries } = await store.take(2, true);
    await settleAll(store, deliveries.slice(0, 1), complete());
    await settleAll(store, deliveries.slice(1), discard());
    await redriveIn(store, { all: true });
    await store.setPaused(true);
    await store.cancel('c');
    await publishAll(store, 'd');
    await store.deleteOldRows({ rows: 1, before: undefined });
    await sql('COMMIT');
    await expectTrueCounts(schema, store);
  });

  describe('after a lost answer', () => {
    /** Opens a store, and loses the answer of a call after its effect. */
    async function losing() {
      const schema = await migratedSchema();
      const way = await severable(schema.url);
      const store = await openStore(way.url, 'one');
      const lose = async (call: () => Promise<unknown>, isDone: string) => {
        way.loseAnswers();
        const error = errorOf(call);
        await until(async () => (await schema.sql(isDone)).length > 0);
        way.cut();
        way.mend();
        expect(await error).to.be.instanceOf(DatabaseUnavailable);
      };
      return { schema, store, lose };
    }

    it('takes again what it had taken and charges nothing, but deletes what was cancelled meanwhile', async () => {
      const { schema, store, lose } = await losing();
      await publishAll(store, 'abcde');
      const { deliveries: held } = await store.take(1, true);
      await lose(() => store.take(3, false), "SELECT 1 FROM messages WHERE id = 'd' AND state = 'running'");
      expect(await store.cancel('b')).to.include({ outcome: 'requested' });
      const { deliveries } = await store.take(5, false);
      const taken = deliveries.map(({ id, attempt, delivery }) => `${id} ${attempt} ${delivery}`);
      expect(taken).to.deep.equal(['c 1 2', 'd 1 2', 'e 1 1']);
      const { effects } = await settleAll(store, [...held, ...deliveries], complete());
      expect(effects).to.deep.equal(Array(4).fill('applied'));
      expect(await expectTrueCounts(schema, store)).to.include({ cancelled: 1, inFlight: 0 });
    });

    it('finds out by itself that it owns more than it holds', async () => {
      const { schema, store } = await losing();
      await publishAll(store, 'ab');
      // As if a statement of an abandoned connection had been executed late.
      await schema.sql("UPDATE messages SET state = 'running', owner = 'one', delivery = 1 WHERE id = 'a'");
      expect(idsOf((await store.take(5, true)).deliveries)).to.equal('b');
      expect(idsOf((await store.take(5, false)).deliveries)).to.equal('a');
    });

    it('says which settlements have been applied when they are repeated, also if a released message is limited', async () => {
      const { schema, store, lose } = await losing();
      await publishAll(store, 'abcdef');
      const { deliveries } = await store.take(6, true);
      await store.setLimits('sum', { concurrency: 1 }, 'api');
      const settlements = [complete(), retry(START + 5), discard(), release, ack];
      const settled = settlements.map((settlement, index) => ({ delivery: deliveries[index] as Delivery, settlement }));
      await lose(() => store.settle(settled), "SELECT 1 FROM messages WHERE id = 'd' AND state = 'limited'");
      const counts = await store.counts();
      const { effects } = await store.settle(settled);
      expect(effects).to.deep.equal(settled.map(() => 'applied'));
      expect(await store.counts()).to.deep.equal(counts);
      expect((await store.settle(settled)).effects).to.deep.equal(settled.map(() => 'late'));
      expect((await schema.sql('SELECT id FROM tasks')).length).to.equal(1);
    });

    it('remembers an ack until the row is written, or for an hour', async () => {
      const { schema, store } = await losing();
      const remembered = async () => (await schema.sql('SELECT 1 FROM acks')).length;
      await publishAll(store, 'ab');
      const { deliveries } = await store.take(2, true);
      await settleAll(store, deliveries, ack);
      await settleAll(store, deliveries.slice(0, 1), row(1));
      await store.start();
      expect(await remembered()).to.equal(1);
      await schema.sql(`UPDATE acks SET acked_at = ${START - 3_600_001}`);
      await store.start();
      expect(await remembered()).to.equal(0);
    });

    for (const settlement of [ack, complete()])
      it(`does not apply a repeated ${settlement.kind} if its task has the row of another run, waits or was cancelled`, async () => {
        const { schema, store } = await losing();
        const other = await openStore(schema.url, 'two');
        await publishAll(store, 'abcd');
        const { deliveries } = await store.take(4, true);
        await other.recover('one');
        await other.cancel('d');
        const [a, b] = (await other.take(2, true)).deliveries as [Delivery, Delivery];
        await settleAll(other, [a], complete());
        await settleAll(other, [b], ack);
        await settleAll(other, [b], row(2));
        await schema.sql('ALTER TABLE messages RENAME TO hidden');
        await errorOf(() => settleAll(store, deliveries, settlement));
        await schema.sql('ALTER TABLE hidden RENAME TO messages');
        expect((await settleAll(store, deliveries, settlement)).effects).to.deep.equal(Array(4).fill('late'));
        await expectTrueCounts(schema, store);
      });

    it('does not take a dead letter by the death of its process for that of a late discard', async () => {
      const { schema, store } = await losing();
      const other = await openStore(schema.url, 'two');
      await publishAll(store, 'a');
      for (let deaths = 0; deaths < SUSPECT_DEATHS; deaths++) {
        await store.take(1, true);
        await other.recover('one');
      }
      const { deliveries } = await store.take(1, true);
      expect(await other.recover('one')).to.have.length(1);
      expect((await settleAll(store, deliveries, discard())).effects).to.deep.equal(['late']);
    });
  });

  describe('after a failure in the middle', () => {
    const idOrError = (result: PromiseSettledResult<{ id: string }>) =>
      result.status === 'fulfilled' ? result.value.id : result.reason.name;

    /** Lets every change of the message with this id fail, as if the disk were full. */
    async function failAt({ sql }: Schema, id: string) {
      await sql(`CREATE FUNCTION fail() RETURNS trigger AS
        $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql`);
      const fires = (row: string, what: string) => `CREATE TRIGGER fail_${what} BEFORE ${what} ON messages FOR EACH ROW
        WHEN (${row}.id = '${id}') EXECUTE FUNCTION fail()`;
      for (const what of ['UPDATE', 'DELETE']) await sql(fires('OLD', what));
      await sql(fires('NEW', 'INSERT'));
    }

    it('answers the submissions that were accepted, and refuses the others', async () => {
      const schema = await migratedSchema();
      const store = await openStore(schema.url, 'one', { ...roomy, maxBytes: 1000 });
      await failAt(schema, 'c');
      const messages = [messageOf('a'), messageOf('b', 'x'.repeat(1000)), messageOf('c')];
      const results = await Promise.allSettled(messages.map((message) => store.publish(message)));
      expect(results.map(idOrError)).to.deep.equal(['a', 'QueueFull', 'DatabaseUnavailable']);
      await expectTrueCounts(schema, store);
    });

    for (const change of [redriveIn, purgeIn]) {
      it(`says which dead letters ${change.name} changed, and how many it kept`, async () => {
        const { schema, store } = await freshStore();
        const ids = numbers(1200);
        await publishAll(store, ids);
        await settleAll(store, (await store.take(1200, true)).deliveries, discard());
        await failAt(schema, '1100');
        const { done, remaining } = await change(store, { all: true });
        expect(done.map(({ id }) => id)).to.deep.equal(ids.slice(0, 1000));
        expect(remaining).to.equal(200);
        expect(await errorOf(() => change(store, { all: true }))).to.be.instanceOf(DatabaseUnavailable);
        await schema.sql('DROP FUNCTION fail CASCADE');
        expect((await change(store, { all: true })).done).to.have.length(200);
        await expectTrueCounts(schema, store);
      });
    }
  });

  it('evicts the keys beyond a lowered bound in steps', async () => {
    const { url, sql } = await migratedSchema();
    const roomyStore = await openStore(url, 'one', { ...roomy, maxKeys: 5000 });
    const publish = (store: PostgresStore, id: string) => store.publish(messageOf(id), { key: id, fingerprint: 'x' });
    await Promise.all(numbers(2100).map((id) => publish(roomyStore, id)));
    const smaller = await openStore(url, 'two', { ...roomy, maxKeys: 1 });
    for (const [id, count] of Object.entries({ a: 101, b: 1 })) {
      await publish(smaller, id);
      expect(await sql('SELECT count(*) AS count FROM idempotency_keys')).to.deep.equal([{ count }]);
    }
  });

  it('keeps the newest rows by submission and arrival, more if some are equal, and lets one node delete at a time', async () => {
    const { url, sql, store } = await freshStore();
    const insert = (from: number, to: number, createdAt: number, arrival: string) =>
      sql(`INSERT INTO tasks (id, payload, created_at, arrival)
        SELECT 'id' || n, '', ${createdAt}, ${arrival} FROM generate_series(${from}, ${to}) AS n`);
    const left = async () => (await sql('SELECT id FROM tasks ORDER BY arrival')).map(({ id }) => id);
    const limits = { rows: 4, before: undefined };
    await insert(1, 5, 7, 'n');
    await insert(6, 9, 6, 'n');
    const other = new PostgresDatabase(url, { connections: 1, timeLimitMs: 5000 });
    afterTest(() => other.close());
    await other.transaction(async (query) => {
      await acquireLock(query, 'retention');
      expect(await store.deleteOldRows(limits)).to.equal(false);
      expect(await left()).to.have.length(9);
    });
    expect([await store.deleteOldRows(limits), await store.deleteOldRows(limits)]).to.deep.equal([true, false]);
    expect(await left()).to.deep.equal(['id2', 'id3', 'id4', 'id5']);
    await insert(10, 18, 8, '5');
    while (await store.deleteOldRows(limits));
    expect(await left()).to.have.length(9);
  });

  it(`has true counts and no deadlock, whatever several nodes do at the same time ${seedNote}`, async () => {
    const schema = await migratedSchema();
    const bounds = { maxLength: 300, maxBytes: 100_000, maxKeys: 20 };
    const owners = ['one', 'two', 'three'];
    const stores = await Promise.all(owners.map((owner) => openStore(schema.url, owner, bounds)));
    const ids = ['none'];
    const publishSome = async (store: PostgresStore, key: () => string | undefined) => {
      const made = numbers(20, ids.length);
      ids.push(...made);
      const publishing = made.map((id) => [id, key()] as const);
      const published = await Promise.allSettled(
        publishing.map(([id, name]) =>
          store.publish(messageOf(id), name ? { key: name, fingerprint: 'x' } : undefined),
        ),
      );
      for (const each of published) if (each.status === 'rejected') expect(each.reason).to.be.instanceOf(QueueFull);
    };
    const work = async (store: PostgresStore, stream: number) => {
      const random = randomFrom(stream);
      const some = () => Array.from({ length: 1 + random.below(30) }, () => random.pick(ids));
      const selection = () => random.pick([{ all: true }, { ids: some() }, { reason: 'no' }] as const);
      const settlement = () => random.pick([complete(), ack, retry(START), discard('no'), discard('other'), release]);
      const held: Delivery[] = [];
      for (let round = 0; round < 40; round++) {
        const calls = [
          () => publishSome(store, () => undefined),
          () => publishSome(store, () => `key ${random.below(50)}`),
          async () => held.push(...(await store.take(random.below(30), held.length === 0)).deliveries),
          () => redriveIn(store, selection()),
          () => purgeIn(store, selection()),
          () => Promise.all(some().map((id) => store.cancel(id))),
          () => store.recover(random.pick(owners)),
          () => store.report(held.map((delivery) => ({ delivery, startedAt: START, progress: undefined }))),
        ];
        const settled = held.splice(0, random.below(20)).map((delivery) => ({ delivery, settlement: settlement() }));
        await Promise.all([store.settle(settled), random.pick(calls)(), random.pick(calls)()]);
      }
    };
    await Promise.all([...stores, ...stores].map(work));
    const [first] = stores as [PostgresStore];
    // An ack leaves no row.
    const counts = await expectTrueCounts(schema, first, 'completed');
    await Promise.all(stores.map((store) => store.close()));
    const next = await openStore(schema.url, 'next');
    expect(await next.counts()).to.deep.equal({ ...counts, evicted: 0 });
    expect(await schema.sql('SELECT owner FROM queue_counts')).to.deep.equal([{ owner: '' }]);
  });

  it('accepts tasks without limits while a transaction changes tasks with limits', async () => {
    const { sql, store } = await freshStore();
    await store.setLimits('other', { concurrency: 1 }, 'api');
    await sql('BEGIN');
    await sql('SELECT lock_limits(0, NULL)');
    await publishAll(store, 'a');
    await store.publishAll([{ message: messageOf('b'), key: undefined }]);
    await sql('COMMIT');
    expect((await store.counts()).waiting).to.equal(2);
  });

  it('says which tasks the recovery of an owner has dead-lettered, cancelled, or evicted as dead letters', async () => {
    const { url, sql, store } = await freshStore();
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id, action: 'sum' }));
    await publishAll(store, 'abc');
    await settleAll(store, (await store.take(1, true)).deliveries, discard());
    // The dead letters of another process count too.
    await sql("INSERT INTO queue_counts (owner, lane, accepted, dead) VALUES ('other', 'operations', 1, 1)");
    boundDeadLetters({ maxLength: 2 });
    for (let death = 0; death < SUSPECT_DEATHS; death++) {
      await store.take(2, true);
      expect(await store.recover('one')).to.deep.equal([]);
    }
    const recoveries: Recovery[] = [];
    store.onRecovered((recovery) => recoveries.push(recovery));
    const suspects = await openStore(url, 'two');
    expect(idsOf((await suspects.take(2, true)).deliveries)).to.equal('b');
    const failed = [{ ...b, attempts: 1, reason: EXHAUSTED }];
    expect([await store.recover('two'), await store.recover('two')]).to.deep.equal([failed, []]);
    const next = await openStore(url, 'three');
    expect(idsOf((await next.take(2, true)).deliveries)).to.equal('c');
    await store.cancel('c');
    expect(await store.recover('three')).to.deep.equal([]);
    expect(recoveries).to.deep.equal([
      { failed, cancelled: [], evicted: [a] },
      { failed: [], cancelled: [c], evicted: [] },
    ]);
    expect(await store.counts()).to.include({ failed: 2, evicted: 1, cancelled: 1, waiting: 0 });
  });

  it('changes many messages in more time than its other statements have', async () => {
    const { url, sql } = await migratedSchema();
    const connect = (connections: number) => new PostgresDatabase(url, { connections, timeLimitMs: 500 });
    const open = (owner: string) => {
      const databases = { writes: connect(WRITE_CONNECTIONS), reads: connect(1) };
      const store = new PostgresStore(databases, { bounds: roomy, now, owner });
      afterTest(() => store.close());
      return store;
    };
    const [one, two] = [open('one'), open('two')];
    await sql(`CREATE FUNCTION be_slow() RETURNS trigger AS
      $$ BEGIN PERFORM pg_sleep(0.6); RETURN NEW; END $$ LANGUAGE plpgsql`);
    await sql(`CREATE TRIGGER slow BEFORE INSERT OR UPDATE OF place ON messages
      FOR EACH ROW EXECUTE FUNCTION be_slow()`);
    await one.publishAll([{ message: messageOf('a'), key: undefined }]);
    // One node waits for the other.
    await Promise.all([
      one.setLimits('sum', { concurrency: 1 }, 'module'),
      two.setLimits('sum', { perKey: { concurrency: 1 } }, 'module'),
    ]);
    expect(await one.limits()).to.have.length(1);
  });
});

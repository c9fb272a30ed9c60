import { mock } from 'node:test';
import { expect } from 'chai';
import { PROCESS_DIED } from '../../../db/attempt-history.ts';
import { EXHAUSTED } from '../../../db/message-change.ts';
import { acquireLock, connectDirectly, listen, PostgresDatabase } from '../../../db/postgres/database.ts';
import type { PostgresStore } from '../../../db/postgres/store.ts';
import { DatabaseUnavailable, type Delivery, KeyReused, type Message, QueueFull } from '../../../db/task-store.ts';
import { openNode } from '../../store/postgres-driver.ts';
import { fire, schedule } from '../../store/schedules.ts';
import { ack, complete, discard, release, retry, row } from '../../store/settlements.ts';
import { errorOf, HOUR, messageOf, numbers, type OpenOptions, roomy, START, TestQueue } from '../../store/stage.ts';
import { boundDeadLetters, purgeIn, redriveIn } from '../../store/store-calls.ts';
import { afterTest } from '../../support/cleanup.ts';
import { randomFrom, seedNote } from '../../support/seed.ts';
import { describeWithPostgres, migratedSchema, openDatabase, type Schema } from '../../support/servers.ts';
import { severable } from '../../support/severable.ts';
import { until } from '../../support/until.ts';

function openQueue(url: string, owner: string, bounds = roomy, timeLimitMs?: number): Promise<TestQueue> {
  const open = (options: OpenOptions) => openNode(url, owner, options, timeLimitMs);
  return new TestQueue({ open, reopen: (_, options) => open(options) }, bounds).open();
}

/** Opens an empty queue on the nodes of the owners `one` and `other`. */
async function fresh(bounds = roomy) {
  const schema = await migratedSchema();
  const [one, other] = [await openQueue(schema.url, 'one', bounds), await openQueue(schema.url, 'other', bounds)];
  return { ...schema, schema, one, other, store: one.store };
}

const recover = ({ store }: TestQueue, owner: string) => (store as PostgresStore).recover(owner);

/** Publishes messages in one event loop turn. Returns their ids, or the names of the errors. */
async function publishAll({ store }: TestQueue, messages: readonly Message[]): Promise<string[]> {
  const publish = (message: Message) => store.publish(message).catch(({ name }: Error) => ({ id: name }));
  return (await Promise.all(messages.map(publish))).map(({ id }) => id);
}

const COUNTED = `SELECT
  count(*) FILTER (WHERE state = 'waiting') AS waiting,
  count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
  count(*) FILTER (WHERE state = 'retrying') AS retrying,
  count(*) FILTER (WHERE state = 'running') AS "inFlight",
  count(*) FILTER (WHERE state = 'failed') AS dead,
  coalesce(sum(bytes) FILTER (WHERE state <> 'failed'), 0)::bigint AS bytes,
  coalesce(sum(bytes) FILTER (WHERE state = 'failed'), 0)::bigint AS dead_bytes,
  (SELECT count(*) FROM tasks) AS completed, (SELECT count(*) FROM idempotency_keys) AS keys FROM messages`;

async function expectTrueCounts({ sql }: Schema, queue: TestQueue, except?: string) {
  const [{ dead_bytes, keys, ...counted } = {}] = await sql(COUNTED);
  if (except !== undefined) delete counted[except];
  await queue.expectCounts(counted);
  const stored = 'SELECT sum(dead_bytes)::bigint AS dead_bytes, sum(keys)::bigint AS keys FROM queue_counts';
  expect(await sql(stored)).to.deep.equal([{ dead_bytes, keys }]);
}

describeWithPostgres('PostgresStore', () => {
  it('writes what is asked for in one event loop turn in one transaction: submissions, settlements with a take', async () => {
    const { sql, one } = await fresh();
    const transactions = 'SELECT DISTINCT xmin::text FROM messages UNION SELECT DISTINCT xmin::text FROM tasks';
    await one.publishTogether([...'abcd']);
    expect(await sql(transactions)).to.have.length(1);
    const [, taken] = await Promise.all([one.settleAll(await one.takeAll(2), complete()), one.takeIds(2)]);
    expect([taken, (await sql(transactions)).length]).to.deep.equal(['cd', 1]);
  });

  it('syncs what a client requests before its answer, but not a settlement, which may be repeated', async () => {
    const { sql, one, store } = await fresh();
    await one.discard('xy');
    await sql('CREATE TABLE changes (is_synced text)');
    await sql(`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO changes VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`);
    for (const table of ['messages', 'queue_state', 'limits', 'schedules'])
      await sql(`CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON ${table} EXECUTE FUNCTION note()`);
    await one.publish('a');
    await store.publishAll([{ message: { ...messageOf('later'), runAt: START + HOUR }, key: undefined }]);
    await store.runNow('later');
    await one.cancel('later');
    await redriveIn(store, { ids: ['x'] });
    await purgeIn(store, { ids: ['y'] });
    await store.setPaused(false);
    await store.setLimits('mail', { concurrency: 1 }, 'api');
    await store.schedules.put(schedule('s'));
    await fire(one, 'b');
    const changes = async () => (await sql('SELECT DISTINCT is_synced FROM changes')).map(({ is_synced }) => is_synced);
    expect(await changes()).to.deep.equal(['on']);
    await sql('DELETE FROM changes');
    await one.settle(await one.next(), complete());
    expect(await changes()).to.deep.equal(['off']);
  });

  for (const table of ['messages', 'queue_state'])
    it(`waits at its close for a write to ${table}`, async () => {
      const { sql, one, store } = await fresh();
      const [[delivery]] = await Promise.all([one.running('a'), store.setPaused(false)]);
      await sql(`BEGIN; LOCK TABLE ${table} IN EXCLUSIVE MODE`);
      const results = Promise.all([one.settle(delivery, complete()), store.setPaused(true)]);
      const closed = store.close();
      await until(async () => (await sql('SELECT 1 FROM pg_locks WHERE NOT granted')).length > 0);
      // A closed store cannot be read.
      for (let reads = 0; reads < 20; reads++) await one.stateOf('a');
      await sql('COMMIT');
      expect([await results, await closed]).to.deep.equal([['applied', undefined], true]);
    });

  it('refuses a value that PostgreSQL cannot store, and nothing beside it', async () => {
    const { one, store } = await fresh();
    const messages = [messageOf('a'), { ...messageOf('b'), body: '\0' }, messageOf('c'), messageOf('a')];
    expect(await publishAll(one, messages)).to.deep.equal(['a', 'ValueRefused', 'c', 'ValueRefused']);
    const [a, c] = await one.takeAll(2);
    const settled = [
      { delivery: a, settlement: { kind: 'complete', result: '\0' } as const },
      { delivery: c, settlement: complete() },
    ];
    const [error, taken] = await Promise.all([errorOf(() => store.settle(settled)), one.takeIds(5)]);
    expect([error.name, taken]).to.deep.equal(['ValueRefused', '']);
    await one.expectCounts({ inFlight: 2 });
    await one.settleAll([a, c], complete());
  });

  it('finds a task that is completed while its row is read', async () => {
    const { one } = await fresh();
    const [a] = await one.running('a');
    const { rows } = one.store.reads;
    const { find } = rows;
    mock.method(rows, 'find', (async (id) => {
      const row = await find(id, 'detailed');
      await one.settle(a, complete());
      return row;
    }) as typeof find);
    expect(await one.stateOf('a')).to.equal('running');
  });

  it('deletes no task that another node takes while it is cancelled, but asks that node to end it, and does not run it again', async () => {
    const { sql, one, other } = await fresh();
    await one.publish('a', { runAt: START + HOUR });
    await sql("BEGIN; UPDATE messages SET state = 'running', owner = 'other', delivery = 1 WHERE id = 'a'");
    const outcomes = Promise.all([one.cancel('a'), other.store.runNow('a')]);
    await until(async () => (await sql('SELECT 1 FROM pg_locks WHERE NOT granted')).length > 1);
    await sql('COMMIT');
    expect([await outcomes, await one.stateOf('a')]).to.deep.equal([['requested', 'running'], 'running']);
  });

  it('works while a long transaction, such as that of pg_dump, reads all tables', async () => {
    const { schema, sql, one, store } = await fresh();
    await one.publish('abc');
    await sql('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await sql('LOCK TABLE messages, tasks, queue_counts, queue_state, idempotency_keys IN ACCESS SHARE MODE');
    await sql('SELECT count(*) FROM messages');
    const [a, b] = await one.takeAll(2);
    await one.settle(a, complete());
    await one.settle(b, discard());
    await one.redrive({ all: true });
    await store.setPaused(true);
    expect(await Promise.all([one.cancel('c'), one.cancel('c')])).to.deep.equal(['cancelled', undefined]);
    await one.publish('d');
    await store.deleteOldRows({ rows: 1, before: undefined });
    await sql('COMMIT');
    await expectTrueCounts(schema, one);
  });

  /** Opens a queue on the node `one`. `lose` loses the answer of a call after its effect. */
  async function losing() {
    const schema = await migratedSchema();
    const way = await severable(schema.url);
    const one = await openQueue(way.url, 'one');
    const lose = async (call: () => Promise<unknown>, isDone: string) => {
      way.loseAnswers();
      const error = errorOf(call);
      await until(async () => (await schema.sql(isDone)).length > 0);
      way.cut();
      way.mend();
      expect(await error).to.be.instanceOf(DatabaseUnavailable);
    };
    return { schema, one, store: one.store, lose };
  }

  it('after a lost answer, a node takes again what it had taken and charges nothing, but deletes what was cancelled meanwhile', async () => {
    const { schema, one, lose } = await losing();
    await one.publish('abcde');
    const held = await one.take(1);
    await lose(() => one.take(3), "SELECT 1 FROM messages WHERE id = 'd' AND state = 'running'");
    expect(one.store.problem()).to.match(/^cannot reach PostgreSQL/);
    expect(await one.cancel('b')).to.equal('requested');
    expect(one.store.problem()).to.equal(undefined);
    const deliveries = await one.take(5);
    const taken = deliveries.map(({ id, attempt, delivery }) => `${id} ${attempt} ${delivery}`);
    expect(taken).to.deep.equal(['c 1 2', 'd 1 2', 'e 1 1']);
    await one.settleAll([...held, ...deliveries], complete());
    await one.expectCounts({ cancelled: 1, inFlight: 0 });
    await expectTrueCounts(schema, one);
  });

  it('after a lost answer, a node finds out by itself that it owns more than it holds', async () => {
    const { one, sql } = await fresh();
    await one.publish('ab');
    // As if a statement of an abandoned connection had been executed late.
    await sql("UPDATE messages SET state = 'running', owner = 'one', delivery = 1 WHERE id = 'a'");
    expect([await one.takeIds(5), await one.takeIds(5)]).to.deep.equal(['b', 'a']);
  });

  it('after a lost answer, a node says which settlements have been applied when they are repeated, also if a released message is limited', async () => {
    const { schema, one, store, lose } = await losing();
    const deliveries = await one.running('abcdef');
    await store.setLimits('sum', { concurrency: 1 }, 'api');
    const settlements = [complete(), retry(START + 5), discard(), release, ack];
    const settled = settlements.map((settlement, index) => ({ delivery: deliveries[index] as Delivery, settlement }));
    const settle = async () => (await store.settle(settled)).effects;
    await lose(settle, "SELECT 1 FROM messages WHERE id = 'd' AND state = 'limited'");
    await one.unchanged(async () => expect(await settle()).to.deep.equal(settled.map(() => 'applied')));
    expect(await settle()).to.deep.equal(settled.map(() => 'late'));
    expect(await schema.sql('SELECT id FROM tasks')).to.have.length(1);
  });

  it('after a lost answer, a node remembers an ack until the row is written, or for an hour', async () => {
    const { sql, one, store } = await fresh();
    const [a, b] = await one.running('ab');
    await one.settleAll([a, b], ack);
    await one.settle(a, row(1));
    for (const age of [0, HOUR, HOUR + 1]) {
      await sql(`UPDATE acks SET acked_at = ${START - age}`);
      await store.start();
      expect(await sql('SELECT 1 FROM acks'), `${age}`).to.have.length(age > HOUR ? 0 : 1);
    }
  });

  for (const settlement of [ack, complete()])
    it(`after a lost answer, a node does not apply a repeated ${settlement.kind} if its task has the row of another run, waits or was cancelled`, async () => {
      const { schema, sql, one, other, store } = await fresh();
      const settled = (await one.running('abcd')).map((delivery) => ({ delivery, settlement }));
      await recover(other, 'one');
      await other.cancel('d');
      const [a, b] = await other.takeAll(2);
      await other.settle(a, complete());
      await other.settle(b, ack);
      await other.settle(b, row(2));
      await sql('ALTER TABLE messages RENAME TO hidden');
      await errorOf(() => store.settle(settled));
      await sql('ALTER TABLE hidden RENAME TO messages');
      expect((await store.settle(settled)).effects).to.deep.equal(Array(4).fill('late'));
      await expectTrueCounts(schema, one);
    });

  it('after a lost answer, a node does not take a dead letter by the death of its process for that of a late discard', async () => {
    const { one, other } = await fresh();
    await one.publish('a');
    for (let deaths = 0; deaths < 2; deaths++) {
      await one.next(true);
      await recover(other, 'one');
    }
    const delivery = await one.next(true);
    expect(await recover(other, 'one')).to.have.length(1);
    expect(await one.settle(delivery, discard())).to.equal('late');
  });

  /** Lets every change of the message with this id fail, as if the disk were full. */
  async function failAt({ sql }: Schema, id: string) {
    await sql(`CREATE FUNCTION fail() RETURNS trigger AS
      $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$ LANGUAGE plpgsql`);
    const fires = (row: string, what: string) => `CREATE TRIGGER fail_${what} BEFORE ${what} ON messages FOR EACH ROW
      WHEN (${row}.id = '${id}') EXECUTE FUNCTION fail()`;
    for (const what of ['UPDATE', 'DELETE']) await sql(fires('OLD', what));
    await sql(fires('NEW', 'INSERT'));
  }

  it('after a failure in the middle, a node answers the submissions that were accepted, and refuses the others', async () => {
    const { schema, one } = await fresh({ ...roomy, maxBytes: 1000 });
    await failAt(schema, 'c');
    const messages = [messageOf('a'), messageOf('b', 'x'.repeat(1000)), messageOf('c')];
    expect(await publishAll(one, messages)).to.deep.equal(['a', 'QueueFull', 'DatabaseUnavailable']);
    const batch = [...'dc'].map((id) => ({ message: messageOf(id), key: undefined }));
    expect(await errorOf(() => one.store.publishAll(batch))).to.be.instanceOf(DatabaseUnavailable);
    await expectTrueCounts(schema, one);
  });

  for (const change of [redriveIn, purgeIn])
    it(`after a failure in the middle, a node says which dead letters ${change.name} changed, and how many it kept, and skips those of another node`, async () => {
      const { schema, one, store } = await fresh();
      const ids = numbers(1200);
      await one.publishTogether(ids);
      await one.settleAll(await one.takeAll(1200), discard());
      await failAt(schema, '1100');
      const { done, remaining } = await change(store, { all: true });
      expect(done.map(({ id }) => id)).to.deep.equal(ids.slice(0, 1000));
      expect(remaining).to.equal(200);
      // Until the rollback, which the answer does not wait for, a change would skip the locked rows.
      await schema.sql('BEGIN; LOCK messages; COMMIT');
      expect(await errorOf(() => change(store, { all: true }))).to.be.instanceOf(DatabaseUnavailable);
      await schema.sql('DROP FUNCTION fail CASCADE');
      await schema.sql("BEGIN; SELECT FROM messages WHERE id = '1150' FOR UPDATE");
      expect((await change(store, { all: true })).done).to.have.length(199);
      await schema.sql('COMMIT');
      expect((await change(store, { all: true })).done).to.have.length(1);
      await expectTrueCounts(schema, one);
    });

  it('evicts the keys beyond a lowered bound in steps', async () => {
    const { url, sql, one } = await fresh({ ...roomy, maxKeys: 5000 });
    await Promise.all(numbers(2100).map((id) => one.publishKeyed(id, id)));
    const smaller = await openQueue(url, 'smaller', { ...roomy, maxKeys: 1 });
    for (const [id, count] of Object.entries({ a: 101, b: 1 })) {
      await smaller.publishKeyed(id, id);
      expect(await sql('SELECT count(*) AS count FROM idempotency_keys')).to.deep.equal([{ count }]);
    }
  });

  it('keeps the newest rows by submission and arrival, more if some are equal, and lets one node delete at a time', async () => {
    const { url, sql, store } = await fresh();
    const insert = (from: number, to: number, createdAt: number, arrival: string) =>
      sql(`INSERT INTO tasks (id, payload, created_at, arrival)
        SELECT 'id' || n, '', ${createdAt}, ${arrival} FROM generate_series(${from}, ${to}) AS n`);
    const left = async () => (await sql('SELECT id FROM tasks ORDER BY arrival')).map(({ id }) => id);
    const limits = { rows: 4, before: undefined };
    await insert(1, 5, 7, 'n');
    await insert(6, 9, 6, 'n');
    await openDatabase(url).transaction(async (query) => {
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
    const queues = await Promise.all(owners.map((owner) => openQueue(schema.url, owner, bounds)));
    const ids = ['none'];
    const publishSome = async (queue: TestQueue, key: () => string | undefined) => {
      const made = numbers(20, ids.length);
      ids.push(...made);
      const answers = await Promise.all(made.map((id) => queue.publishKeyed(id, key())));
      for (const each of answers) if (each instanceof Error) expect(each).to.be.instanceOf(QueueFull);
    };
    const work = async (queue: TestQueue, stream: number) => {
      const { store } = queue;
      const random = randomFrom(stream);
      const some = () => Array.from({ length: 1 + random.below(30) }, () => random.pick(ids));
      const selection = () => random.pick([{ all: true }, { ids: some() }, { reason: 'no' }] as const);
      const settlement = () => random.pick([complete(), ack, retry(START), discard('no'), discard('other'), release]);
      const held: Delivery[] = [];
      for (let round = 0; round < 40; round++) {
        const calls = [
          () => publishSome(queue, () => undefined),
          () => publishSome(queue, () => `key ${random.below(50)}`),
          async () => held.push(...(await queue.take(random.below(30), held.length === 0))),
          () => redriveIn(store, selection()),
          () => purgeIn(store, selection()),
          () => Promise.all(some().map((id) => store.cancel(id))),
          () => recover(queue, random.pick(owners)),
          () => store.setLimits('sum', random.pick([undefined, { concurrency: 50 }]), 'api'),
          () => store.report(held.map((delivery) => ({ delivery, startedAt: START, progress: undefined }))),
        ];
        const settled = held.splice(0, random.below(20)).map((delivery) => ({ delivery, settlement: settlement() }));
        await Promise.all([store.settle(settled), random.pick(calls)(), random.pick(calls)()]);
      }
    };
    await Promise.all([...queues, ...queues].map(work));
    const [first] = queues as [TestQueue];
    // An ack leaves no row.
    await expectTrueCounts(schema, first, 'completed');
    const counts = await first.store.counts();
    await Promise.all(queues.map(({ store }) => store.close()));
    expect(await (await openQueue(schema.url, 'next')).store.counts()).to.deep.equal({ ...counts, evicted: 0 });
    expect(await schema.sql('SELECT owner FROM queue_counts')).to.deep.equal([{ owner: '' }]);
  });

  it('accepts tasks without limits while a transaction changes tasks with limits, for which a recovery waits, and tells of new limits once all transactions before them have ended', async () => {
    const { sql, one, other, store } = await fresh();
    await store.setLimits('other', { concurrency: 1 }, 'api');
    await one.running('x', { action: 'other' });
    await sql('BEGIN');
    await sql('SELECT lock_limits(0, NULL)');
    await one.publish('a');
    await store.publishAll([{ message: messageOf('b'), key: undefined }]);
    const recovered = recover(other, 'one');
    await until(async () => (await sql('SELECT 1 FROM pg_locks WHERE NOT granted')).length > 0);
    await sql('COMMIT');
    await recovered;
    await one.expectCounts({ waiting: 3 });
    await sql("BEGIN; SELECT lock_limits(0, '{}')");
    const order: string[] = [];
    const set = store.setLimits('sum', { concurrency: 1 }, 'api', () => order.push('set'));
    await until(async () => (await sql('SELECT 1 FROM pg_locks WHERE NOT granted')).length > 0);
    order.push('committed');
    await Promise.all([sql('COMMIT'), set]);
    expect(order).to.deep.equal(['committed', 'set']);
  });

  it('says which tasks the recovery of an owner has dead-lettered, cancelled, or evicted as dead letters', async () => {
    const { url, sql, one, other } = await fresh();
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id, action: 'sum' }));
    await one.publish('abc');
    await one.settle(await one.next(), discard());
    // The dead letters of another process count too.
    await sql("INSERT INTO queue_counts (owner, lane, accepted, dead) VALUES ('process', 'operations', 1, 1)");
    boundDeadLetters({ maxLength: 2 });
    for (let death = 0; death < 2; death++) {
      await one.take(2, true);
      expect(await recover(one, 'one')).to.deep.equal([]);
    }
    expect(await sql("SELECT 1 FROM queue_counts WHERE owner = 'one'"), 'added to the others').to.deep.equal([]);
    const recoveries: object[] = [];
    one.store.onRecovered?.((recovery) => recoveries.push(recovery));
    expect(await other.takeIds(2, true)).to.equal('b');
    const failed = [{ ...b, attempts: 1, reason: EXHAUSTED }];
    expect([await recover(one, 'other'), await recover(one, 'other')]).to.deep.equal([failed, []]);
    expect(await (await openQueue(url, 'third')).takeIds(2, true)).to.equal('c');
    await one.cancel('c');
    expect(await recover(one, 'third')).to.deep.equal([]);
    expect(recoveries).to.deep.equal([
      { failed, cancelled: [], evicted: [a] },
      { failed: [], cancelled: [c], evicted: [] },
    ]);
    await one.expectCounts({ failed: 2, evicted: 1, cancelled: 1, waiting: 0 });
  });

  it('changes many messages in more time than its other statements have', async () => {
    const { url, sql } = await migratedSchema();
    const { store: one } = await openQueue(url, 'one', roomy, 500);
    const { store: two } = await openQueue(url, 'two', roomy, 500);
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

  it('two nodes learn of a pause from its transaction, because the node that requests it may die after the commit', async () => {
    const { url, store } = await fresh();
    const received: string[] = [];
    const onNotification = (payload: string) => void received.push(payload);
    const client = await connectDirectly(url, { timeLimitMs: 20_000, onNotification, onLost() {} });
    afterTest(() => client.destroy());
    await listen((text) => client.rows(text, [], 20_000));
    for (const isPaused of [true, false]) await store.setPaused(isPaused);
    await until(() => received.length === 2);
    expect(received.map((payload) => JSON.parse(payload))).to.deep.equal(Array(2).fill({ from: '', topic: 'pause' }));
  });

  it('two nodes tell which of them ran each attempt, and when an attempt started whose node died', async () => {
    const { one, other } = await fresh();
    await one.settleAll(await one.running('a'), retry(one.now, 'no'));
    await other.settle(await other.next(), complete());
    const row = await one.store.reads.rows.find('a', 'detailed');
    expect([row?.node, JSON.parse(row?.history ?? '')[0].node]).to.deep.equal(['other', 'one']);
    await one.publish('b');
    for (let deaths = 0; deaths < 3; deaths++) {
      await one.store.report([{ delivery: await one.next(true), startedAt: one.now + deaths, progress: undefined }]);
      other.now += 100;
      await recover(other, 'one');
    }
    const { waitedMs, attempts } = (await other.message('b')).history;
    expect(waitedMs).to.equal(2);
    expect(attempts).to.deep.equal([{ startedAt: one.now + 2, endedAt: other.now, reason: PROCESS_DIED, node: 'one' }]);
  });

  it('two nodes accept a submission with a key once, whichever it comes to, in any order of the keys', async () => {
    const { sql, one, other } = await fresh();
    await sql("BEGIN; INSERT INTO idempotency_keys (key, fingerprint, task_id, accepted_at) VALUES ('b', '', '', 0)");
    const publish = (keys: string, node: TestQueue) => [...keys].map((key) => node.publishKeyed(key + keys, key));
    const answers = [...publish('abc', one), ...publish('cba', other)];
    await until(async () => (await sql('SELECT 1 FROM pg_locks WHERE NOT granted')).length > 1);
    // A node that held a key after b would now wait for the other node, and the other node for it.
    await sql('ROLLBACK');
    expect(new Set(await Promise.all(answers)).size).to.equal(3);
    expect(await other.publishKeyed('x', 'a', 'y')).to.be.instanceOf(KeyReused);
    await one.expectCounts({ accepted: 3, waiting: 3 });
  });

  it('two nodes make one task for each time of a schedule, whichever fires it', async () => {
    const { one, other } = await fresh();
    await one.store.schedules.put(schedule('s', { nextAt: 0 }));
    for (let dueAt = 0; dueAt < 20; dueAt++) {
      const firing = { dueAt, nextAt: dueAt + 1, isExclusive: dueAt % 2 === 1 };
      const fired = await Promise.all([one, other, one, other].map((node, n) => fire(node, `${dueAt} ${n}`, firing)));
      const first = firing.isExclusive ? 'skipped' : 'fired';
      expect(fired.map((each) => each.split(' ')[0]).sort()).to.deep.equal(['changed', 'changed', 'changed', first]);
    }
    for (const node of [one, other]) await node.expectCounts({ accepted: 10, waiting: 10 });
  });

  it('two nodes show each other when an attempt started and its progress, until it has ended', async () => {
    const { one, other } = await fresh();
    const [delivery] = await one.running('a');
    const report = { startedAt: 5, progress: { fraction: 0.5, note: 'half' } };
    await one.store.report([{ delivery, ...report }]);
    expect(await other.message('a')).to.deep.include(report);
    await other.expectCounts({ inFlight: 1, running: 1 });
    await one.settle(delivery, release);
    await other.next();
    await one.store.report([{ delivery, ...report }]);
    expect(await other.message('a')).to.include({ startedAt: undefined, progress: undefined });
    await other.expectCounts({ inFlight: 1, running: 0 });
  });

  it('two nodes recover the messages of a node that is gone, once, and none of a node that is there', async () => {
    const { one, other } = await fresh();
    await one.publish('abcd');
    const [a, b] = await one.takeAll(2);
    const c = await other.next();
    await one.cancel('b');
    await Promise.all([recover(other, 'one'), recover(other, 'one'), recover(one, 'one')]);
    await other.expectCounts({ accepted: 4, waiting: 2, inFlight: 1, cancelled: 1 });
    expect(await one.next()).to.include({ id: 'a', attempt: 1, isSuspect: false });
    expect(await one.settle(a, complete('late'))).to.equal('late');
    expect(await one.settle(b, discard())).to.equal('late');
    expect(await other.settle(c, complete())).to.equal('applied');
    // A node that forgot its second delivery of `a` would take it again after `d`.
    expect([await one.takeIds(5), await one.takeIds(5)]).to.deep.equal(['d', '']);
    await one.publishTogether(numbers(100));
    await one.takeAll(100);
    const { mock: slices } = mock.method(PostgresDatabase.prototype, 'transaction');
    await recover(other, 'one');
    expect(slices.callCount(), 'of 100, 2 and none').to.equal(3);
    await other.expectCounts({ inFlight: 0, waiting: 102 });
  });

  it('two nodes hold up nobody but the node that runs a suspect', async () => {
    const { one, other } = await fresh();
    await one.publish('a');
    for (let death = 0; death < 2; death++) {
      expect(await one.takeIds(1, true)).to.equal('a');
      await recover(other, 'one');
    }
    await other.publish('bc');
    expect(await other.takeIds(1)).to.equal('b');
    const c = await one.next(true);
    expect(c.id).to.equal('c');
    await one.settle(c, complete());
    const [a, ...others] = await one.take(5, true);
    expect([a?.id, others]).to.deep.equal(['a', []]);
    await other.publish('de');
    expect(await one.takeIds(1)).to.equal('');
    expect(await other.takeIds(1)).to.equal('d');
    const [, next] = await Promise.all([one.settle(a as Delivery, complete()), one.takeIds(1)]);
    expect(next).to.equal('e');
  });
});

import { mock } from 'node:test';
import { expect } from 'chai';
import { CHANNEL, type DirectOptions } from '../../db/postgres/database.ts';
import { deleteNode } from '../../db/postgres/nodes.ts';
import { DatabaseUnavailable } from '../../db/task-store.ts';
import { openBackend } from '../../main/backends/backend.ts';
import { loadConfig } from '../../main/config.ts';
import type { BusMessage } from '../../main/nodes/bus.ts';
import { Heartbeat } from '../../main/nodes/heartbeat.ts';
import { type Connect, Link } from '../../main/nodes/link.ts';
import type { TaskEvent } from '../../main/tasks/task-events.ts';
import { type Clock, systemClock, systemRandom } from '../../workers/shared/clock.ts';
import { errorOf } from '../store/stage.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { describeWithPostgres, emptySchema, migratedSchema, openDatabase, type Schema } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { openBus } from './parts.ts';

type Node = Awaited<ReturnType<typeof openBus>>;

const accepted = (id: string, action = 'sum'): TaskEvent => ({ event: 'accepted', id, action, at: 1 });

async function openPair(clock?: Clock) {
  const { url } = await emptySchema();
  return { url, one: await openBus(url, clock), other: await openBus(url) };
}

async function expectReceived({ received }: Node, ...messages: BusMessage[]): Promise<void> {
  await until(() => received.length >= messages.length);
  expect(received).to.deep.equal(messages);
}

const cancel = (id: string): BusMessage => ({ topic: 'cancel', id });
const [READY, PAUSE]: [BusMessage, BusMessage] = [{ topic: 'ready' }, { topic: 'pause' }];

describeWithPostgres('the bus', () => {
  it('passes messages to all other nodes of its schema, in order and equal ones once, and to no node of another schema', async () => {
    const { url, one, other } = await openPair();
    const [third, stranger] = [await openBus(url), await openBus((await emptySchema()).url)];
    for (let count = 0; count < 100; count++) one.bus.send(READY);
    for (const message of [cancel('ä\u0000"'), PAUSE]) one.bus.send(message);
    for (const node of [other, third]) await expectReceived(node, READY, cancel('ä\u0000"'), PAUSE);
    expect([one.received, stranger.received]).to.deep.equal([[], []]);
  });

  it('sends task events only while another node follows, and forgets a follower that is gone', async () => {
    let shift = 0;
    const { url, one } = await openPair({ ...systemClock, now: () => systemClock.now() + shift });
    const clock = new ManualClock();
    const other = await openBus(url, clock);
    one.bus.send({ topic: 'event', event: accepted('unheard') });
    other.bus.follow(true);
    other.bus.send(READY);
    clock.advance(0);
    await expectReceived(one, READY);
    await until(() => clock.timers === 2);
    shift = 5_000;
    clock.advance(2_000);
    other.bus.send(PAUSE);
    await expectReceived(one, READY, PAUSE);
    shift = 8_000;
    one.bus.send({ topic: 'event', event: accepted('heard') });
    await expectReceived(other, { topic: 'event', event: accepted('heard') });
    other.bus.follow(false);
    shift = 60_000;
    one.bus.send({ topic: 'event', event: accepted('unheard') });
    one.bus.send(PAUSE);
    await expectReceived(other, { topic: 'event', event: accepted('heard') }, PAUSE);
  });

  it('drops messages that are too long, with a note, or beyond its bound, and tells the other nodes to read the tables', async () => {
    const { one, other } = await openPair();
    for (const id of ['ä'.repeat(4000), 'a']) one.bus.send(cancel(id));
    await expectReceived(other, cancel('a'));
    const line = one.lines.find(({ msg }) => msg === 'a message to the other nodes is too long: it is dropped');
    expect(line).to.include({ level: 40 });
    const { missed } = other.counts;
    for (let count = 0; count < 30_000; count++) one.bus.send(cancel(`${count}`));
    await until(() => other.received.some((message) => message.topic === 'cancel' && message.id === '29999'));
    expect(other.counts.missed).to.be.greaterThan(missed);
    expect(other.received.length).to.be.lessThan(30_000);
  });

  it('tells the other nodes that they have missed what it could not send', async () => {
    const { url } = await emptySchema();
    const way = await severable(url);
    const [one, other] = [await openBus(url, systemClock, openDatabase(way.url)), await openBus(url)];
    const { missed } = other.counts;
    way.cut();
    for (const message of [PAUSE, cancel('a')]) one.bus.send(message);
    await until(() => way.refused > 0);
    way.mend();
    await until(() => other.counts.missed > missed);
    one.bus.send(cancel('b'));
    await expectReceived(other, cancel('b'));
    const before = other.counts.missed;
    other.bus.receiving.drop('lost');
    await until(() => other.counts.missed > before);
  });

  it('sends what waits before it is closed, but closes although it cannot be sent', async () => {
    const clock = new ManualClock();
    const { mock: timer } = mock.method(clock, 'timer');
    const { url, one, other } = await openPair(clock);
    const first = cancel('at the end of the turn');
    one.bus.send(first);
    clock.advance(0);
    await expectReceived(other, first);
    await until(() => clock.timers === 1);
    expect(timer.calls.at(-1)?.arguments[0], 'to the next message').to.equal(10);
    one.bus.send(READY);
    clock.advance(10);
    await expectReceived(other, first, READY);
    for (const message of [cancel('after the interval'), PAUSE]) one.bus.send(message);
    one.bus.follow(true);
    await one.bus.close();
    await expectReceived(other, first, READY, cancel('after the interval'), PAUSE);
    one.bus.send(READY);
    expect(clock.timers).to.equal(0);
    const way = await severable(url);
    const { bus } = await openBus(url, new ManualClock(), openDatabase(way.url));
    way.cut();
    bus.send(PAUSE);
    await bus.close();
    expect(way.refused).to.equal(1);
  });

  it('ignores notifications that are not messages', async () => {
    const { url, sql } = await emptySchema();
    const node = await openBus(url);
    for (const payload of [
      ...['', '{', 'null', '5', '[]', '{"topic":"ready"}', '{"from":1,"topic":"ready"}'],
      '{"from":"x","topic":"event","event":null}',
      '{"from":"x","topic":"event","event":{"event":1,"id":"a"}}',
      '{"from":"x","topic":"event","event":{"event":"completed"}}',
      '{"from":"x","topic":"event","event":{"event":"completed","id":["error"]}}',
    ])
      await sql(`SELECT pg_notify(${CHANNEL}, $1)`, [payload]);
    await sql(`SELECT pg_notify(${CHANNEL}, $1)`, ['{"from":"x","topic":"pause"}']);
    await expectReceived(node, PAUSE);
  });
});

describe('the link', () => {
  it('is up once it listens, is opened again when it is lost, ignores what an earlier connection reports, and opens nothing once it is closed', async () => {
    const clock = new ManualClock();
    const opened: DirectOptions[] = [];
    const destroyed = new Set<DirectOptions>();
    const limits = new Set<number>();
    const connect: Connect = async (_url, options) => {
      opened.push(options);
      const rows = async (_text: string, _values: unknown, limitMs: number) => limits.add(limitMs) && [];
      return { rows, destroy: () => void destroyed.add(options) };
    };
    const open = () => new Link({ databaseUrl: '', connect, clock, random: systemRandom, log: captureLog().log });
    const [link, waiting] = [open(), open()];
    link.on('up', () => expect(limits.size, 'statements').to.equal(1));
    for (const each of [link, waiting]) await each.open();
    for (const { onLost } of opened.slice()) onLost('lost');
    waiting.close();
    clock.advance(100);
    await until(() => link.isUp);
    opened[0]?.onLost('lost late');
    expect([link.isUp, opened.length]).to.deep.equal([true, 3]);
    opened[2]?.onLost('lost');
    clock.advance(200);
    link.close();
    await new Promise(setImmediate);
    expect([clock.timers, opened.length, destroyed.size, ...limits]).to.deep.equal([0, 4, 4, 2000]);
  });

  it('is opened again after delays that grow up to two seconds, and are short again once it was open', async () => {
    const clock = new ManualClock();
    const { mock: timer } = mock.method(clock, 'timer');
    let [isAway, lose] = [false, () => {}];
    const connect: Connect = async (_url, { onLost }) => {
      if (isAway) throw new Error('away');
      lose = () => onLost('lost');
      return { rows: async () => [], destroy: () => {} };
    };
    const random = { ...systemRandom, number: () => 1 };
    const link = new Link({ databaseUrl: '', connect, clock, random, log: captureLog().log });
    await link.open();
    const delays = [100, 200, 400, 800, 1600, 2000, 2000];
    for (const delayMs of [...delays, ...delays]) {
      if (link.isUp) lose();
      expect(timer.calls.at(-1)?.arguments[0]).to.equal(delayMs);
      isAway = timer.callCount() % delays.length > 0;
      clock.advance(delayMs);
      await until(() => clock.timers === 1 || link.isUp);
    }
  });
});

/** Opens a node's heartbeat, whose clock the spec advances. @param linkUrl the database for the link, as a proxy */
async function openNode({ url }: Schema, linkUrl = url) {
  const database = openDatabase(url);
  const node = await openBus(linkUrl, systemClock, database);
  const { bus, log } = node;
  const clock = new ManualClock();
  const recovered: string[] = [];
  const failures: Error[] = [];
  let beats = 0;
  const heartbeat = new Heartbeat({
    bus,
    pool: database,
    store: {
      async recover(owner) {
        const failure = failures.pop();
        if (failure !== undefined) throw failure;
        recovered.push(owner);
        await database.query('DELETE FROM queue_counts WHERE owner = $1', [owner]);
        await database.query("UPDATE messages SET state = 'waiting', owner = NULL WHERE owner = $1", [owner]);
        return [];
      },
    },
    clock,
    log,
  });
  await heartbeat.open();
  afterTest(() => heartbeat.close());
  return {
    ...node,
    id: bus.id,
    heartbeat,
    recovered,
    failures,
    /** Lets `count` seconds pass, and waits for the beat of each. */
    async beat(count = 1) {
      for (const last = beats + count; beats < last; beats++) {
        await until(() => clock.timers > 0);
        clock.advance(1000);
      }
      await until(() => clock.timers > 0);
    },
  };
}

const ids = async ({ sql }: Schema) =>
  (await sql<{ id: string }>('SELECT id FROM nodes ORDER BY id')).map(({ id }) => id);

describeWithPostgres('the heartbeats of nodes', () => {
  it('delete the row of a node that has stopped or is gone, recover the messages or counts of owners without a row, and let a node that stood still return', async () => {
    const schema = await migratedSchema();
    await schema.sql("INSERT INTO queue_counts (owner, lane) VALUES ('owner of another start', 'groups')");
    const [one, other, stopped] = [await openNode(schema), await openNode(schema), await openNode(schema)];
    await stopped.heartbeat.close();
    const before = { id: other.id, counter: -1 };
    expect(await deleteNode(other.bus.receiving.query, before), 'a node that beats').to.equal(false);
    const missedBefore = [one, other].map(({ counts }) => counts.missed);
    one.failures.push(new Error('the first recovery fails'));
    await one.beat(10);
    expect(one.recovered).to.deep.equal(['owner of another start']);
    await until(() => [one, other].every(({ counts }, index) => counts.missed > (missedBefore[index] as number)));
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
    await insertRunning(schema, 'another task', other.id);
    await one.beat(2);
    expect(await ids(schema)).to.deep.equal([one.id]);
    await until(() => one.recovered.length > 1);
    expect(one.recovered).to.deep.equal(['owner of another start', other.id]);
    expect(one.lines.find(({ msg }) => msg.startsWith('a node is gone'))).to.include({ node: other.id });
    await other.beat();
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
    expect(other.lines.find(({ msg }) => msg.startsWith('this node stood still'))).to.include({ level: 40 });
    const { query } = one.bus.receiving;
    expect(await deleteNode(query, { id: other.id, counter: 0 }), 'that has beaten since').to.equal(false);
    await one.beat(5);
    await other.beat();
    await one.beat(7);
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
  });

  it('of a node without a link go over its pool; a node counts the beats of others only over an unbroken link that answers', async () => {
    const schema = await migratedSchema();
    const way = await severable(schema.url);
    const [one, other] = [await openNode(schema), await openNode(schema, way.url)];
    const { receiving } = other.bus;
    await insertRunning(schema, 'task', other.id);
    way.cut();
    await until(() => !receiving.isUp);
    for (let round = 0; round < 3; round++) {
      await one.beat(5);
      await other.beat();
    }
    way.mend();
    await until(() => receiving.isUp);
    await other.beat(9);
    way.stall();
    await other.beat();
    expect(receiving.isUp, 'a link that does not answer').to.equal(false);
    await other.beat(20);
    way.mend();
    await until(() => receiving.isUp);
    await other.beat(9);
    expect(await ids(schema)).to.deep.equal([one.id, other.id].sort());
    expect(one.recovered).to.deep.equal([]);
  });
});

async function insertRunning({ sql }: Schema, id: string, owner: string): Promise<void> {
  await sql(
    `INSERT INTO messages (id, action, state, run_at, accepted_at, delivery, attempts, crashes, deaths, owner, body)
      VALUES ($1, 'sum', 'running', 1, 1, 1, 0, 0, 0, $2, '{}')`,
    [id, owner],
  );
}

describeWithPostgres('the storage of several nodes', () => {
  it('exchanges no ticks with a seed, reports a stopped server in its checks and errors, however it stops, recovers when it is back, deletes the row of its node when it is closed, and does not open if it cannot write one', async () => {
    const server = await startPostgres();
    afterTest(() => server.remove());
    const { log, lines, logged } = captureLog();
    const TOKEN_KEY = 'the key that all nodes of a spec share';
    const config = loadConfig({ DATABASE_URL: server.url, TOKEN_KEY, TICKER_SEED: 'x' });
    const backend = await openBackend(config, systemClock, systemRandom, log);
    afterTest(() => backend.close());
    expect(await backend.openTickFeed()).to.equal(undefined);
    const { checks, apiKeys } = backend;
    for (const how of ['fast', 'immediate'] as const) {
      lines.length = 0;
      await server.stop(how);
      await logged(({ msg }) => msg === 'a connection to PostgreSQL was lost');
      await until(() => checks.notifications?.() !== undefined);
      for (const check of [checks.auth_database, checks.tasks_database])
        expect(await errorOf(() => check?.())).to.be.instanceOf(DatabaseUnavailable);
      expect(await errorOf(() => apiKeys.findOwner('k'))).to.be.instanceOf(DatabaseUnavailable);
      await server.start();
      await until(() => checks.notifications?.() === undefined);
      for (const check of Object.values(checks)) expect(await check()).to.equal(undefined);
      expect(await apiKeys.findOwner('k')).to.equal(undefined);
    }
    const database = openDatabase(server.url);
    const row = async () => JSON.stringify(await database.query('SELECT id, counter FROM nodes'));
    const before = await row();
    await until(async () => (await row()) !== before);
    await backend.close();
    expect(await row()).to.equal('[]');
    await database.query('ALTER TABLE nodes ADD CHECK (false)');
    const failure = await errorOf(() => openBackend(config, systemClock, systemRandom, log));
    expect(failure.message).to.match(/"nodes" violates check constraint/);
  });
});

import { expect } from 'chai';
import { CHANNEL } from '../../db/postgres/database.ts';
import type { BusMessage } from '../../main/nodes/bus.ts';
import type { TaskEvent } from '../../main/tasks/task-events.ts';
import { type Clock, systemClock } from '../../workers/shared/clock.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { openBus, openDatabase } from './parts.ts';

type Node = Awaited<ReturnType<typeof openBus>>;

const accepted = (id: string, action = 'sum'): TaskEvent => ({ event: 'accepted', id, action, at: 1 });

/** Opens the buses of two nodes, of which the first one has the given clock. */
async function openPair(clock?: Clock) {
  const { url } = await emptySchema();
  return { url, one: await openBus(url, clock), other: await openBus(url) };
}

/** Waits until a node has received something, and asserts that it is exactly these messages. */
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
    const { one, other } = await openPair({ ...systemClock, now: () => systemClock.now() + shift });
    one.bus.send({ topic: 'event', event: accepted('unheard') });
    other.bus.follow(true);
    other.bus.send(READY);
    await expectReceived(one, READY);
    one.bus.send({ topic: 'event', event: accepted('heard') });
    await expectReceived(other, { topic: 'event', event: accepted('heard') });
    other.bus.follow(false);
    shift = 6_001;
    one.bus.send({ topic: 'event', event: accepted('unheard') });
    one.bus.send(PAUSE);
    await expectReceived(other, { topic: 'event', event: accepted('heard') }, PAUSE);
  });

  it('drops messages that are too long, with a note, or beyond its bound, and tells the other nodes to read the tables', async () => {
    const { one, other } = await openPair();
    for (const id of ['x'.repeat(8000), 'a']) one.bus.send(cancel(id));
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
  });

  it('sends what waits before it is closed, but closes although it cannot be sent', async () => {
    const clock = new ManualClock();
    const { url, one, other } = await openPair(clock);
    const first = cancel('at the end of the turn');
    one.bus.send(first);
    clock.advance(0);
    await expectReceived(other, first);
    for (const message of [cancel('after the interval'), PAUSE]) one.bus.send(message);
    await one.bus.close();
    await expectReceived(other, first, cancel('after the interval'), PAUSE);
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

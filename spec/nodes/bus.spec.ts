import { expect } from 'chai';
import { CHANNEL } from '../../db/postgres/direct-connection.ts';
import type { TaskEvent } from '../../main/tasks/task-events.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { describeWithPostgres, emptySchema } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { openBus, openDatabase, through } from './parts.ts';

const accepted = (id: string, action = 'sum'): TaskEvent => ({ event: 'accepted', id, action, at: 1 });

describeWithPostgres('the bus', () => {
  it('passes messages to all other nodes of its schema, in order, and to no node of another schema', async () => {
    const { url } = await emptySchema();
    const [one, other, third] = [await openBus(url), await openBus(url), await openBus(url)];
    const stranger = await openBus((await emptySchema()).url);
    one.bus.send({ topic: 'ready' });
    one.bus.send({ topic: 'cancel', id: 'ä\u0000"' });
    one.bus.send({ topic: 'pause' });
    for (const { received } of [other, third]) await until(() => received.length === 3);
    expect(other.received).to.deep.equal([{ topic: 'ready' }, { topic: 'cancel', id: 'ä\u0000"' }, { topic: 'pause' }]);
    expect(third.received).to.deep.equal(other.received);
    expect([one.received, stranger.received]).to.deep.equal([[], []]);
  });

  it('sends equal messages that wait once', async () => {
    const { url } = await emptySchema();
    const [one, other] = [await openBus(url), await openBus(url)];
    for (let count = 0; count < 100; count++) one.bus.send({ topic: 'ready' });
    one.bus.send({ topic: 'pause' });
    await until(() => other.received.length > 1);
    expect(other.received).to.deep.equal([{ topic: 'ready' }, { topic: 'pause' }]);
  });

  /** Lets a node follow, and waits until another one knows. */
  async function follow(follower: Awaited<ReturnType<typeof openBus>>, one: Awaited<ReturnType<typeof openBus>>) {
    follower.bus.follow(true);
    follower.bus.send({ topic: 'ready' });
    await until(() => one.received.length > 0);
  }

  it('sends task events only while another node follows', async () => {
    const { url } = await emptySchema();
    const [one, other] = [await openBus(url), await openBus(url)];
    one.bus.send({ topic: 'event', event: accepted('unheard') });
    await follow(other, one);
    one.bus.send({ topic: 'event', event: accepted('heard') });
    await until(() => other.received.length > 0);
    expect(other.received).to.deep.equal([{ topic: 'event', event: accepted('heard') }]);
  });

  it('forgets a follower that is gone', async () => {
    const { url } = await emptySchema();
    let shift = 0;
    const [one, other] = [
      await openBus(url, { ...systemClock, now: () => systemClock.now() + shift }),
      await openBus(url),
    ];
    await follow(other, one);
    other.bus.follow(false);
    shift = 6_001;
    one.bus.send({ topic: 'event', event: accepted('unheard') });
    one.bus.send({ topic: 'pause' });
    await until(() => other.received.length > 0);
    expect(other.received).to.deep.equal([{ topic: 'pause' }]);
  });

  it('drops a message that is too long, with a note', async () => {
    const { url } = await emptySchema();
    const [one, other] = [await openBus(url), await openBus(url)];
    one.bus.send({ topic: 'cancel', id: 'x'.repeat(8000) });
    one.bus.send({ topic: 'cancel', id: 'a' });
    await until(() => other.received.length > 0);
    expect(other.received).to.deep.equal([{ topic: 'cancel', id: 'a' }]);
    const line = one.lines.find(({ msg }) => msg === 'a message to the other nodes is too long: it is dropped');
    expect(line).to.include({ level: 40 });
  });

  it('drops messages beyond its bound, and tells the other nodes to read the tables', async () => {
    const { url } = await emptySchema();
    const [one, other] = [await openBus(url), await openBus(url)];
    const { missed } = other.counts;
    for (let count = 0; count < 30_000; count++) one.bus.send({ topic: 'cancel', id: `${count}` });
    await until(() => other.received.some((message) => message.topic === 'cancel' && message.id === '29999'));
    expect(other.counts.missed).to.be.greaterThan(missed);
    expect(other.received.length).to.be.lessThan(30_000);
  });

  it('connects again after a lost connection, and says that messages may have been missed', async () => {
    const { url } = await emptySchema();
    const { url: proxied, way } = await through(url);
    const [one, other, third] = [await openBus(proxied), await openBus(url), await openBus(url)];
    const reconnects: string[] = [];
    one.bus.listen(
      () => {},
      () => reconnects.push('again'),
    );
    way.cut();
    await until(() => one.counts.lost === 1 && !one.bus.receiving.isUp);
    other.bus.send({ topic: 'pause' });
    await until(() => third.received.length > 0);
    way.mend();
    await until(() => one.bus.receiving.isUp && reconnects.length > 0);
    other.bus.send({ topic: 'cancel', id: 'a' });
    await until(() => one.received.length > 0);
    expect(one.received).to.deep.equal([{ topic: 'cancel', id: 'a' }]);
    one.bus.send({ topic: 'cancel', id: 'b' });
    await until(() => other.received.length > 0);
    expect(other.received).to.deep.equal([{ topic: 'cancel', id: 'b' }]);
  });

  it('tells the other nodes that they have missed what it could not send', async () => {
    const { url } = await emptySchema();
    const { url: proxied, way } = await through(url);
    const [one, other] = [await openBus(url, systemClock, openDatabase(proxied)), await openBus(url)];
    const { missed } = other.counts;
    way.cut();
    one.bus.send({ topic: 'pause' });
    one.bus.send({ topic: 'cancel', id: 'a' });
    await until(() => way.refused > 0);
    way.mend();
    await until(() => other.counts.missed > missed);
    one.bus.send({ topic: 'cancel', id: 'b' });
    await until(() => other.received.length > 0);
    expect(other.received).to.deep.equal([{ topic: 'cancel', id: 'b' }]);
  });

  it('sends what waits before it is closed', async () => {
    const { url } = await emptySchema();
    const clock = new ManualClock();
    const [one, other] = [await openBus(url, clock), await openBus(url)];
    one.bus.send({ topic: 'cancel', id: 'at the end of the turn' });
    clock.advance(0);
    await until(() => other.received.length === 1);
    one.bus.send({ topic: 'cancel', id: 'after the interval' });
    one.bus.send({ topic: 'pause' });
    await one.bus.close();
    await until(() => other.received.length === 3);
    expect(other.received.slice(1)).to.deep.equal([{ topic: 'cancel', id: 'after the interval' }, { topic: 'pause' }]);
    one.bus.send({ topic: 'ready' });
    expect(clock.timers).to.equal(0);
  });

  it('closes although what waits cannot be sent', async () => {
    const { url } = await emptySchema();
    const { url: proxied, way } = await through(url);
    const { bus } = await openBus(url, new ManualClock(), openDatabase(proxied));
    way.cut();
    bus.send({ topic: 'pause' });
    await bus.close();
    expect(way.refused).to.equal(1);
  });

  it('ignores notifications that are not messages', async () => {
    const { url, sql } = await emptySchema();
    const { received } = await openBus(url);
    for (const payload of [
      '',
      '{',
      'null',
      '5',
      '[]',
      '{"topic":"ready"}',
      '{"from":1,"topic":"ready"}',
      '{"from":"x","topic":"event","event":null}',
      '{"from":"x","topic":"event","event":{"event":1,"id":"a"}}',
      '{"from":"x","topic":"event","event":{"event":"completed"}}',
      '{"from":"x","topic":"event","event":{"event":"completed","id":["error"]}}',
    ])
      await sql(`SELECT pg_notify(${CHANNEL}, $1)`, [payload]);
    await sql(`SELECT pg_notify(${CHANNEL}, $1)`, ['{"from":"x","topic":"pause"}']);
    await until(() => received.length > 0);
    expect(received).to.deep.equal([{ topic: 'pause' }]);
  });
});

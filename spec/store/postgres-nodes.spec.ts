import { expect } from 'chai';
import { PROCESS_DIED } from '../../db/attempt-history.ts';
import { connectDirectly, listen } from '../../db/postgres/database.ts';
import type { PostgresStore } from '../../db/postgres/store.ts';
import { KeyReused } from '../../db/task-store.ts';
import { afterTest } from '../support/cleanup.ts';
import { describeWithPostgres, migratedSchema } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { openNode } from './postgres-driver.ts';
import { complete, discard, release, retry } from './settlements.ts';
import { messageOf, TestQueue } from './stage.ts';

/** Opens one queue on two nodes, the owners `one` and `other`. */
async function twoNodes(schema = migratedSchema()): Promise<[TestQueue, TestQueue]> {
  const { url } = await schema;
  const node = async (owner: string) => {
    const queue = new TestQueue({
      isDurable: true,
      open: (options) => openNode(url, owner, options),
      reopen: (_, options) => openNode(url, owner, options),
    });
    await queue.open();
    return queue;
  };
  return [await node('one'), await node('other')];
}

const recover = ({ store }: TestQueue, owner: string) => (store as PostgresStore).recover(owner);

describeWithPostgres('two nodes with one queue', () => {
  it('learn of a pause from its transaction, because the node that requests it may die after the commit', async () => {
    const schema = await migratedSchema();
    const [one] = await twoNodes(Promise.resolve(schema));
    const received: string[] = [];
    const onNotification = (payload: string) => void received.push(payload);
    const client = await connectDirectly(schema.url, { timeLimitMs: 20_000, onNotification, onLost() {} });
    afterTest(() => client.destroy());
    await listen((text) => client.rows(text, [], 20_000));
    for (const isPaused of [true, false]) await one.store.setPaused(isPaused);
    await until(() => received.length === 2);
    expect(received.map((payload) => JSON.parse(payload))).to.deep.equal(Array(2).fill({ from: '', topic: 'pause' }));
  });

  it('tell which of them ran each attempt, and when an attempt started whose node died', async () => {
    const [one, other] = await twoNodes();
    await one.publish('a');
    await one.settle(await one.next(), retry(one.now, 'no'));
    await other.settle(await other.next(), complete());
    const row = await one.store.reads.rows.find('a', 'detailed');
    expect([row?.node, JSON.parse(row?.history ?? '')[0].node]).to.deep.equal(['other', 'one']);
    await one.publish('b');
    for (let deaths = 0; deaths < 3; deaths++) {
      const delivery = await one.next(true);
      await one.store.report([{ delivery, startedAt: one.now + deaths, progress: undefined }]);
      other.now += 100;
      await recover(other, 'one');
    }
    const { waitedMs, attempts } = (await other.message('b')).history;
    expect(waitedMs).to.equal(2);
    expect(attempts).to.deep.equal([{ startedAt: one.now + 2, endedAt: other.now, reason: PROCESS_DIED, node: 'one' }]);
  });

  it('accept a submission with a key once, whichever it comes to', async () => {
    const [one, other] = await twoNodes();
    const publish = (id: string, node: TestQueue) => node.publishKeyed(id, 'key');
    const answers = await Promise.all([...'abcdef'].map((id, index) => publish(id, index % 2 === 0 ? one : other)));
    expect(new Set(answers).size).to.equal(1);
    expect(await other.publishKeyed('x', 'key', 'y')).to.be.instanceOf(KeyReused);
    await one.expectCounts({ accepted: 1, waiting: 1 });
  });

  it('make one task for each time of a schedule, whichever fires it', async () => {
    const [one, other] = await twoNodes();
    await one.store.schedules.put({ name: 's', definition: '{}', source: 'api', timing: 'x', nextAt: 0 });
    for (let dueAt = 0; dueAt < 20; dueAt++) {
      const fired = await Promise.all(
        [one, other, one, other].map(({ store }, index) => {
          const task = { at: dueAt, message: { ...messageOf(`${dueAt} ${index}`), schedule: 's' } };
          const firing = { name: 's', definition: '{}', dueAt, nextAt: dueAt + 1, task, isExclusive: dueAt % 2 === 1 };
          return store.schedules.fire(firing, () => {});
        }),
      );
      expect(fired.sort().slice(0, 3)).to.deep.equal(['changed', 'changed', 'changed']);
      expect(fired[3]).to.equal(dueAt % 2 === 1 ? 'skipped' : 'fired');
    }
    for (const node of [one, other]) await node.expectCounts({ accepted: 10, waiting: 10 });
  });

  it('show each other when an attempt started and its progress, until it has ended', async () => {
    const [one, other] = await twoNodes();
    await one.publish('a');
    const delivery = await one.next();
    const report = { startedAt: 5, progress: { fraction: 0.5, note: 'half' } };
    await one.store.report([{ delivery, ...report }]);
    expect(await other.message('a')).to.deep.include(report);
    await one.settle(delivery, release);
    await other.next();
    await one.store.report([{ delivery, ...report }]);
    expect(await other.message('a')).to.include({ startedAt: undefined, progress: undefined });
  });

  it('recover the messages of a node that is gone, once, and none of a node that is there', async () => {
    const [one, other] = await twoNodes();
    await one.publish('abcd');
    const [a, b] = await one.takeAll(2);
    const c = await other.next();
    await one.cancel('b');
    await Promise.all([recover(other, 'one'), recover(other, 'one'), recover(one, 'one')]);
    await other.expectCounts({ accepted: 4, waiting: 2, inFlight: 1, cancelled: 1 });
    for (const [delivery, settlement] of [
      [a, complete('late')],
      [b, discard()],
    ] as const)
      expect(await one.settle(delivery, settlement)).to.equal('late');
    expect(await other.settle(c, complete())).to.equal('applied');
    const [again, d] = await other.takeAll(2);
    expect(again).to.include({ id: 'a', attempt: 1, isSuspect: false });
    expect(d.id).to.equal('d');
  });

  it('hold up nobody but the node that runs a suspect', async () => {
    const [one, other] = await twoNodes();
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
    expect(await one.takeIds(5, true)).to.equal('a');
    await other.publish('de');
    expect(await one.takeIds(1)).to.equal('');
    expect(await other.takeIds(5)).to.equal('de');
  });
});

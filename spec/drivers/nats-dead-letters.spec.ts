import { randomUUID } from 'node:crypto';
import { mock } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { expect } from 'chai';
import { DeadLetterStore } from '../../main/cluster/queue/dead-letter-store.ts';
import type { Progress, TaskEvent } from '../../main/tasks/queue/queue.ts';
import { afterTest } from '../support/cleanup.ts';
import { describeWithNats } from '../support/servers.ts';
import { discard, lettersOf, openInbox, publishAll, retry } from './inbox.ts';
import { connection, openNode, ownPrefix } from './nats-node.ts';

describeWithNats('the dead letters of the NATS queue', () => {
  it('of version 0.1.0 are listed, counted, redriven and purged like others', async () => {
    const nats = await connection();
    const prefix = ownPrefix(nats);
    const queue = await openNode({ nats, prefix });
    const ids = Array.from({ length: 3 }, () => randomUUID());
    for (const [index, id] of ids.entries()) {
      const head = { id, seq: index + 1, reason: 'bad data', attempts: 1, firstAt: 1, lastAt: 2, taskPlace: index + 1 };
      await jetstream(nats).publish(`${prefix}.letters.${id}`, `${JSON.stringify(head)}\n{}`);
    }
    await publishAll(queue, 'a');
    const inbox = openInbox(queue);
    await (await inbox.next()).settle(discard('bad data'));
    inbox.stop();
    expect(await queue.deadLetterReasons()).to.deep.equal({
      reasons: [{ reason: 'bad data', count: 4, permanent: false }],
      total: 4,
    });
    expect(await queue.newestDeadLetters(10, { reason: 'bad data' })).to.have.length(4);
    const [old] = await lettersOf(queue);
    expect(old).to.deep.include({ id: ids[0], permanent: false, history: [], acceptedAt: 1, failedAt: 2 });
    expect(await queue.redriveAll({ ids: [ids[0] as string] })).to.deep.equal({ count: 1, remaining: 0 });
    expect(await queue.purgeAll({ reason: 'bad data' })).to.deep.equal({ count: 3, remaining: 0 });
  });

  it('are purged with an event that has the action, whatever its characters are', async () => {
    const events: TaskEvent[] = [];
    const nats = await connection();
    const queue = await openNode({ nats, prefix: ownPrefix(nats), onEvent: (event) => events.push(event) });
    const id = randomUUID();
    const action = ' ä\r\n€: 😀\u0000';
    await queue.publish({ id, body: JSON.stringify({ id, action, data: {}, created_at: 1 }) });
    const inbox = openInbox(queue);
    await (await inbox.next()).settle(discard());
    inbox.stop();
    expect(await queue.purgeAll({ all: true })).to.deep.equal({ count: 1, remaining: 0 });
    expect(events.at(-1)).to.include({ event: 'purged', id, action });
  });

  it('are found as queued while another node redrives them', async () => {
    const nats = await connection();
    const prefix = ownPrefix(nats);
    const [queue, other] = [await openNode({ nats, prefix }), await openNode({ nats, prefix })];
    await publishAll(queue, 'a');
    const inbox = openInbox(queue);
    await (await inbox.next()).settle(discard());
    inbox.stop();
    const get = mock.method(DeadLetterStore.prototype, 'get', async function (this: DeadLetterStore, id: string) {
      get.mock.restore();
      expect(await other.redrive('a')).to.equal(true);
      return this.get(id);
    });
    afterTest(() => get.mock.restore());
    expect(await queue.find('a')).to.include({ state: 'queued' });
    expect(get.mock.callCount()).to.equal(1);
  });

  it('are redriven although one of them is too large for the task stream', async () => {
    const nats = await connection();
    const prefix = ownPrefix(nats);
    const queue = await openNode({ nats, prefix, bounds: { maxBytes: 10_000_000 } });
    const [large, small] = [randomUUID(), randomUUID()];
    const store = (id: string, body: string) => {
      const head = { id, seq: 1, reason: 'bad data', attempts: 1, firstAt: 1, lastAt: 2, taskPlace: 1 };
      return jetstream(nats).publish(`${prefix}.letters.${id}`, `${JSON.stringify(head)}\n${body}`);
    };
    await store(large, 'x'.repeat(Number(nats.info?.max_payload) - 10_000));
    const failure = await queue.redriveAll({ all: true }).catch((error: Error) => error.message);
    expect(failure).to.match(/^the task has \d+ bytes, but NATS accepts at most/);
    await store(small, '{}');
    expect(await queue.redriveAll({ all: true })).to.deep.equal({ count: 1, remaining: 1 });
    expect((await lettersOf(queue)).map(({ id }) => id)).to.deep.equal([large]);
  });

  it('are found as soon as an event reports them', async () => {
    const nats = await connection();
    const found: Promise<Progress | undefined>[] = [];
    const queue = await openNode({
      nats,
      prefix: ownPrefix(nats),
      onEvent: ({ event, id }) => void (event === 'failed' && found.push(queue.find(id))),
    });
    await publishAll(queue, 'a');
    const inbox = openInbox(queue);
    await (await inbox.next()).settle(discard());
    inbox.stop();
    expect((await Promise.all(found)).map((progress) => progress?.state)).to.deep.equal(['failed']);
  });

  it('are counted again only after a change', async () => {
    const nats = await connection();
    const queue = await openNode({ nats, prefix: ownPrefix(nats) });
    await publishAll(queue, 'ab');
    const inbox = openInbox(queue);
    for (const delivery of await inbox.take(2)) await delivery.settle(discard());
    inbox.stop();
    const [first, shared] = await Promise.all([queue.deadLetterReasons(), queue.deadLetterReasons()]);
    expect(shared).to.equal(first);
    expect(await queue.deadLetterReasons()).to.equal(first);
    await queue.purge('a');
    expect(await queue.deadLetterReasons()).to.deep.equal({
      reasons: [{ reason: 'no', count: 1, permanent: true }],
      total: 1,
    });
  });

  it('keep fewer attempts if the reasons are too long for a NATS message', async () => {
    const nats = await connection();
    const queue = await openNode({ nats, prefix: ownPrefix(nats) });
    await publishAll(queue, 'a');
    const inbox = openInbox(queue);
    for (let attempt = 1; attempt < 20; attempt++)
      await (await inbox.next()).settle({ ...retry(), reason: '€'.repeat(1000) });
    await (await inbox.next()).settle(discard('last', 20));
    const [letter] = await lettersOf(queue);
    expect(letter?.attempts).to.equal(20);
    expect(letter?.history.length).to.be.within(5, 15);
    expect(letter?.history.at(-1)?.reason).to.equal('last');
  });

  it('are handled once by nodes that redrive them at the same time', async () => {
    const prefix = ownPrefix(await connection());
    const [first, second] = [
      await openNode({ nats: await connection(), prefix }),
      await openNode({ nats: await connection(), prefix }),
    ];
    const ids = Array.from({ length: 50 }, (_, index) => `${index}`);
    await publishAll(first, ids);
    const inbox = openInbox(first);
    for (const delivery of await inbox.take(ids.length)) await delivery.settle(discard());
    inbox.stop();
    await Promise.all([first.redriveAll({ all: true }), second.redriveAll({ all: true })]);
    expect(await lettersOf(second)).to.deep.equal([]);
    const deliveries = await openInbox(second).take(ids.length);
    expect(deliveries.map(({ message }) => message.id).sort()).to.deep.equal(ids.toSorted());
    for (const delivery of deliveries) await delivery.ack();
    expect(second.counts()).to.include({ waiting: 0, inFlight: 0 });
  });
});

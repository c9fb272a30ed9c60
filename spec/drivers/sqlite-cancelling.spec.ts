import { expect } from 'chai';
import type { Queue } from '../../main/tasks/queue/queue.ts';
import { discard, idsOf, keyed, openInbox, publishAll, retry } from './inbox.ts';
import { beside, durableTransactions, freshFile, open } from './sqlite-queue.ts';

const messageOf = (queue: Queue, id: string) =>
  queue.cancel(id).then(
    () => undefined,
    (error: Error) => error.message,
  );

describe('the durable queue, when tasks are cancelled', () => {
  it('has recorded a cancellation by the time it is confirmed', async () => {
    const path = await freshFile();
    const queue = open(path);
    queue.onCancel(() => true);
    await publishAll(queue, 'abc');
    const inbox = openInbox(queue);
    await (await inbox.next()).settle(retry(60_000));
    await inbox.next();
    const durable = durableTransactions();
    for (const id of 'abc') {
      expect(await queue.cancel(id)).to.equal('cancelled');
      expect(durable(), id).to.deep.equal([true]);
    }
    // Not closed, as if the process had been killed.
    const next = open(path);
    expect(next.counts()).to.include({ accepted: 0, waiting: 0, delayed: 0 });
  });

  it('has recorded the end of a cancelled attempt', async () => {
    const path = await freshFile();
    const queue = open(path);
    await publishAll(queue, 'a');
    const delivery = await openInbox(queue).next();
    await delivery.markRunning();
    expect(await queue.cancel('a')).to.equal('running');
    expect(open(path).counts()).to.include({ accepted: 1 });
    await delivery.settle({ kind: 'cancel' });
    expect(open(path).counts()).to.include({ accepted: 0 });
  });

  it('keeps the idempotency key of a cancelled task', async () => {
    const path = await freshFile();
    const queue = open(path);
    await queue.publish({ id: 'a', body: 'a' }, keyed('k'));
    await queue.cancel('a');
    const next = open(path);
    expect(await next.publish({ id: 'b', body: 'b' }, keyed('k'))).to.equal('a');
    expect(next.counts()).to.include({ accepted: 0, waiting: 0 });
  });

  it('keeps a message whose cancellation cannot be written, in its place and state', async () => {
    const path = await freshFile();
    const queue = open(path);
    queue.onCancel(() => true);
    await publishAll(queue, 'abcd');
    const inbox = openInbox(queue);
    await (await inbox.next()).settle(retry(60_000));
    await inbox.next();
    const other = beside(path);
    other.exec('BEGIN IMMEDIATE');
    for (const id of 'abd') expect(await messageOf(queue, id), id).to.equal('database is locked');
    expect(queue.counts()).to.include({ accepted: 4, cancelled: 0, delayed: 1, waiting: 3, inFlight: 0 });
    expect(await queue.find('a')).to.include({ state: 'retrying', attempts: 1 });
    other.exec('COMMIT');
    await publishAll(queue, 'e');
    // The delivery of `b` has ended, so a killed process would not leave it as a suspect.
    expect(other.prepare('SELECT id FROM messages WHERE running = 1').all()).to.deep.equal([]);
    expect(idsOf(await inbox.take(3))).to.deep.equal(['b', 'c', 'd']);
    expect(await queue.cancel('a')).to.equal('cancelled');
    expect(queue.counts()).to.include({ accepted: 5, cancelled: 1, delayed: 0, inFlight: 3 });
  });

  it('does not deliver a message that is cancelled while its delivery is being recorded', async () => {
    const path = await freshFile();
    const queue = open(path);
    const asked: string[] = [];
    queue.onCancel(({ message }) => {
      asked.push(message.id);
      return false;
    });
    await publishAll(queue, 'ab');
    const taking = queue.take(2);
    expect(await queue.cancel('a')).to.equal('cancelled');
    expect(idsOf(await taking)).to.deep.equal(['b']);
    expect(asked).to.deep.equal([]);
    expect(queue.counts()).to.include({ accepted: 2, cancelled: 1, inFlight: 1 });
    expect(open(path).counts()).to.include({ accepted: 1 });
  });

  it('cancels a dead letter whose redrive is being recorded', async () => {
    const path = await freshFile();
    const queue = open(path);
    await publishAll(queue, 'a');
    await (await openInbox(queue).next()).settle(discard());
    const [redriven, cancelled] = await Promise.all([queue.redrive('a'), queue.cancel('a')]);
    expect([redriven, cancelled]).to.deep.equal([true, 'cancelled']);
    expect(queue.counts()).to.include({ accepted: 1, cancelled: 1, waiting: 0, dead: 0 });
    expect(open(path).counts()).to.include({ accepted: 0 });
  });

  it('counts a message as waiting until its cancellation is recorded, and delivers it no more', async () => {
    const queue = open(await freshFile());
    await publishAll(queue, 'a');
    const cancelling = queue.cancel('a');
    expect(queue.counts()).to.include({ accepted: 1, waiting: 1, cancelled: 0 });
    expect(await queue.take(1)).to.deep.equal([]);
    await cancelling;
    expect(queue.counts()).to.include({ accepted: 1, waiting: 0, cancelled: 1 });
  });
});

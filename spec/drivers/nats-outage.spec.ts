import { expect } from 'chai';
import { QueueFull } from '../../main/tasks/queue/queue.ts';
import { startNatsServer } from '../support/nats-server.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { eventually } from '../support/until.ts';
import { discard, keyed, lettersOf, openInbox, publishAll, retry } from './inbox.ts';
import { connection, openNode } from './nats-node.ts';

describeWith(lackingProgram('nats-server'), 'the NATS queue whose server goes and comes', () => {
  it('refuses submissions meanwhile, and continues with all its tasks when the server is back', async () => {
    const server = await startNatsServer();
    const queue = await openNode({ nats: await connection(server.url), prefix: 'p' });
    await publishAll(queue, 'abcd');
    const inbox = openInbox(queue);
    const [a, b] = await inbox.take(2);
    await a?.settle(retry(100));
    const c = await inbox.next();
    await server.kill();

    const error = await queue.publish({ id: 'e', body: 'e' }).catch((error) => error);
    expect(error).to.be.instanceOf(Error).that.is.not.instanceOf(QueueFull);
    expect(await b?.ack().catch((error) => error)).to.be.instanceOf(Error);
    await c.release();

    await server.start();
    const seen = new Map<string, number>();
    while (['a', 'c', 'd'].some((id) => !seen.has(id))) {
      const delivery = await inbox.next();
      seen.set(delivery.message.id, delivery.attempt);
      // The ack fails while the connection is down and is sent again with the redelivery.
      await delivery.ack().catch(() => {});
    }
    expect(Object.fromEntries(seen)).to.include({ a: 2, c: 1, d: 1 });
    expect(seen.has('b'), 'b, which was done').to.equal(false);
    // The queue learns from the redelivery of `b` that its ack was lost, which needs a pull request.
    await eventually(
      async () => {
        expect(await inbox.takeReady(1)).to.deep.equal([]);
        return queue.counts().completed;
      },
      (completed) => completed === 4,
    );
    expect(queue.counts()).to.include({ accepted: 4, waiting: 0, delayed: 0, inFlight: 0 });
    await publishAll(queue, 'f');
    expect((await inbox.next()).message.id).to.equal('f');
  });

  it('keeps accepted tasks, dead letters and idempotency keys when the server is killed', async () => {
    const server = await startNatsServer();
    const open = async () => openNode({ nats: await connection(server.url), prefix: 'p', ackWaitMs: 400 });
    const before = await open();
    const key = keyed('key');
    await before.publish({ id: 'a', body: 'a' }, key);
    await publishAll(before, 'b');
    await (await openInbox(before).next()).settle(discard());
    await before.close();
    await server.kill();
    await server.start();
    const after = await open();
    expect((await lettersOf(after)).map(({ id, reason }) => ({ id, reason }))).to.deep.equal([
      { id: 'a', reason: 'no' },
    ]);
    expect(await after.publish({ id: 'c', body: 'c' }, key)).to.equal('a');
    const inbox = openInbox(after);
    // A killed server may have lost the settlement of `a` or the record of its delivery, and deliver `a` again.
    for (let delivery = await inbox.next(); delivery.message.id !== 'b'; delivery = await inbox.next()) {
      await delivery.settle(discard());
    }
    // The queue learns that the task is settled from the redelivery, which needs a pull request.
    await eventually(
      async () => {
        for (const again of await inbox.takeReady(5)) await again.settle(discard());
        return after.find('a');
      },
      (found) => found?.state === 'failed',
    );
    expect((await lettersOf(after)).length).to.equal(1);
  });
});

import { expect } from 'chai';
import { type Queue, QueueFull } from '../../main/tasks/queue/queue.ts';
import { until } from '../support/until.ts';
import { type FreshQueue, openInbox, publishAll, type Reopen, retry } from './inbox.ts';

/** Conformance specs of a closed driver. */
export function describeClosing(fresh: FreshQueue, reopen?: Reopen): void {
  /** Waits until the closed queue would have delivered the message: the queue delivers the message after it is opened again, or the event loop turns. */
  const deliverable = async (closed: Queue, id: string) => {
    await new Promise(setImmediate);
    if (reopen === undefined) return;
    const inbox = openInbox(await reopen(closed));
    while ((await inbox.next()).message.id !== id);
  };

  describe('closed', () => {
    it('refuses messages, with an error other than QueueFull', async () => {
      const queue = await fresh();
      await queue.close();
      const error = await queue.publish({ id: 'a', body: 'a' }).catch((error) => error);
      expect(error).to.be.instanceOf(Error).that.is.not.instanceOf(QueueFull);
      expect(queue.counts().accepted).to.equal(0);
    });

    it('delivers nothing more, and may be closed again', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const inbox = openInbox(queue);
      const [a, b] = await inbox.take(2);
      await queue.close();
      await queue.close();
      await a?.ack();
      await b?.release();
      await deliverable(queue, 'c');
      expect(await inbox.takeReady(5)).to.deep.equal([]);
    });

    it('delivers nothing to somebody who comes afterwards', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      await queue.close();
      const inbox = openInbox(queue);
      await deliverable(queue, 'a');
      expect(await inbox.takeReady(5)).to.deep.equal([]);
    });

    it('leaves no timer behind, neither of a retry before nor of one after', async () => {
      const queue = await fresh();
      await publishAll(queue, 'ab');
      const [a, b] = await openInbox(queue).take(2);
      const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
      const before = timers();
      await a?.settle(retry(60_000));
      await queue.close();
      await b?.settle(retry(60_000));
      // Other timers of this process fire long before that of a retry.
      await until(() => timers() <= before);
    });
  });
}

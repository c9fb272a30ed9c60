import { expect } from 'chai';
import { type QueueDriver, QueueFull } from '../../main/tasks/queue/driver.ts';
import { until } from '../support/until.ts';
import { type FreshQueue, openInbox, publishAll, type Reopen, retry } from './inbox.ts';

/** What a driver does once it is closed. */
export function describeClosing(fresh: FreshQueue, reopen?: Reopen): void {
  /** Waits until the closed queue would have delivered the message: another consumer gets it, or the event loop turns. */
  const deliverable = async (closed: QueueDriver, id: string) => {
    await new Promise(setImmediate);
    if (reopen === undefined) return;
    const inbox = openInbox(await reopen(closed), 10);
    while ((await inbox.next()).message.id !== id);
  };

  describe('closed', () => {
    it('refuses messages, otherwise than a full one', async () => {
      const queue = await fresh();
      await queue.close();
      const error = await queue.publish({ id: 'a', body: 'a' }).catch((error) => error);
      expect(error).to.be.instanceOf(Error).that.is.not.instanceOf(QueueFull);
      expect(queue.counts().accepted).to.equal(0);
    });

    it('delivers nothing more, and may be closed again', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const inbox = openInbox(queue, 2);
      const [a, b] = await inbox.take(2);
      await queue.close();
      await queue.close();
      await a?.ack();
      await b?.release();
      await deliverable(queue, 'c');
      expect(inbox.received()).to.equal(2);
    });

    it('delivers nothing to a consumer that comes afterwards', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      await queue.close();
      let received = 0;
      const consume = () => queue.consume(1, () => received++);
      // Whether it is refused or left waiting is the driver's own matter.
      await Promise.resolve()
        .then(consume)
        .catch(() => {});
      await deliverable(queue, 'a');
      expect(received).to.equal(0);
    });

    it('leaves no timer behind, neither of a retry before nor of one after', async () => {
      const queue = await fresh();
      await publishAll(queue, 'ab');
      const [a, b] = await openInbox(queue, 2).take(2);
      const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
      const before = timers();
      await a?.nack(retry(60_000));
      await queue.close();
      await b?.nack(retry(60_000));
      // A timer of anything else in this process ends by itself, long before that of a retry.
      await until(() => timers() <= before);
    });
  });
}

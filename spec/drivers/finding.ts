import { expect } from 'chai';
import { discard, type FreshQueue, lettersOf, openInbox, publishAll, retry } from './inbox.ts';

/** Conformance specs of `find`. */
export function describeFinding(fresh: FreshQueue): void {
  describe('finding a message', () => {
    it('returns its state, from queued to settled', async () => {
      const queue = await fresh();
      await publishAll(queue, 'ab');
      expect(await queue.find('a')).to.deep.include({ state: 'queued' });
      const inbox = openInbox(queue);
      const first = await inbox.next();
      // The message is in flight, but no handler has started.
      expect(await queue.find('a')).to.deep.include({ state: 'queued' });
      await first.markRunning();
      expect(await queue.find('a')).to.deep.include({ state: 'running', attempt: 1 });

      const before = Date.now();
      await first.settle(retry(60_000));
      const retrying = await queue.find('a');
      expect(retrying).to.deep.include({ state: 'retrying', attempts: 1, reason: 'it failed' });
      expect(retrying)
        .to.have.property('dueAt')
        .that.is.within(before + 60_000, Date.now() + 60_000);

      const second = await inbox.next();
      await second.markRunning();
      await second.ack();
      expect(await queue.find('b')).to.equal(undefined);
    });

    it('returns the state of a further attempt, and of a released message', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      await (await inbox.next()).settle(retry());
      const again = await inbox.next();
      await again.markRunning();
      expect(await queue.find('a')).to.deep.include({ state: 'running', attempt: 2 });
      inbox.stop();
      await again.release();
      expect(await queue.find('a')).to.deep.include({ state: 'queued' });
    });

    it('is not misled by a delivery that begins after it has settled', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      const delivery = await inbox.next();
      inbox.stop();
      await delivery.release();
      await delivery.markRunning();
      expect(await queue.find('a')).to.deep.include({ state: 'queued' });
    });

    it('returns the dead letter of a discarded message, and undefined for an unknown one', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      await (await openInbox(queue).next()).settle(discard());
      const [letter] = await lettersOf(queue);
      expect(await queue.find('a')).to.deep.include({ state: 'failed', letter });
      for (const id of ['b', '', '__proto__', 'constructor']) expect(await queue.find(id)).to.equal(undefined);
    });
  });
}

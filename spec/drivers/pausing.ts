import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { until } from '../support/until.ts';
import { discard, type FreshQueue, idsOf, openInbox, publishAll, retry } from './inbox.ts';

/** Conformance specs of pausing and resuming. */
export function describePausing(fresh: FreshQueue): void {
  describe('paused', () => {
    it('delivers nothing, and delivers everything in order once it is resumed', async () => {
      const queue = await fresh();
      const inbox = openInbox(queue);
      await publishAll(queue, 'ab');
      expect((await inbox.next()).message.id).to.equal('a');
      expect(queue.paused).to.equal(false);
      await queue.pause();
      expect(queue.paused).to.equal(true);
      await publishAll(queue, 'cd');
      expect(await inbox.takeReady(5)).to.deep.equal([]);
      expect(queue.counts()).to.include({ accepted: 4, inFlight: 1, waiting: 3 });
      await queue.resume();
      expect(queue.paused).to.equal(false);
      expect(idsOf(await inbox.take(3)).sort()).to.deep.equal([...'bcd']);
    });

    it('tells its listeners of each change, once', async () => {
      const queue = await fresh();
      const changes: boolean[] = [];
      const removed: boolean[] = [];
      afterTest(queue.onPauseChange((isPaused) => changes.push(isPaused)));
      queue.onPauseChange((isPaused) => removed.push(isPaused))();
      await queue.resume();
      await queue.pause();
      await queue.pause();
      await queue.resume();
      await queue.resume();
      expect(changes).to.deep.equal([true, false]);
      expect(removed).to.deep.equal([]);
    });

    it('settles what is in flight, and keeps a released message and a due retry', async () => {
      const queue = await fresh();
      const inbox = openInbox(queue);
      await publishAll(queue, 'abcd');
      const [a, b, c, d] = await inbox.take(4);
      await queue.pause();
      await a?.ack();
      await b?.settle(discard());
      await c?.release();
      await d?.settle(retry(10));
      expect(queue.counts()).to.include({ completed: 1, dead: 1, inFlight: 0 });
      await until(() => queue.counts().delayed === 0);
      expect(await inbox.takeReady(5)).to.deep.equal([]);
      await queue.resume();
      const again = await inbox.take(2);
      expect(idsOf(again).sort()).to.deep.equal(['c', 'd']);
      for (const { suspect, crashes } of again)
        expect({ suspect, crashes }).to.deep.equal({ suspect: false, crashes: 0 });
    });

    it('cancels a message that waits', async () => {
      const queue = await fresh();
      openInbox(queue);
      await publishAll(queue, 'ab');
      await queue.pause();
      expect(await queue.cancel('a')).to.equal('cancelled');
      expect(queue.counts()).to.include({ accepted: 2, cancelled: 1, waiting: 1 });
      await queue.resume();
      expect((await openInbox(queue).next()).message.id).to.equal('b');
    });

    it('redrives dead letters, which wait', async () => {
      const queue = await fresh();
      const inbox = openInbox(queue);
      await publishAll(queue, 'a');
      await (await inbox.next()).settle(discard());
      await queue.pause();
      expect(await queue.redrive('a')).to.equal(true);
      expect(await inbox.takeReady(1)).to.deep.equal([]);
      await queue.resume();
      expect((await inbox.next()).message.id).to.equal('a');
    });
  });
}

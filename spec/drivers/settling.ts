import { expect } from 'chai';
import type { Settlement, SettlementOf } from '../../main/tasks/queue/queue.ts';
import { discard, type FreshQueue, lettersOf, openInbox, publishAll, retry } from './inbox.ts';

/** Conformance specs of each settlement of a delivery. */
export function describeSettling(fresh: FreshQueue): void {
  describe('settling', () => {
    it('is done with a message that was acknowledged', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      await (await openInbox(queue).next()).ack();
      expect(queue.counts()).to.deep.equal({
        accepted: 1,
        completed: 1,
        dead: 0,
        dropped: 0,
        cancelled: 0,
        waiting: 0,
        delayed: 0,
        inFlight: 0,
        bytes: 0,
      });
    });

    it('returns when the oldest unsettled message was accepted', async () => {
      const queue = await fresh();
      expect(queue.oldest()).to.equal(undefined);
      const before = Date.now();
      await publishAll(queue, 'ab');
      const inbox = openInbox(queue);
      const [first, second] = [await inbox.next(), await inbox.next()];
      expect(first.acceptedAt).to.be.within(before, Date.now());
      expect(queue.oldest()).to.equal(first.acceptedAt);
      await second.ack();
      expect(queue.oldest()).to.equal(first.acceptedAt);
      await first.settle(retry(60_000));
      expect(queue.oldest()).to.equal(first.acceptedAt);
      const third = await queue.publish({ id: 'c', body: 'c' }).then(() => inbox.next());
      await third.ack();
      expect(queue.oldest()).to.equal(first.acceptedAt);
    });

    it('takes the first settlement of a delivery and ignores the others', async () => {
      const settlements: Settlement[] = [{ kind: 'ack' }, retry(60_000), snooze(60_000), discard(), { kind: 'cancel' }];
      const counted = ['completed', 'delayed', 'delayed', 'dead', 'cancelled'] as const;
      for (const [index, first] of settlements.entries()) {
        const queue = await fresh();
        await publishAll(queue, 'a');
        const delivery = await openInbox(queue).next();
        await delivery.settle(first);
        const after = queue.counts();
        for (const later of settlements) await delivery.settle(later);
        await delivery.release();
        expect(queue.counts()).to.deep.equal(after);
        expect(after[counted[index] as 'completed']).to.equal(1);
      }
    });

    it('ignores settlements of a released delivery, but not of the one that followed it', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      const released = await inbox.next();
      await released.release();
      const again = await inbox.next();
      await released.ack();
      expect(queue.counts()).to.include({ inFlight: 1, completed: 0 });
      await again.ack();
      expect(queue.counts()).to.include({ inFlight: 0, completed: 1 });
    });

    it('puts a released message back at the head, with no attempt counted', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const inbox = openInbox(queue);
      const first = await inbox.next();
      await first.release();
      const again = await inbox.next();
      expect(again.message.id).to.equal('a');
      expect(again).to.include({ attempt: 1, crashes: 0 });
      await again.ack();
      expect((await inbox.next()).message.id).to.equal('b');
    });

    it('redelivers a nacked message after its delay, with attempt and crashes counted', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      const expected = [
        [1, 0],
        [2, 0],
        [3, 1],
        [4, 2],
      ];
      for (const [attempt, crashes] of expected) {
        const delivery = await inbox.next();
        expect(delivery).to.include({ attempt, crashes });
        expect(delivery.message).to.deep.equal({ id: 'a', body: 'a' });
        await delivery.settle(retry(0, delivery.attempt > 1 ? 'crash' : 'transient'));
      }
      expect(await inbox.next()).to.include({ attempt: 5, crashes: 3 });
    });

    it('does not count a retry that waits as in flight', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const inbox = openInbox(queue);
      await (await inbox.next()).settle(retry(60_000));
      expect((await inbox.next()).message.id).to.equal('b');
      expect(queue.counts()).to.include({ delayed: 1, inFlight: 1, waiting: 1 });
    });

    it('redelivers a snoozed message after its delay, with no attempt counted', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      await (await inbox.next()).settle(retry(0, 'crash'));
      await (await inbox.next()).settle(snooze(0));
      expect(await inbox.next()).to.include({ attempt: 2, crashes: 1, suspect: false });
    });

    it('delivers a retry no earlier than its delay', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      const first = await inbox.next();
      const begun = performance.now();
      await first.settle(retry(60));
      const again = await inbox.next();
      // Timers have millisecond resolution and may fire 1 ms early.
      expect(performance.now() - begun).to.be.at.least(59);
      expect(again.message.id).to.equal('a');
    });

    it('delivers the retry with the shorter of two delays first', async () => {
      const queue = await fresh();
      await publishAll(queue, 'ab');
      const inbox = openInbox(queue);
      const [a, b] = await inbox.take(2);
      await a?.settle(retry(60_000));
      await b?.settle(retry(10));
      expect((await inbox.next()).message.id).to.equal('b');
      expect(queue.counts()).to.include({ delayed: 1, inFlight: 1 });
    });

    it('keeps a discarded message as a dead letter with its reason, attempts and times', async () => {
      const queue = await fresh();
      const before = Date.now();
      await publishAll(queue, 'ab');
      const inbox = openInbox(queue);
      const [a, b] = await inbox.take(2);
      await b?.settle(discard('bad data'));
      await a?.settle(retry());
      await (await inbox.next()).settle(discard('too often', 2));
      const letters = await lettersOf(queue);
      expect(letters.map(({ acceptedAt, failedAt, sequence, history, ...letter }) => letter)).to.deep.equal([
        { id: 'b', body: 'b', reason: 'bad data', attempts: 1, permanent: true },
        { id: 'a', body: 'a', reason: 'too often', attempts: 2, permanent: true },
      ]);
      for (const { acceptedAt, failedAt } of letters) {
        expect(acceptedAt).to.be.within(before, failedAt);
        expect(failedAt).to.be.at.most(Date.now());
      }
      expect(queue.counts()).to.include({ dead: 2, completed: 0, waiting: 0, delayed: 0, inFlight: 0, bytes: 0 });
    });
  });
}

function snooze(delayMs: number): SettlementOf<'snooze'> {
  return { kind: 'snooze', delayMs, reason: 'it is not known' };
}

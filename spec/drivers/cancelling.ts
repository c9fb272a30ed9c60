import { expect } from 'chai';
import type { Queue, TaskEvent } from '../../main/tasks/queue/queue.ts';
import { afterTest } from '../support/cleanup.ts';
import { timeless } from '../support/timeless.ts';
import { discard, type FreshQueue, idsOf, keyed, openInbox, publishAll, retry } from './inbox.ts';

/** Answers the cancellations of deliveries in flight, and returns their task ids. */
function answerCancellations(queue: Queue, isWithdrawn: boolean): string[] {
  const asked: string[] = [];
  const stop = queue.onCancel(({ message }) => {
    asked.push(message.id);
    return isWithdrawn;
  });
  afterTest(stop);
  return asked;
}

const none = { completed: 0, dead: 0, dropped: 0, waiting: 0, delayed: 0, inFlight: 0, bytes: 0 };

/** Conformance specs of cancellation and progress. */
export function describeCancelling(fresh: FreshQueue): void {
  describe('cancelling', () => {
    it('removes a waiting message, and leaves the others in order', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      await publishAll(queue, 'abcd');
      expect(await queue.cancel('b')).to.equal('cancelled');
      expect(await queue.find('b')).to.equal(undefined);
      expect(queue.counts()).to.include({ accepted: 4, cancelled: 1, waiting: 3 });
      expect(idsOf(await openInbox(queue).take(3))).to.deep.equal(['a', 'c', 'd']);
      expect(timeless(events).at(-1)).to.deep.equal({ event: 'cancelled', id: 'b' });
    });

    it('removes a delayed message, which is not delivered again', async () => {
      const queue = await fresh();
      await publishAll(queue, 'ab');
      const inbox = openInbox(queue);
      await (await inbox.next()).settle(retry(20));
      expect(await queue.cancel('a')).to.equal('cancelled');
      await (await inbox.next()).settle(retry(60));
      // The retry of `b` is due later than that of `a` would have been.
      expect((await inbox.next()).message.id).to.equal('b');
      expect(queue.counts()).to.include({ accepted: 2, cancelled: 1, waiting: 0, delayed: 0, inFlight: 1 });
    });

    it('ends a delivery that its worker has not started, and ignores its settlement', async () => {
      for (const settlement of [{ kind: 'ack' }, { kind: 'release' }, retry(), discard()] as const) {
        const queue = await fresh();
        const asked = answerCancellations(queue, true);
        await publishAll(queue, 'a');
        const inbox = openInbox(queue);
        const delivery = await inbox.next();
        expect(await queue.cancel('a')).to.equal('cancelled');
        expect(asked).to.deep.equal(['a']);
        await delivery.markRunning();
        await delivery.settle(settlement);
        expect(queue.counts()).to.deep.equal({ ...none, accepted: 1, cancelled: 1 });
        expect(await queue.find('a')).to.equal(undefined);
        expect(await inbox.takeReady(1)).to.deep.equal([]);
      }
    });

    it('asks the attempt of a running message to end, each time, and takes its settlement', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      const asked = answerCancellations(queue, false);
      await publishAll(queue, 'ab');
      const [a, b] = await openInbox(queue).take(2);
      for (const delivery of [a, b]) await delivery?.markRunning();
      expect([await queue.cancel('a'), await queue.cancel('a'), await queue.cancel('b')]).to.deep.equal(
        Array(3).fill('running'),
      );
      expect(asked).to.deep.equal(['a', 'a', 'b']);
      expect(await queue.find('a')).to.deep.include({ state: 'running', attempt: 1 });
      expect(queue.counts()).to.include({ inFlight: 2, cancelled: 0 });
      await a?.settle({ kind: 'cancel' });
      await b?.ack();
      expect(queue.counts()).to.deep.equal({ ...none, accepted: 2, completed: 1, cancelled: 1 });
      expect(timeless(events.slice(-2))).to.deep.equal([
        { event: 'cancelled', id: 'a' },
        { event: 'completed', id: 'b' },
      ]);
      expect(await queue.find('a')).to.equal(undefined);
    });

    it('returns undefined for a message that is completed, dead-lettered, cancelled or unknown', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const [a, b] = await openInbox(queue).take(2);
      await a?.ack();
      await b?.settle(discard());
      expect(await queue.cancel('c')).to.equal('cancelled');
      for (const id of ['a', 'b', 'c', 'x', '', '__proto__']) expect(await queue.cancel(id), id).to.equal(undefined);
      expect(queue.counts()).to.include({ accepted: 3, completed: 1, dead: 1, cancelled: 1, waiting: 0 });
      expect(await queue.find('b')).to.include({ state: 'failed' });
    });

    it('cancels once when asked several times at once', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      await publishAll(queue, 'a');
      const results = await Promise.all([queue.cancel('a'), queue.cancel('a'), queue.cancel('a')]);
      expect(results).to.include('cancelled');
      for (const result of results) expect(result).to.be.oneOf(['cancelled', undefined]);
      expect(queue.counts()).to.deep.equal({ ...none, accepted: 1, cancelled: 1 });
      expect(events.filter(({ event }) => event === 'cancelled')).to.have.lengthOf(1);
    });

    it('makes room for another message', async () => {
      const queue = await fresh({ maxLength: 1 });
      await publishAll(queue, 'a');
      await queue.cancel('a');
      await publishAll(queue, 'b');
      expect(queue.counts()).to.include({ accepted: 2, cancelled: 1, waiting: 1 });
    });

    it('keeps the idempotency key, so that a repeated submission does not bring the message back', async () => {
      const queue = await fresh();
      await queue.publish({ id: 'a', body: 'a' }, keyed('k'));
      await queue.cancel('a');
      expect(await queue.publish({ id: 'b', body: 'b' }, keyed('k'))).to.equal('a');
      expect(queue.counts()).to.deep.equal({ ...none, accepted: 1, cancelled: 1 });
    });

    it('can cancel a redriven dead letter', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      await (await inbox.next()).settle(discard());
      inbox.stop();
      await queue.redrive('a');
      expect(await queue.cancel('a')).to.equal('cancelled');
      expect(await queue.find('a')).to.equal(undefined);
    });
  });

  describe('progress', () => {
    it('is shown while the attempt runs, and reported', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      const first = await inbox.next();
      queue.reportProgress(first.delivery, { fraction: 0.1 });
      expect(await queue.find('a')).to.deep.include({ state: 'queued' });
      await first.markRunning();
      queue.reportProgress(first.delivery, { fraction: 0.25, note: 'page 1' });
      queue.reportProgress(first.delivery, { fraction: 0.5 });
      expect(await queue.find('a')).to.deep.include({ state: 'running', attempt: 1, progress: { fraction: 0.5 } });
      expect(timeless(events.slice(-2))).to.deep.equal([
        { event: 'progress', id: 'a', attempt: 1, fraction: 0.25, note: 'page 1' },
        { event: 'progress', id: 'a', attempt: 1, fraction: 0.5 },
      ]);
      await first.settle(retry());
      const second = await inbox.next();
      await second.markRunning();
      expect(await queue.find('a'))
        .to.include({ state: 'running', attempt: 2 })
        .and.not.have.property('progress');
      queue.reportProgress(first.delivery, { fraction: 1 });
      expect(await queue.find('a'))
        .to.include({ state: 'running', attempt: 2 })
        .and.not.have.property('progress');
      await second.ack();
      expect(timeless(events).at(-1)).to.deep.equal({ event: 'completed', id: 'a' });
    });
  });
}

import { expect } from 'chai';
import type { TaskEvent } from '../../main/tasks/queue/queue.ts';
import { timeless } from '../support/timeless.ts';
import { discard, type FreshQueue, openInbox, publishAll, retry } from './inbox.ts';

/** Conformance specs of a driver's task events. */
export function describeEvents(fresh: FreshQueue): void {
  describe('events', () => {
    it('report every step, in order', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      const inbox = openInbox(queue);
      await publishAll(queue, 'a');
      const first = await inbox.next();
      await first.markRunning();
      const before = Date.now();
      await first.settle(retry(1));
      const after = Date.now();
      const second = await inbox.next();
      await second.markRunning();
      await second.ack();
      const [, , retrying] = events;
      if (retrying?.event !== 'retrying') throw new Error('the third event is another one');
      expect(retrying.dueAt).to.be.within(before + 1, after + 1);
      expect(timeless(events)).to.deep.equal([
        { event: 'accepted', id: 'a' },
        { event: 'started', id: 'a', attempt: 1 },
        { event: 'retrying', id: 'a', attempts: 1, reason: 'it failed', dueAt: retrying.dueAt },
        { event: 'started', id: 'a', attempt: 2 },
        { event: 'completed', id: 'a' },
      ]);
    });

    it('have the action and the time', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      const inbox = openInbox(queue);
      const before = Date.now();
      for (const id of ['a', 'b']) {
        const body = JSON.stringify({ id, action: `action ${id}`, data: {}, created_at: 1 });
        await queue.publish({ id, body });
        const first = await inbox.next();
        await first.markRunning();
        queue.reportProgress(first.delivery, { fraction: 0.5 });
        await first.settle(retry());
        const second = await inbox.next();
        await second.settle(id === 'a' ? discard() : { kind: 'ack' });
      }
      await queue.redrive('a');
      await queue.cancel('a');
      const names = ['accepted', 'started', 'progress', 'retrying'];
      const expected = [...names, 'failed', ...names, 'completed', 'accepted', 'cancelled'];
      expect(events.map(({ event }) => event)).to.deep.equal(expected);
      for (const { id, action, at } of events) {
        expect(action).to.equal(`action ${id}`);
        expect(at).to.be.within(before, Date.now());
      }
    });

    it('report a discarded message, and its redrive', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      const inbox = openInbox(queue);
      await publishAll(queue, 'a');
      const delivery = await inbox.next();
      await delivery.markRunning();
      await delivery.settle(discard());
      await queue.redrive('a');
      expect(timeless(events.slice(2))).to.deep.equal([
        { event: 'failed', id: 'a', attempts: 1, reason: 'no' },
        { event: 'accepted', id: 'a' },
      ]);
    });

    it('report nothing about a message that was refused or is already settled', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({ maxLength: 1 }, (event) => events.push(event));
      const inbox = openInbox(queue);
      await publishAll(queue, 'a');
      await queue.publish({ id: 'b', body: 'b' }).catch(() => {});
      const delivery = await inbox.next();
      await delivery.ack();
      await delivery.markRunning();
      await delivery.ack();
      await delivery.settle(retry());
      await publishAll(queue, 'c');
      expect(events.map(({ event, id }) => `${event} ${id}`)).to.deep.equal([
        'accepted a',
        'completed a',
        'accepted c',
      ]);
    });
  });
}

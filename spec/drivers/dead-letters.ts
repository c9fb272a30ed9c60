import { expect } from 'chai';
import { type Queue, QueueFull } from '../../main/tasks/queue/queue.ts';
import { discard, type FreshQueue, lettersOf, openInbox, publishAll } from './inbox.ts';

/** Publishes messages and discards them, in this order. */
async function discardAll(queue: Queue, ids: string): Promise<void> {
  await publishAll(queue, ids);
  const inbox = openInbox(queue);
  for (const delivery of await inbox.take(ids.length)) await delivery.settle(discard());
  inbox.stop();
}

const idsOf = async (queue: Queue) => (await lettersOf(queue)).map(({ id }) => id);

/** Conformance specs of dead letters: listing, redriving and purging. */
export function describeDeadLetters(fresh: FreshQueue): void {
  describe('its dead letters', () => {
    it('are in the order in which they were discarded', async () => {
      const queue = await fresh();
      await discardAll(queue, 'bca');
      expect(await idsOf(queue)).to.deep.equal(['b', 'c', 'a']);
    });

    it('are listed from the newest, as many as asked for, and each is read apart', async () => {
      const queue = await fresh();
      await discardAll(queue, 'abcdef');
      for (const id of ['c', 'e']) await queue.purge(id);
      const read = async (limit: number) => {
        const letters = await Promise.all((await queue.newestDeadLetters(limit)).map((listed) => listed.read()));
        return letters.map((letter) => letter?.body);
      };
      expect(await read(3)).to.deep.equal(['f', 'd', 'b']);
      expect(await read(100)).to.deep.equal(['f', 'd', 'b', 'a']);
      const listed = await queue.newestDeadLetters(2);
      for (const { bytes } of listed) expect(bytes).to.be.within(1, 1000);
      await queue.purge('f');
      expect((await Promise.all(listed.map((each) => each.read()))).map((letter) => letter?.id)).to.deep.equal([
        undefined,
        'd',
      ]);
    });

    it('are redriven to the end of the queue, with no attempts counted', async () => {
      const queue = await fresh();
      await discardAll(queue, 'ab');
      await publishAll(queue, 'c');
      expect(await queue.redrive('a')).to.equal(true);
      expect(await idsOf(queue)).to.deep.equal(['b']);
      expect(queue.counts()).to.include({ accepted: 3, dead: 1, waiting: 2, bytes: 2 });
      expect(await queue.find('a')).to.deep.include({ state: 'queued' });
      const [c, a] = await openInbox(queue).take(2);
      expect(c?.message.id).to.equal('c');
      expect(a).to.deep.include({ message: { id: 'a', body: 'a' }, attempt: 1, crashes: 0 });
      await a?.ack();
      expect(queue.counts()).to.include({ completed: 1, dead: 1 });
    });

    it('keep their place in the order of arrival, and the time of it', async () => {
      const queue = await fresh();
      await discardAll(queue, 'a');
      const [first] = await lettersOf(queue);
      await queue.redrive('a');
      const delivery = await openInbox(queue).next();
      expect(delivery.sequence).to.equal(first?.sequence);
      await delivery.settle(discard('again'));
      const [second] = await lettersOf(queue);
      expect(second).to.deep.include({
        sequence: first?.sequence,
        acceptedAt: first?.acceptedAt,
        attempts: 1,
        reason: 'again',
      });
    });

    it('stay where they are while the queue is full', async () => {
      const queue = await fresh({ maxLength: 1 });
      await discardAll(queue, 'a');
      await publishAll(queue, 'b');
      const before = queue.counts();
      expect(await queue.redrive('a').catch((error) => error)).to.be.instanceOf(QueueFull);
      expect(queue.counts()).to.deep.equal(before);
      expect(await idsOf(queue)).to.deep.equal(['a']);
    });

    it('can be deleted, which counts as dropped', async () => {
      const queue = await fresh();
      await discardAll(queue, 'ab');
      expect(await queue.purge('a')).to.equal(true);
      expect(await idsOf(queue)).to.deep.equal(['b']);
      expect(queue.counts()).to.include({ accepted: 2, dead: 1, dropped: 1 });
      expect(await queue.find('a')).to.equal(undefined);
    });

    it('that are not there are neither retried nor deleted', async () => {
      const queue = await fresh();
      await discardAll(queue, 'a');
      await publishAll(queue, 'b');
      for (const id of ['b', 'c', '']) {
        expect(await queue.redrive(id), id).to.equal(false);
        expect(await queue.purge(id), id).to.equal(false);
      }
      expect(queue.counts()).to.include({ dead: 1, dropped: 0, waiting: 1 });
    });

    it('are redriven once by concurrent calls', async () => {
      const queue = await fresh();
      await discardAll(queue, 'a');
      const asked = [queue.redrive('a'), queue.redrive('a')];
      // While the dead letter is redriven, the task is always found, here already as queued.
      expect(await queue.find('a')).to.deep.include({ state: 'queued' });
      const answers = await Promise.all(asked);
      expect(answers).to.have.members([true, false]);
      expect(queue.counts()).to.include({ accepted: 1, dead: 0, waiting: 1 });
    });
  });
}

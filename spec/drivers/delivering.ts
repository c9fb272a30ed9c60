import { expect } from 'chai';
import { type FreshQueue, idsOf, openInbox, publishAll } from './inbox.ts';

/** In which order and how many at once a driver delivers. */
export function describeDelivering(fresh: FreshQueue): void {
  describe('delivering', () => {
    it('delivers in the order of publishing, before and after a consumer came', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const inbox = openInbox(queue, 10);
      await publishAll(queue, 'def');
      expect(idsOf(await inbox.take(6))).to.deep.equal([...'abcdef']);
    });

    it('delivers the message as it was published, as the first attempt', async () => {
      const queue = await fresh();
      const body = '{"text":"ü \\u0000 𝄞"}';
      await queue.publish({ id: 'a', body });
      const delivery = await openInbox(queue, 1).next();
      expect(delivery.message).to.deep.equal({ id: 'a', body });
      expect(delivery).to.include({ attempt: 1, crashes: 0 });
    });

    it('never has more than the prefetch unsettled, and goes on with each that settles', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abcdefg');
      const inbox = openInbox(queue, 3);
      const [a, b, c] = await inbox.take(3);
      expect(queue.counts()).to.include({ inFlight: 3, waiting: 4 });
      await b?.ack();
      expect((await inbox.next()).message.id).to.equal('d');
      expect(queue.counts()).to.include({ inFlight: 3, waiting: 3 });
      await a?.nack({ verdict: 'dead', reason: 'no' });
      await c?.ack();
      expect(idsOf(await inbox.take(2))).to.deep.equal(['e', 'f']);
      // A round trip, within which a seventh message would arrive.
      expect(await queue.find('g')).to.deep.equal({ state: 'queued' });
      expect(inbox.received()).to.equal(6);
      expect(queue.counts()).to.include({ inFlight: 3, waiting: 1 });
    });

    it('delivers nothing more once its consumer has stopped', async () => {
      const queue = await fresh();
      await publishAll(queue, 'ab');
      const inbox = openInbox(queue, 1);
      const first = await inbox.next();
      inbox.consumer.stop();
      inbox.consumer.stop();
      await first.ack();
      await publishAll(queue, 'c');
      expect(queue.counts()).to.include({ waiting: 2, inFlight: 0 });
      // Each message is delivered once, so these have not gone to the stopped consumer.
      expect(idsOf(await openInbox(queue, 2).take(2))).to.deep.equal(['b', 'c']);
      expect(inbox.received()).to.equal(1);
    });

    it('goes on with the consumer that follows a stopped one, which stays stopped', async () => {
      const queue = await fresh();
      await publishAll(queue, 'abc');
      const first = openInbox(queue, 1);
      const delivery = await first.next();
      first.consumer.stop();
      const second = openInbox(queue, 5);
      expect(idsOf(await second.take(2))).to.deep.equal(['b', 'c']);
      first.consumer.stop();
      await delivery.ack();
      await publishAll(queue, 'd');
      expect((await second.next()).message.id).to.equal('d');
      expect(first.received()).to.equal(1);
    });

    it('has one consumer at a time', async () => {
      const queue = await fresh();
      openInbox(queue, 1);
      expect(() => queue.consume(1, () => {})).to.throw();
    });
  });
}

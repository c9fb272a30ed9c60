import { expect } from 'chai';
import { UnknownDeadLetter } from '../../main/tasks/queue/dead-letter-operations.ts';
import type { Queue, TaskEvent } from '../../main/tasks/queue/queue.ts';
import { discard, type FreshQueue, idsOf, lettersOf, openInbox, publishAll } from './inbox.ts';

/** Publishes messages and discards them in order. The reasons are those of a data error, except for upper case ids. */
async function discardAll(queue: Queue, ids: string): Promise<void> {
  await publishAll(queue, ids);
  const inbox = openInbox(queue);
  for (const delivery of await inbox.take(ids.length)) {
    const isUpperCase = /[A-Z]/.test(delivery.message.id);
    await delivery.settle(isUpperCase ? { ...discard('timeout'), failure: 'transient' } : discard('bad data'));
  }
  inbox.stop();
}

const remainingIds = async (queue: Queue) => (await lettersOf(queue)).map(({ id }) => id).join('');

const listedIds = async (queue: Queue, ...args: Parameters<Queue['newestDeadLetters']>) => {
  const letters = await Promise.all((await queue.newestDeadLetters(...args)).map((listed) => listed.read()));
  return letters.map((letter) => letter?.id).join('');
};

/** Conformance specs of pages, reasons and bulk calls of dead letters. */
export function describeBulk(fresh: FreshQueue): void {
  describe('many dead letters', () => {
    it('are listed page by page, all or those with a reason', async () => {
      const queue = await fresh();
      await discardAll(queue, 'aBcDeF');
      expect(await listedIds(queue, 2)).to.equal('Fe');
      expect(await listedIds(queue, 2, { before: 'e' })).to.equal('Dc');
      expect(await listedIds(queue, 10, { before: 'c' })).to.equal('Ba');
      expect(await listedIds(queue, 10, { before: 'a' })).to.equal('');
      expect(await listedIds(queue, 2, { reason: 'bad data' })).to.equal('ec');
      expect(await listedIds(queue, 2, { reason: 'bad data', before: 'c' })).to.equal('a');
      expect(await listedIds(queue, 2, { reason: 'x' })).to.equal('');
      for (const before of ['x', '', '__proto__'])
        expect(await queue.newestDeadLetters(2, { before }).catch((error) => error)).to.be.instanceOf(
          UnknownDeadLetter,
        );
    });

    it('are counted by reason, the most frequent first', async () => {
      const queue = await fresh();
      expect(await queue.deadLetterReasons()).to.deep.equal({ reasons: [], total: 0 });
      await discardAll(queue, 'aBc');
      const badData = { reason: 'bad data', count: 2, permanent: true };
      const timeout = { reason: 'timeout', count: 1, permanent: false };
      expect(await queue.deadLetterReasons()).to.deep.equal({ reasons: [badData, timeout], total: 3 });
      await queue.purge('a');
      await discardAll(queue, 'D');
      const { reasons, total } = await queue.deadLetterReasons();
      expect(reasons).to.deep.equal([
        { ...timeout, count: 2 },
        { ...badData, count: 1 },
      ]);
      expect(total).to.equal(3);
    });

    it('are counted together beyond the first hundred reasons', async () => {
      const queue = await fresh();
      const ids = Array.from({ length: 103 }, (_, index) => `${index}`);
      await publishAll(queue, ids);
      const inbox = openInbox(queue);
      for (const delivery of await inbox.take(ids.length))
        await delivery.settle(discard(`reason ${delivery.message.id}`));
      const { reasons, total } = await queue.deadLetterReasons();
      expect(reasons).to.have.length(101);
      expect(reasons.at(-1)).to.deep.equal({ reason: null, count: 3, permanent: true });
      expect(total).to.equal(103);
    });

    it('are redriven by id, by reason, or all, in order and with no attempts counted', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      await discardAll(queue, 'aBcDeF');
      events.length = 0;
      expect(await queue.redriveAll({ ids: ['e', 'a', 'a', 'x', '__proto__'] })).to.deep.equal({
        count: 2,
        remaining: 0,
      });
      expect(await remainingIds(queue)).to.equal('BcDF');
      expect(queue.counts()).to.include({ accepted: 6, dead: 4, waiting: 2, bytes: 2 });
      expect(await queue.redriveAll({ reason: 'timeout' })).to.deep.equal({ count: 3, remaining: 0 });
      expect(await queue.redriveAll({ reason: 'timeout' })).to.deep.equal({ count: 0, remaining: 0 });
      expect(await queue.redriveAll({ all: true })).to.deep.equal({ count: 1, remaining: 0 });
      expect(queue.counts()).to.include({ accepted: 6, dead: 0, waiting: 6, dropped: 0 });
      const deliveries = await openInbox(queue).take(6);
      expect(idsOf(deliveries).sort()).to.deep.equal([...'BDFace']);
      for (const { attempt, crashes } of deliveries)
        expect({ attempt, crashes }).to.deep.equal({ attempt: 1, crashes: 0 });
      expect(events.filter(({ event }) => event === 'accepted')).to.have.length(6);
    });

    it('are purged by id, by reason, or all', async () => {
      const queue = await fresh();
      await discardAll(queue, 'aBcDeF');
      expect(await queue.purgeAll({ ids: ['a', 'a', 'x'] })).to.deep.equal({ count: 1, remaining: 0 });
      expect(await remainingIds(queue)).to.equal('BcDeF');
      expect(await queue.purgeAll({ reason: 'timeout' })).to.deep.equal({ count: 3, remaining: 0 });
      expect(await remainingIds(queue)).to.equal('ce');
      expect(await queue.purgeAll({ all: true })).to.deep.equal({ count: 2, remaining: 0 });
      expect(await queue.purgeAll({ all: true })).to.deep.equal({ count: 0, remaining: 0 });
      expect(queue.counts()).to.include({ accepted: 6, dead: 0, dropped: 6, waiting: 0 });
      expect(await queue.find('c')).to.equal(undefined);
    });

    it('that are purged are reported by events', async () => {
      const events: TaskEvent[] = [];
      const queue = await fresh({}, (event) => events.push(event));
      await discardAll(queue, 'abc');
      await queue.purge('a');
      await queue.purgeAll({ all: true });
      const purged = events.filter(({ event }) => event === 'purged').map(({ id }) => id);
      expect(purged.sort()).to.deep.equal(['a', 'b', 'c']);
    });

    it('fill the queue up to its bound, and the others stay', async () => {
      const queue = await fresh({ maxLength: 6 });
      await discardAll(queue, 'abcdef');
      await publishAll(queue, 'XYZ');
      expect(await queue.redriveAll({ all: true })).to.deep.equal({ count: 3, remaining: 3 });
      expect(await queue.redriveAll({ all: true })).to.deep.equal({ count: 0, remaining: 3 });
      expect(queue.counts()).to.include({ accepted: 9, dead: 3, waiting: 6 });
      expect(await remainingIds(queue)).to.have.length(3);
    });

    it('are each redriven or purged once by concurrent calls', async () => {
      const queue = await fresh();
      await discardAll(queue, 'abcdefgh');
      const results = await Promise.all([
        queue.redriveAll({ all: true }),
        queue.redriveAll({ all: true }),
        queue.redrive('a'),
        queue.redrive('h'),
      ]);
      const count = results.reduce(
        (sum, result) => sum + (typeof result === 'object' ? result.count : Number(result)),
        0,
      );
      // On several nodes, both calls may count a dead letter that they redrive at the same time.
      expect(count).to.be.at.least(8);
      expect(queue.counts()).to.include({ accepted: 8, dead: 0, waiting: 8 });
      expect(idsOf(await openInbox(queue).take(8)).sort()).to.deep.equal([...'abcdefgh']);
    });
  });
}

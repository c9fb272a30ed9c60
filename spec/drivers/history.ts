import { expect } from 'chai';
import type { DeadLetter, Progress } from '../../main/tasks/queue/queue.ts';
import { discard, type FreshQueue, lettersOf, openInbox, publishAll, type Reopen, retry } from './inbox.ts';

const reasonsOf = (found: Progress | DeadLetter | undefined) =>
  found !== undefined && 'history' in found && found.history.map(({ reason }) => reason);

/** Conformance specs of the history of failed attempts. */
export function describeHistory(fresh: FreshQueue, reopen?: Reopen): void {
  describe('the history of a message', () => {
    it('has the time and reason of each failed attempt, oldest first, in every state', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      const before = Date.now();
      await (await inbox.next()).settle({ ...retry(), reason: 'first' });
      const second = await inbox.next();
      expect(await queue.find('a')).to.include({ state: 'queued' });
      expect(reasonsOf(await queue.find('a'))).to.deep.equal(['first']);
      await second.markRunning();
      expect(await queue.find('a')).to.include({ state: 'running', attempt: 2 });
      expect(reasonsOf(await queue.find('a'))).to.deep.equal(['first']);
      await second.settle({ ...retry(20, 'crash'), reason: 'second' });
      expect(await queue.find('a')).to.include({ state: 'retrying' });
      expect(reasonsOf(await queue.find('a'))).to.deep.equal(['first', 'second']);
      await (await inbox.next()).settle({ kind: 'snooze', delayMs: 0, reason: 'not an attempt' });
      await (await inbox.next()).settle({ ...discard('third', 3), failure: 'transient' });
      const [letter] = await lettersOf(queue);
      expect(letter).to.include({ attempts: 3, permanent: false });
      expect(reasonsOf(letter)).to.deep.equal(['first', 'second', 'third']);
      const times = letter?.history.map(({ at }) => at) ?? [];
      expect(times).to.deep.equal(times.toSorted((one, other) => one - other));
      expect(times[0]).to.be.at.least(before);
      expect(times[2]).to.be.at.most(Date.now());
    });

    it('has the newest 20 attempts, each reason cut to 1000 characters', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      for (let attempt = 1; attempt <= 22; attempt++) {
        const reason = `${attempt} ${'ä'.repeat(2000)}`;
        await (await inbox.next()).settle({ ...retry(), reason });
      }
      await (await inbox.next()).settle(discard('last', 23));
      const [letter] = await lettersOf(queue);
      const history = letter?.history ?? [];
      // A driver may keep fewer attempts if their reasons are long.
      expect(history.length).to.be.within(5, 20);
      expect(history.at(-1)?.reason).to.equal('last');
      expect(history.at(-2)?.reason).to.equal(`22 ${'ä'.repeat(2000)}`.slice(0, 1000));
      expect(letter).to.include({ reason: 'last', attempts: 23 });
    });

    it('says of a dead letter whether its failure was permanent, and has no attempt that was not made', async () => {
      const queue = await fresh();
      await publishAll(queue, 'ab');
      const [a, b] = await openInbox(queue).take(2);
      await a?.settle(discard('bad data'));
      await b?.settle({ kind: 'discard', attempts: 0, reason: 'exhausted', failure: 'crash' });
      const letters = await lettersOf(queue);
      expect(letters.map(({ permanent }) => permanent)).to.deep.equal([true, false]);
      expect(letters.map(reasonsOf)).to.deep.equal([['bad data'], []]);
    });

    it('begins anew with a redrive, like the attempts', async () => {
      const queue = await fresh();
      await publishAll(queue, 'a');
      const inbox = openInbox(queue);
      await (await inbox.next()).settle(retry());
      await (await inbox.next()).settle(discard('no', 2));
      await queue.redrive('a');
      expect(reasonsOf(await queue.find('a'))).to.deep.equal([]);
      await (await inbox.next()).settle(discard('again'));
      expect(
        reasonsOf(await queue.find('a').then((found) => (found?.state === 'failed' ? found.letter : found))),
      ).to.deep.equal(['again']);
    });

    if (reopen !== undefined) {
      it('survives a restart', async () => {
        const queue = await fresh();
        await publishAll(queue, 'ab');
        const inbox = openInbox(queue);
        const [a, b] = await inbox.take(2);
        await a?.settle({ ...retry(60_000), reason: 'first' });
        await b?.settle(discard('bad data'));
        const [letter] = await lettersOf(queue);
        await queue.close();
        const after = await reopen(queue);
        expect(reasonsOf(await after.find('a'))).to.deep.equal(['first']);
        expect(await lettersOf(after)).to.deep.equal([letter]);
      });
    }
  });
}

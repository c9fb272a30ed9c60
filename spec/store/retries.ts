import { expect } from 'chai';
import { complete, discard, HOUR, type QueueTests, reasonsOf, release, retry, START } from './stage.ts';

/** Conformance specs of retries and of the history of failed attempts. */
export function describeRetries({ it }: QueueTests): void {
  describe('a retry', () => {
    it('is delivered when it is due, and not before', async (queue) => {
      await queue.publish('a');
      await queue.settle(await queue.next(), retry(START + 60));
      await queue.expectCounts({ retrying: 1, waiting: 0, inFlight: 0 });
      expect(await queue.store.take(5, true)).to.deep.equal({ deliveries: [], nextRunAt: START + 60 });
      queue.now = START + 59;
      expect(await queue.takeIds(5)).to.equal('');
      queue.now = START + 60;
      const numbers = { attempt: 2, crashes: 0, delivery: 2 };
      expect(await queue.next()).to.deep.include({ id: 'a', ...numbers });
    });

    it('does not overtake the backlog, and holds no place in it while it waits', async (queue) => {
      await queue.publish('abc');
      await queue.settle(await queue.next(), retry(START + 5));
      expect(await queue.takeIds(1)).to.equal('b');
      await queue.expectCounts({ retrying: 1, inFlight: 1, waiting: 1 });
      queue.now += 10;
      expect(await queue.takeIds(1)).to.equal('c');
      await queue.publish('d');
      expect(await queue.takeIds(5)).to.equal('ad');
    });

    it('counts attempts, and those that ended with a crash', async (queue) => {
      await queue.publish('a');
      const numbers: string[] = [];
      for (const failure of ['transient', 'crash', 'crash', 'transient', 'transient'] as const) {
        const delivery = await queue.next();
        numbers.push(`${delivery.attempt} ${delivery.crashes}`);
        await queue.settle(delivery, retry(queue.now, 'no', failure));
      }
      expect(numbers).to.deep.equal(['1 0', '2 0', '3 1', '4 2', '5 2']);
    });

    it('keeps times and reason of each failed attempt, oldest first, in every state', async (queue) => {
      await queue.publish('a');
      await queue.settle(await queue.next(), retry(START + 10, 'first'), { startedAt: START - 5, endedAt: START - 1 });
      const first = { attempts: 1, reason: 'first' };
      expect(await queue.message('a')).to.include({ state: 'retrying', ...first, runAt: START + 10 });
      queue.now += 10;
      const second = await queue.next();
      const [attempt] = second.history.attempts;
      expect(attempt).to.deep.include({ startedAt: START - 5, endedAt: START - 1, reason: 'first' });
      expect(await queue.message('a')).to.include({ state: 'running', ...first });
      queue.now += 10;
      await queue.settle(second, retry(queue.now, 'second', 'crash'));
      await queue.settle(await queue.next(), release);
      expect(reasonsOf(await queue.message('a'))).to.deep.equal(['first', 'second']);
      queue.now += 10;
      await queue.settle(await queue.next(), discard('third'));
      const { history, ...letter } = await queue.message('a');
      expect(letter).to.include({ state: 'failed', attempts: 3, reason: 'third' });
      expect(reasonsOf({ history })).to.deep.equal(['first', 'second', 'third']);
      expect(history.attempts.map(({ endedAt }) => endedAt - START)).to.deep.equal([-1, 20, 30]);
    });

    it('keeps the newest 20 attempts, each reason cut to 1000 characters, and the newest five stacks', async (queue) => {
      await queue.publish('a');
      for (let attempt = 1; attempt <= 22; attempt++) {
        const reason = `${attempt} ${'ä'.repeat(2000)}`;
        await queue.settle(await queue.next(), { ...retry(queue.now, reason), stack: `stack ${attempt}` });
      }
      await queue.settle(await queue.next(), discard('last'));
      const { attempts, ...letter } = await queue.message('a');
      const reasons = reasonsOf(letter);
      expect([attempts, reasons.length, reasons.at(-1)]).to.deep.equal([23, 20, 'last']);
      expect(reasons.at(-2)).to.equal(`22 ${'ä'.repeat(997)}`);
      expect(reasons[0]?.slice(0, 3)).to.equal('4 ä');
      const stacks = letter.history.attempts.map(({ stack }) => stack);
      expect(stacks.slice(-6)).to.deep.equal([
        undefined,
        ...[19, 20, 21, 22].map((each) => `stack ${each}`),
        undefined,
      ]);
    });

    it('counts the bytes of reason and history', async (queue) => {
      await queue.publish('ab');
      const { bytes } = await queue.store.counts();
      await queue.settle(await queue.next(), retry(queue.now + HOUR, '€'.repeat(100)));
      const after = (await queue.store.counts()).bytes;
      expect(after - bytes).to.be.within(600, 800);
      queue.now += HOUR;
      await queue.settleAll(await queue.takeAll(2), complete());
      await queue.expectCounts({ bytes: 0 });
    });
  });

  describe('a clock that is set back between two runs', () => {
    it('delays a retry by no more than a day', async (queue) => {
      await queue.publish('a');
      await queue.settle(await queue.next(), retry(START + HOUR));
      queue.now = START - 1000 * HOUR;
      await queue.restart();
      expect((await queue.message('a')).runAt).to.equal(queue.now + 24 * HOUR);
    });

    it('delays no message that has not failed, and keeps the order', async (queue) => {
      await queue.publish('ab');
      queue.now += 1000;
      await queue.publish('c');
      await queue.settle(await queue.next(), release);
      queue.now = START - HOUR;
      await queue.restart();
      await queue.publish('d');
      await queue.expectCounts({ waiting: 4, retrying: 0 });
      expect(await queue.takeIds(5)).to.equal('abcd');
    });
  });
}

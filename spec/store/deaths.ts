import { expect } from 'chai';
import { NO_ATTEMPTS, PROCESS_DIED } from '../../db/attempt-history.ts';
import { complete, discard, HOUR, type QueueTests, reasonsOf, release, retry, type TestQueue } from './stage.ts';

/** No less than the longest time for which a suspect waits while other messages are due. */
const SUSPECT_WAIT_MS = 10_000;

/** Takes all messages and lets the process die, `times` times. Suspects are taken alone. */
async function dieWithAll(queue: TestQueue, times: number): Promise<void> {
  for (let time = 0; time < times; time++) {
    await queue.take(100, true);
    await queue.die();
  }
}

/** Conformance specs of messages whose process died. */
export function describeDeaths({ it }: QueueTests): void {
  describe('after the death of its process', () => {
    it('delivers what was running again, in its place, and charges no attempt', async (queue) => {
      await queue.publish('abc');
      await queue.settle(await queue.next(), retry(queue.now));
      expect(await queue.takeIds(3)).to.equal('bca');
      await queue.die();
      const [b, c, a] = await queue.takeAll(3);
      expect(a).to.deep.include({ id: 'a', attempt: 2, crashes: 0, isSuspect: false, delivery: 3 });
      expect(b).to.deep.include({ id: 'b', attempt: 1, crashes: 0, isSuspect: false, history: NO_ATTEMPTS });
      expect(c).to.deep.include({ id: 'c', attempt: 1, crashes: 0, isSuspect: false, delivery: 2 });
    });

    it('takes no settlement of the process before, neither at once nor later', async (queue) => {
      await queue.publish('a');
      const former = await queue.next();
      await queue.die();
      const settleLate = async () => {
        for (const late of [complete('late'), retry(queue.now + HOUR), discard(), release])
          expect(await queue.settle(former, late), late.kind).to.equal('late');
      };
      await settleLate();
      const present = await queue.next();
      await settleLate();
      expect(await queue.settle(present, complete())).to.equal('applied');
      await queue.expectCounts({ dead: 0, waiting: 0, retrying: 0, inFlight: 0 });
    });

    it('deletes a message whose cancellation was requested', async (queue) => {
      await queue.publish('ab');
      await queue.take(2);
      expect(await queue.cancel('a')).to.equal('requested');
      await queue.die();
      expect(await queue.store.find('a')).to.equal(undefined);
      expect(await queue.takeIds(5)).to.equal('b');
      await queue.expectCounts({ waiting: 0, inFlight: 1, dead: 0 });
    });
  });

  describe('after two deaths', () => {
    it('takes a suspect in an empty window, alone, and nothing beside it', async (queue) => {
      await queue.publish('ab');
      await dieWithAll(queue, 2);
      await queue.publish('c');
      await queue.expectCounts({ waiting: 3 });
      const c = await queue.next();
      expect(c.id).to.equal('c');
      expect(await queue.takeIds(5)).to.equal('');
      await queue.settle(c, complete());
      for (const id of 'ab') {
        expect(await queue.takeIds(5, false)).to.equal('');
        const [suspect, ...others] = await queue.take(5, true);
        expect(suspect).to.include({ id, isSuspect: true, attempt: 1, crashes: 0 });
        expect(others).to.deep.equal([]);
        if (id === 'a') await queue.publish('d');
        for (const isIdle of [false, true]) expect(await queue.takeIds(5, isIdle)).to.equal('');
        if (suspect) await queue.settle(suspect, complete());
        if (id === 'a') await queue.settle(await queue.next(), complete());
      }
      await queue.expectCounts({ waiting: 0, inFlight: 0 });
    });

    it('takes a suspect that was limited, once its limit has room', async (queue) => {
      await queue.publish('ab');
      await dieWithAll(queue, 2);
      await queue.store.setLimits('sum', { concurrency: 1 }, 'api');
      await queue.restart();
      const a = await queue.next(true);
      expect(await queue.takeIds(5, true)).to.equal('');
      await queue.settle(a, complete());
      expect([a.id, await queue.takeIds(5, true)]).to.deep.equal(['a', 'b']);
    });

    it('takes a suspect in the end although others are due all the time', async (queue) => {
      await queue.publish('a');
      await dieWithAll(queue, 2);
      await queue.publish('b');
      queue.now += SUSPECT_WAIT_MS;
      // The window has to be drained first.
      expect(await queue.takeIds(5, false)).to.equal('');
      expect(await queue.takeIds(5, true)).to.equal('a');
    });

    it('suspects a message until an attempt has ended, even if it is released', async (queue) => {
      await queue.publish('a');
      await dieWithAll(queue, 2);
      await queue.settle(await queue.next(true), release);
      await queue.restart();
      const again = await queue.next(true);
      expect(again.isSuspect).to.equal(true);
      await queue.settle(again, retry(queue.now + 5));
      expect(await queue.takeIds(5, true)).to.equal('');
      queue.now += 5;
      expect((await queue.next()).isSuspect).to.equal(false);
      // Its deaths are counted from the beginning again.
      await queue.die();
      expect(await queue.next()).to.include({ isSuspect: false, attempt: 2 });
    });

    it('makes a message a dead letter with its third death, and charges a crash', async (queue) => {
      await queue.publish('ab');
      queue.now += 100;
      await dieWithAll(queue, 3);
      expect(await queue.letterIds()).to.equal('a');
      const letter = await queue.message('a');
      expect(letter).to.include({ attempts: 1, isPermanent: false, failedAt: queue.now });
      expect(reasonsOf(letter)).to.deep.equal([PROCESS_DIED]);
      expect(letter.history.attempts[0]?.endedAt).to.equal(queue.now);
      expect(letter.reason).to.contain(PROCESS_DIED);
      await queue.expectCounts({ dead: 1, waiting: 1, inFlight: 0 });
      await queue.redrive({ all: true });
      expect(await queue.next()).to.include({ id: 'a', isSuspect: false, attempt: 1, crashes: 0 });
    });
  });
}

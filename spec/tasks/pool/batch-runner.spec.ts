import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { type BatchOutcome, BatchRunner } from '../../../main/tasks/pool/batch-runner.ts';
import type { Acknowledgement } from '../../../workers/messages.ts';
import { captureLog } from '../../support/log.ts';
import { limits, startRunner, threadFile } from './running.ts';

async function startFailure(file: string, threads = 2): Promise<Error> {
  const { log } = captureLog();
  const abortChannel = randomUUID();
  return BatchRunner.start({ file: threadFile(file), ...limits, threads, workerData: {}, abortChannel, log }).then(
    async (runner) => {
      await runner.destroy();
      throw new Error('the threads started');
    },
    (error) => error,
  );
}

describe('BatchRunner', () => {
  describe('starting', () => {
    it('starts only once every thread has responded', async () => {
      const { runner, run, lines } = await startRunner({ threads: 3 });
      expect(runner.threads).to.equal(3);
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
      expect(lines).to.deep.equal([]);
    });

    it('says why a file cannot be loaded, and leaves nothing running', async () => {
      const { message } = await startFailure('raises-on-load');
      expect(message).to.equal('the task threads do not start: this file cannot be loaded');
    });

    it('says so when the file is not there', async () => {
      expect((await startFailure('not-there')).message).to.match(/^the task threads do not start: .*not-there/);
    });

    it('says so when the file has no function to run', async () => {
      expect((await startFailure('exports-nothing')).message).to.match(/^the task threads do not start: .+/);
    });

    it('says so when a thread ends while it loads', async () => {
      expect((await startFailure('exits-on-load')).message).to.match(/^the task threads do not start: .+/);
    });
  });

  describe('running a task', () => {
    const outcomes: Record<string, BatchOutcome> = {
      return: { ended: 'returned' },
      'return later': { ended: 'returned' },
      'nack, then return': { ended: 'returned', settled: 'nack' },
      'ack, then nack': { ended: 'returned', settled: 'ack' },
      'ack, then raise': { ended: 'raised', settled: 'ack', reason: 'after the ack', permanent: false },
      raise: { ended: 'raised', reason: 'it failed', permanent: false },
      'raise later': { ended: 'raised', reason: 'it failed later', permanent: false },
      'raise for good': { ended: 'raised', reason: 'it will never work', permanent: true },
      'raise null': { ended: 'raised', reason: 'null', permanent: false },
      'raise undefined': { ended: 'raised', reason: 'undefined', permanent: false },
      'raise text': { ended: 'raised', reason: 'just text', permanent: false },
    };
    for (const [action, outcome] of Object.entries(outcomes)) {
      it(`tells the end of one that does: ${action}`, async () => {
        const { run } = await startRunner();
        expect(await run(action)).to.deep.equal(outcome);
        expect(await run('return')).to.deep.equal({ ended: 'returned' });
      });
    }

    for (const action of ['raise what has no text', 'raise what cannot be copied']) {
      it(`does not take one for a crash that does: ${action}`, async () => {
        const { run } = await startRunner();
        expect(await run(action)).to.include({ ended: 'raised', permanent: false });
        expect(await run('return')).to.deep.equal({ ended: 'returned' });
      });
    }

    it('reports an early settlement while the handler still runs', async () => {
      for (const settlement of ['ack', 'nack'] as const) {
        const { run, gate } = await startRunner();
        const settled = Promise.withResolvers<Acknowledgement>();
        let ended = false;
        const outcome = run(`${settlement}, then wait`, settled.resolve).finally(() => {
          ended = true;
        });
        expect(await settled.promise).to.equal(settlement);
        await gate.begun(1);
        expect(ended).to.equal(false);
        gate.open();
        expect(await outcome).to.deep.equal({ ended: 'returned', settled: settlement });
      }
    });

    it('reports a settlement at most once, to its own task, and again with the outcome', async () => {
      const { run } = await startRunner({ threads: 2 });
      const settlements: string[] = [];
      const [outcome, other] = await Promise.all([
        run('ack, then nack', (settlement) => settlements.push(settlement)),
        run('return', () => settlements.push('of the other')),
      ]);
      expect(outcome).to.deep.equal({ ended: 'returned', settled: 'ack' });
      expect(other).to.deep.equal({ ended: 'returned' });
      // The outcome may overtake the settlement, which is then not reported separately.
      expect(settlements)
        .to.satisfy(({ length }: string[]) => length <= 1)
        .and.not.include('of the other');
    });

    it('runs as many batches at once as it has threads, and no more', async () => {
      const { run, give, gate } = await startRunner({ threads: 2 });
      const both = [run('wait'), run('wait')];
      await gate.begun(2);
      expect(() => give(['return'])).to.throw('no thread is free');
      gate.open();
      expect(await Promise.all(both)).to.deep.equal(Array(2).fill({ ended: 'returned' }));
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
    });

    it('tells how many tasks of a batch its thread has started', async () => {
      const { give, gate } = await startRunner();
      const { outcomes, started } = give(['return', 'wait', 'return']);
      await gate.begun(1);
      expect(started()).to.equal(2);
      gate.open();
      await outcomes;
      expect(started()).to.equal(3);
    });
  });

  describe('reclaiming', () => {
    it('returns the tasks that its thread has not started, and completes the rest', async () => {
      const { give, gate, run } = await startRunner();
      const { outcomes, reclaim } = give(['return', 'wait', 'exit', 'exit']);
      await gate.begun(1);
      expect(reclaim()).to.equal(2);
      expect(reclaim()).to.equal(2);
      gate.open();
      expect(await outcomes).to.deep.equal(Array(2).fill({ ended: 'returned' }));
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
    });

    it('returns no task of a completed batch, and none of the thread’s next batch', async () => {
      const { give, gate } = await startRunner();
      const ended = give(['return', 'return']);
      await ended.outcomes;
      const running = give(['wait', 'return']);
      await gate.begun(1);
      expect(ended.reclaim()).to.equal(2);
      gate.open();
      expect(await running.outcomes).to.deep.equal(Array(2).fill({ ended: 'returned' }));
    });

    it('counts a crash for the only task that it kept if its thread dies', async () => {
      const { give, gate } = await startRunner();
      const { outcomes, reclaim } = give(['ack, then exit', 'return', 'return']);
      await gate.begun(1);
      expect(reclaim()).to.equal(1);
      gate.open();
      expect((await outcomes).map(({ ended }) => ended)).to.deep.equal(['crashed']);
    });

    it('counts a crash for the only task that it kept if its thread dies while storing the row', async () => {
      const { give, gate } = await startRunner({ file: 'exits-on-store' });
      const { outcomes, reclaim } = give(['wait', 'return', 'return']);
      await gate.begun(1);
      expect(reclaim()).to.equal(1);
      gate.open();
      expect((await outcomes).map(({ ended }) => ended)).to.deep.equal(['crashed']);
    });
  });

  describe('destroyed', () => {
    it('ends what runs as interrupted', async () => {
      const { runner, run, gate } = await startRunner();
      const outcome = run('wait');
      await gate.begun(1);
      await runner.destroy();
      expect(await outcome).to.deep.equal({ ended: 'interrupted', reason: 'thread stopped', suspect: false });
    });

    it('interrupts what comes afterwards, and may be taken down again', async () => {
      const { runner, run } = await startRunner();
      await runner.destroy();
      await runner.destroy();
      expect(await run('return')).to.include({ ended: 'interrupted' });
    });
  });
});

import { expect } from 'chai';
import type { Acknowledgement } from '../../../workers/messages.ts';
import type { SecondLoad } from '../../support/task-threads/fails-second-load.ts';
import { until } from '../../support/until.ts';
import { startRunner, watchThreads } from './running.ts';

/** Starts a runner. The returned function waits for the duration of the task timeout. */
async function startTimedRunner(timeoutMs: number): Promise<() => Promise<void>> {
  const { run } = await startRunner({ timeoutMs });
  return async () => {
    expect(await run('never end')).to.deep.equal({ ended: 'crashed', reason: `took longer than ${timeoutMs} ms` });
  };
}

describe('BatchRunner', () => {
  describe('when a thread dies', () => {
    for (const action of ['exit', 'exit as if all were well', 'raise outside']) {
      it(`tells a crash and works on, after: ${action}`, async () => {
        const { run } = await startRunner();
        const outcome = await run(action);
        expect(outcome).to.include({ ended: 'crashed' });
        expect(outcome)
          .to.have.property('reason')
          .that.matches(/^thread died: .+/);
        expect(await run('return')).to.deep.equal({ ended: 'returned' });
      });
    }

    it('leaves the task of the other thread unharmed', async () => {
      const { run, gate } = await startRunner({ threads: 2 });
      const other = run('wait');
      await gate.begun(1);
      expect(await run('exit')).to.include({ ended: 'crashed' });
      gate.open();
      expect(await other).to.deep.equal({ ended: 'returned' });
    });

    it('has all its threads again afterwards', async () => {
      const { run, gate } = await startRunner({ threads: 2 });
      await Promise.all([run('exit'), run('exit')]);
      const both = [run('wait'), run('wait')];
      await gate.begun(2);
      gate.open();
      expect(await Promise.all(both)).to.deep.equal(Array(2).fill({ ended: 'returned' }));
    });

    it('has reported a settlement that preceded the crash', async () => {
      const { run, gate } = await startRunner();
      const settled = Promise.withResolvers<Acknowledgement>();
      const outcome = run('ack, then exit', settled.resolve);
      expect(await settled.promise).to.equal('ack');
      gate.open();
      expect(await outcome).to.include({ ended: 'crashed' });
    });

    for (const fails of ['by an error', 'by its end'] as const) {
      it(`starts afresh when a new thread fails to load ${fails}`, async () => {
        const workerData: SecondLoad = { starts: new SharedArrayBuffer(8), fails };
        const { run } = await startRunner({ file: 'fails-second-load', workerData });
        expect(await run('')).to.include({ ended: 'crashed' });
        // The task queued for the thread that failed to load may be interrupted, but must settle.
        expect(await run(''))
          .to.have.property('ended')
          .that.is.oneOf(['interrupted', 'returned']);
        expect(await run('')).to.deep.equal({ ended: 'returned' });
        expect(new Int32Array(workerData.starts)[0]).to.equal(3);
      });
    }

    it('starts afresh when a new thread does not load in time, and says so meanwhile', async () => {
      const workerData = { starts: new SharedArrayBuffer(4) };
      const options = { file: 'loads-at-gate', workerData, startTimeoutMs: 2000 };
      const { runner, run, gate, lines } = await startRunner(options);
      expect(await run('')).to.include({ ended: 'crashed' });
      const waiting = run('');
      await gate.begun(1);
      expect(runner.serving).to.equal(true);
      await until(() => !runner.serving);
      gate.open();
      expect(await waiting).to.deep.equal({ ended: 'interrupted', reason: 'thread stopped', suspect: false });
      expect(await run('')).to.deep.equal({ ended: 'returned' });
      expect(runner.serving).to.equal(true);
      expect(lines[0]?.msg).to.equal('the task threads do not start: all are replaced');
    });

    it('replaces a thread that is blocked while idle, and counts no crash for the task sent to it', async () => {
      const watched = watchThreads();
      const { run, gate, lines } = await startRunner({ threads: 2, startTimeoutMs: 2000 });
      expect(await run('return, then block')).to.deep.equal({ ended: 'returned' });
      await gate.begun(1);
      const sent = run('return');
      const other = run('wait');
      await gate.begun(2);
      expect(await sent).to.deep.equal({ ended: 'interrupted', reason: 'the thread was blocked', suspect: false });
      expect(lines.map(({ msg }) => msg)).to.deep.equal(['a blocked task thread is replaced']);
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
      expect(watched.threads).to.have.length(3);
      await until(() => watched.ended === 1);
      gate.open();
      expect(await other).to.deep.equal({ ended: 'returned' });
    });

    it('replaces a thread that dies while it has nothing to do', async () => {
      const { threads } = watchThreads();
      const { run } = await startRunner();
      const before = await run('tell the thread');
      await threads[0]?.terminate();
      const after = await run('tell the thread');
      expect(after).to.include({ ended: 'raised' });
      expect(after).to.not.deep.equal(before);
      expect(threads).to.have.length(2);
    });
  });

  describe('with a task that', () => {
    it('hangs: ends its thread, and no other one', async () => {
      const watched = watchThreads();
      const { run } = await startRunner({ threads: 2, timeoutMs: 200 });
      const hangs = run('hang');
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
      expect(await hangs).to.deep.equal({ ended: 'crashed', reason: 'took longer than 200 ms' });
      await until(() => watched.threads.length === 3);
      const both = await Promise.all([run('return'), run('return')]);
      expect(both).to.deep.equal(Array(2).fill({ ended: 'returned' }));
      expect(watched.ended).to.equal(1);
    });

    it('waits forever: ends its thread, too', async () => {
      const { run } = await startRunner({ timeoutMs: 200 });
      expect(await run('never end')).to.deep.equal({ ended: 'crashed', reason: 'took longer than 200 ms' });
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
    });

    it('hangs, in a batch: counts a crash for that one, and for no task before or after it', async () => {
      const { runAll } = await startRunner({ timeoutMs: 200 });
      const innocent = { ended: 'interrupted', reason: 'took longer than 200 ms', suspect: false };
      expect(await runAll(['return', 'hang', 'return'])).to.deep.equal([
        innocent,
        { ended: 'crashed', reason: 'took longer than 200 ms' },
        innocent,
      ]);
    });

    it('ends its thread, in a batch: counts a crash for that one', async () => {
      const { runAll } = await startRunner();
      const outcomes = await runAll(['raise', 'return later', 'exit', 'return']);
      expect(outcomes.map(({ ended }) => ended)).to.deep.equal([
        'interrupted',
        'interrupted',
        'crashed',
        'interrupted',
      ]);
      expect(outcomes.some((outcome) => 'suspect' in outcome && outcome.suspect)).to.equal(false);
    });

    for (const [count, expected] of [
      [1, [['crashed', undefined]]],
      [
        2,
        [
          ['interrupted', true],
          ['interrupted', true],
        ],
      ],
    ] as const) {
      it(`ends its thread while rows are stored: suspects all of ${count}`, async () => {
        const { runAll } = await startRunner({ file: 'exits-on-store' });
        const outcomes = await runAll(Array(count).fill('return'));
        expect(
          outcomes.map((outcome) => [outcome.ended, 'suspect' in outcome ? outcome.suspect : undefined]),
        ).to.deep.equal(expected);
      });
    }

    it('belongs to a batch that takes longer than the timeout: is not treated as hanging', async () => {
      const { runAll } = await startRunner({ timeoutMs: 1000 });
      const outcomes = await runAll(Array(11).fill('take 100 ms'));
      expect(outcomes).to.deep.equal(Array(11).fill({ ended: 'returned' }));
    });

    it('is claimed by a terminated thread: its whole batch is released, with no crash counted', async () => {
      const { runAll } = await startRunner({ file: 'claims-less' });
      const reason = 'a task of the batch was claimed by another thread';
      expect(await runAll(['return', 'return'])).to.deep.equal(
        Array(2).fill({ ended: 'interrupted', reason, suspect: false }),
      );
    });

    it('has its row stored slowly: is not timed out', async () => {
      const outlastLimit = await startTimedRunner(200);
      const { runAll, gate } = await startRunner({ file: 'stores-slowly', timeoutMs: 200 });
      const outcomes = runAll(Array(2).fill('return'));
      await gate.begun(1);
      await outlastLimit();
      gate.open();
      expect(await outcomes).to.deep.equal(Array(2).fill({ ended: 'returned' }));
    });

    it('waits for a thread: does not count that', async () => {
      const outlastLimit = await startTimedRunner(200);
      const workerData = { starts: new SharedArrayBuffer(4) };
      const { run, gate } = await startRunner({ file: 'loads-at-gate', timeoutMs: 200, workerData });
      expect(await run('')).to.include({ ended: 'crashed' });
      const waiting = run('');
      await gate.begun(1);
      await outlastLimit();
      gate.open();
      expect(await waiting).to.deep.equal({ ended: 'returned' });
    });

    it('eats memory: ends its thread, and no other one', async () => {
      const { run, gate } = await startRunner({ threads: 2, memoryMb: 32 });
      const innocent = run('wait');
      await gate.begun(1);
      const outcome = await run('eat memory');
      expect(outcome).to.include({ ended: 'crashed' });
      expect(outcome)
        .to.have.property('reason')
        .that.matches(/^thread died: .*memory limit/);
      gate.open();
      expect(await innocent).to.deep.equal({ ended: 'returned' });
      expect(await run('return')).to.deep.equal({ ended: 'returned' });
    });
  });
});

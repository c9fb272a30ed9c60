import { mock } from 'node:test';
import { expect } from 'chai';
import { died, nextTurn, returned, startPool } from './pooling.ts';

const never = new Promise<void>(() => {});

describe('WorkerPool', () => {
  describe('checking a batch that takes long', () => {
    beforeEach(() => mock.timers.enable({ apis: ['setInterval'] }));
    afterEach(() => mock.timers.reset());

    const check = async () => {
      mock.timers.tick(5);
      await nextTurn();
    };

    it('gives what a worker has not started to an idle one, ahead of what waits', async () => {
      const { runner, run, end, ended } = startPool();
      await run('abc');
      await run('d');
      Object.assign(runner.batches[0] as object, { started: 1 });
      await check();
      expect(runner.given).to.deep.equal(['abc', 'd']);
      await end(1);
      await check();
      expect(runner.given).to.deep.equal(['a', 'd', 'bc']);
      await end(2);
      await end(0);
      expect(Object.keys(ended)).to.have.members([...'abcd']);
    });

    it('reports what a worker has started: the first one at once, the others at a check, or with their end', async () => {
      const { runner, run, end, started } = startPool({ threads: 1 });
      await run('abc');
      const [batch] = runner.batches;
      Object.assign(batch as object, { started: 1 });
      expect(started).to.deep.equal(['a']);
      await check();
      expect(started).to.deep.equal(['a']);
      Object.assign(batch as object, { started: 2 });
      await check();
      await check();
      expect(started).to.deep.equal(['a', 'b']);
      await end(0);
      expect(started).to.deep.equal(['a', 'b', 'c']);
    });
  });

  describe('when a handler settles its delivery before it ends', () => {
    it('tells that at once, though the worker is still busy', async () => {
      const { runner, run, ended, pool } = startPool({ threads: 1 });
      await run('ab');
      runner.tasks[0]?.settle('ack');
      runner.tasks[1]?.settle('nack');
      await nextTurn();
      expect(ended).to.deep.equal({
        a: { ended: 'returned' },
        b: { ended: 'raised', reason: 'negatively acknowledged by its handler', permanent: false },
      });
      expect(pool.busy).to.equal(1);
    });

    for (const outcome of [
      returned,
      died,
      { ended: 'raised', reason: 'no', permanent: true },
      { ended: 'interrupted', reason: 'thread died', suspect: true },
    ] as const) {
      it(`keeps to that, and does not run it again, when it ${outcome.ended} afterwards`, async () => {
        const { runner, run, end, ended, started } = startPool();
        await run('a');
        runner.tasks[0]?.settle('ack');
        await end(0, outcome);
        expect(ended).to.deep.equal({ a: { ended: 'returned' } });
        expect(runner.given).to.deep.equal(['a']);
        expect(started).to.deep.equal(['a']);
      });
    }

    it('keeps to what comes with the end, when that comes first', async () => {
      const { run, end, ended } = startPool();
      await run('abc');
      await end(
        0,
        { ended: 'returned', settled: 'nack' },
        { ended: 'raised', reason: 'no', permanent: true, settled: 'ack' },
        { ended: 'unstored', reason: 'disk full', settled: 'ack' },
      );
      expect(ended.a).to.include({ ended: 'raised', permanent: false });
      expect(ended.b).to.deep.equal({ ended: 'returned' });
      expect(ended.c).to.deep.equal({ ended: 'returned' });
    });
  });

  it('reports the progress of a running delivery', async () => {
    const { runner, run, progress } = startPool();
    await run('ab');
    runner.tasks[1]?.report({ fraction: 0.5, note: 'half' });
    expect(progress).to.deep.equal([{ id: 'b', fraction: 0.5, note: 'half' }]);
  });

  it('releases a delivery whose handler threw because of the shutdown, unless the handler had settled it', async () => {
    const { pool, run, ended, runner } = startPool();
    await run('abc');
    const stopped = pool.stop(never);
    expect(runner.aborts).to.deep.equal([{ delivery: 'all', reason: 'shutdown' }]);
    const interrupted = { ended: 'interrupted', reason: 'shutdown', suspect: false } as const;
    runner.end(0, interrupted, { ...interrupted, settled: 'ack' }, returned);
    await stopped;
    expect(ended.a).to.include({ ended: 'interrupted' });
    expect([ended.b, ended.c]).to.deep.equal([returned, returned]);
    expect(runner.given).to.deep.equal(['abc']);
  });

  describe('releasing and stopping', () => {
    it('ends what no worker has, and nothing else', async () => {
      const { pool, run, ended, runner, end } = startPool({ threads: 1 });
      await run('a');
      await run('bc');
      pool.releaseWaiting();
      await nextTurn();
      expect(ended).to.have.all.keys('b', 'c');
      for (const outcome of Object.values(ended)) expect(outcome.ended).to.equal('interrupted');
      await end(0);
      expect(ended.a).to.deep.equal({ ended: 'returned' });
      expect(runner.given).to.deep.equal(['a']);
    });

    it('stops when all running handlers have ended, even settled ones, and starts nothing more', async () => {
      const { pool, run, ended, runner } = startPool({ threads: 1 });
      await run('a');
      await run('b');
      runner.tasks[0]?.settle('ack');
      let isStopped = false;
      const stopped = pool.stop(never).then(() => {
        isStopped = true;
      });
      await run('c');
      expect(isStopped).to.equal(false);
      expect([ended.b?.ended, ended.c?.ended]).to.deep.equal(['interrupted', 'interrupted']);
      runner.end(0);
      await stopped;
      expect(runner.given).to.deep.equal(['a']);
      await pool.stop(never);
    });

    it('ends what still runs at the deadline as interrupted', async () => {
      const { pool, run, ended, runner } = startPool();
      await run('abcd');
      await pool.stop(Promise.resolve());
      expect(runner.given).to.deep.equal(['abc', 'd']);
      await nextTurn();
      expect(Object.values(ended).map((outcome) => outcome.ended)).to.deep.equal(Array(4).fill('interrupted'));
    });
  });
});

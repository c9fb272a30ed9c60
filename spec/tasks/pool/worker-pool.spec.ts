import { expect } from 'chai';
import type { BatchOutcome } from '../../../main/tasks/pool/batch-runner.ts';
import { died, nextTurn, returned, startPool } from './pooling.ts';

describe('WorkerPool', () => {
  describe('forming batches', () => {
    it('gives deliveries that arrive in one turn to one idle worker, no more than a batch takes', async () => {
      const { runner, run, end, pool } = startPool();
      await run('abcde');
      expect(runner.given).to.deep.equal(['abc', 'de']);
      expect(pool.busy).to.equal(2);
      await run('fghi');
      expect(runner.given).to.have.length(2);
      await end(1);
      expect(runner.given).to.deep.equal(['abc', 'de', 'fgh']);
      await end(0);
      await end(2);
      expect(runner.given.at(-1)).to.equal('i');
      await end(3);
      expect(pool.busy).to.equal(0);
    });

    it('tells the outcome of each', async () => {
      const { run, end, ended } = startPool();
      await run('abc');
      await end(0, returned, { ended: 'raised', reason: 'no', permanent: true }, { ended: 'unstored', reason: 'full' });
      expect(ended).to.deep.equal({
        a: { ended: 'returned' },
        b: { ended: 'raised', reason: 'no', permanent: true },
        c: { ended: 'unstored', reason: 'full' },
      });
    });

    it('runs one that has crashed in a batch of its own, between others', async () => {
      const { runner, run, end } = startPool({ threads: 1 });
      await run('a');
      await run('bc');
      await run('d', { crashes: 1 });
      await run('ef');
      for (const batch of [0, 1, 2, 3]) await end(batch);
      expect(runner.given).to.deep.equal(['a', 'bc', 'd', 'ef']);
    });
  });

  describe('with suspects of a dead process', () => {
    it('runs each all alone, and nothing else meanwhile', async () => {
      const { runner, run, end, pool } = startPool();
      await run('ab', { suspect: true });
      await run('cd');
      for (const batch of [0, 1]) {
        expect(runner.given).to.have.length(batch + 1);
        expect(pool.busy).to.equal(1);
        await end(batch);
      }
      expect(runner.given).to.deep.equal(['a', 'b', 'cd']);
    });

    it('runs one all alone that is not the first in line', async () => {
      const { runner, run, end, pool } = startPool();
      await run('a');
      await run('b');
      await run('c');
      await run('d', { suspect: true });
      await run('e');
      await end(0);
      expect(runner.given).to.deep.equal(['a', 'b', 'c']);
      await end(1);
      expect(runner.given).to.deep.equal(['a', 'b', 'c']);
      await end(2);
      expect(runner.given).to.deep.equal(['a', 'b', 'c', 'd']);
      expect(pool.busy).to.equal(1);
      await end(3);
      expect(runner.given.at(-1)).to.equal('e');
    });

    it('starts one only when that is recorded, and not at all when it cannot be', async () => {
      const { runner, run, end, ended } = startPool();
      const recording = Promise.withResolvers<void>();
      await run('a', { suspect: true }, () => recording.promise);
      expect(runner.given).to.deep.equal([]);
      recording.resolve();
      await nextTurn();
      expect(runner.given).to.deep.equal(['a']);
      await end(0);
      await run('b', { suspect: true }, () => Promise.reject(new Error('disk full')));
      expect(ended.b).to.deep.equal({ ended: 'unstored', reason: 'the queue cannot write: Error: disk full' });
      expect(runner.given).to.deep.equal(['a']);
    });
  });

  describe('when a thread dies', () => {
    it('runs interrupted tasks again in order, if they are no suspects', async () => {
      const { runner, run, end, ended } = startPool({ threads: 1 });
      await run('abc');
      await run('d');
      const innocent: BatchOutcome = { ended: 'interrupted', reason: 'thread died', suspect: false };
      await end(0, innocent, died, innocent);
      expect(ended).to.deep.equal({ b: { ended: 'crashed', reason: 'thread died' } });
      expect(runner.given).to.deep.equal(['abc', 'acd']);
      await end(1);
      expect(Object.keys(ended)).to.have.members([...'abcd']);
    });

    it('runs each alone, in a batch of its own, when any of them may have been the cause', async () => {
      const { runner, run, end, ended } = startPool({ threads: 1 });
      await run('abc');
      await run('de');
      await end(0, { ended: 'interrupted', reason: 'thread died', suspect: true });
      await end(1);
      await end(2, died);
      for (const batch of [3, 4]) await end(batch);
      expect(runner.given).to.deep.equal(['abc', 'a', 'b', 'c', 'de']);
      expect(ended.b).to.include({ ended: 'crashed' });
      // A new delivery of the same message is not a suspect.
      await run('abc');
      expect(runner.given.at(-1)).to.equal('abc');
    });
  });
});

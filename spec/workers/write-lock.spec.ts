import { once } from 'node:events';
import { threadId, Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { WriteLock } from '../../workers/write-lock.ts';
import { afterTest } from '../support/cleanup.ts';

const lockFile = JSON.stringify(new URL('../../workers/write-lock.ts', import.meta.url).href);

/** Starts a thread that runs `code` with `lock` and a counter, both in shared memory. */
function startThread(code: string, workerData: { lock: SharedArrayBuffer; count: SharedArrayBuffer }): Worker {
  const worker = new Worker(
    `const { workerData, parentPort } = require('node:worker_threads');
     import(${lockFile}).then(({ WriteLock }) => {
       const lock = new WriteLock(workerData.lock);
       const count = new Int32Array(workerData.count);
       ${code}
     });`,
    { eval: true, workerData },
  );
  afterTest(() => worker.terminate());
  return worker;
}

const share = () => ({ lock: new SharedArrayBuffer(4), count: new SharedArrayBuffer(8) });

describe('WriteLock', () => {
  it('admits one thread at a time', async () => {
    const shared = share();
    // Reads, waits a little, and writes, so that two overlapping threads lose a count. A thread that continued
    // without the lock, because its holder was off the CPU for too long, counts in another turn.
    const code = `
      const holder = new Int32Array(workerData.lock);
      const { threadId } = require('node:worker_threads');
      for (let counted = 0; counted < 2000; ) lock.run(() => {
        if (holder[0] !== threadId) return;
        const was = count[0];
        for (let j = 0; j < 200; j++);
        count[0] = was + 1;
        counted += 1;
      });`;
    const threads = [startThread(code, shared), startThread(code, shared), startThread(code, shared)];
    await Promise.all(threads.map((thread) => once(thread, 'exit')));
    expect(new Int32Array(shared.count)[0]).to.equal(6000);
    expect(new Int32Array(shared.lock)[0]).to.equal(0);
  });

  it('returns or throws like the callback, and releases the lock either way', () => {
    const shared = share();
    const lock = new WriteLock(shared.lock);
    const cell = new Int32Array(shared.lock);
    expect(lock.run(() => cell[0])).to.equal(threadId);
    expect(() =>
      lock.run(() => {
        throw new Error('it failed');
      }),
    ).to.throw('it failed');
    expect(cell[0]).to.equal(0);
  });

  it('is taken from a holder that keeps it too long, so that only one write waits for a dead thread', async () => {
    const shared = share();
    const cell = new Int32Array(shared.lock);
    const dead = startThread('lock.run(() => process.exit());', shared);
    const { threadId: deadId } = dead;
    await once(dead, 'exit');
    expect(cell[0]).to.equal(deadId);
    expect(new WriteLock(shared.lock).run(() => cell[0])).to.equal(threadId);
    expect(cell[0]).to.equal(0);
  });

  it('is not released by a thread from which it was taken', () => {
    const shared = share();
    const cell = new Int32Array(shared.lock);
    new WriteLock(shared.lock).run(() => {
      cell[0] = 12_345;
    });
    expect(cell[0]).to.equal(12_345);
  });
});

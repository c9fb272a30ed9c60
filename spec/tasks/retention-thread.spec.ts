import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { startRetentionThread } from '../../main/tasks/retention-thread.ts';
import { freshRows, range } from '../support/aged-rows.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const threadFile = (path: string) => new URL(`../support/${path}.ts`, import.meta.url);
const ENDED = 'the retention thread ended: it is restarted';

/** Prepares a thread over 50 existing rows. It keeps the newest ten. */
async function start() {
  const rows = await freshRows();
  rows.add(...range(1, 50).map((rowid) => ({ rowid })));
  const captured = captureLog();
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const { dataDir } = rows;
  const launch = (options: { file?: URL } = {}) => {
    const { log } = captured;
    const thread = startRetentionThread({ dataDir, rows: 10, days: 0, writeLock: cell.buffer, log, ...options });
    afterTest(() => thread.stop());
    return thread;
  };
  let launched = 0;
  const count = () => {
    launched += 1;
  };
  process.on('worker', count);
  afterTest(() => process.off('worker', count));
  /** Returns the number of threads started by the end of this event-loop turn. */
  const started = async () => {
    await new Promise(setImmediate);
    return launched;
  };
  return { ...rows, ...captured, cell, launch, started };
}

describe('the retention thread', () => {
  afterEach(() => mock.timers.reset());

  it('deletes what is beyond the limit, again and again', async () => {
    const { launch, add, rowids, lines } = await start();
    launch();
    await until(() => rowids().length === 10);
    expect(rowids()).to.deep.equal(range(41, 50));
    add({ rowid: 51 }, { rowid: 52 });
    await until(() => rowids().length === 10);
    expect(rowids()).to.deep.equal(range(43, 52));
    expect(lines).to.deep.equal([]);
  });

  it('checkpoints its writes from the write-ahead log into the file', async () => {
    const { launch, rowids, beside } = await start();
    launch();
    // Does not read rows, because a checkpoint cannot move pages that a reader still uses.
    const log = beside.prepare('PRAGMA wal_checkpoint(NOOP)');
    await until(() => {
      const { log: written, checkpointed } = log.get() as { log: number; checkpointed: number };
      return written === checkpointed;
    });
    expect(rowids()).to.have.lengthOf(10);
  });

  it('waits for the write lock', async () => {
    const { launch, add, rowids, cell } = await start();
    cell[0] = 12_345;
    launch();
    let next = 51;
    await until(() => {
      // The thread waits for 200 ms at most. If this test was too slow to observe the wait, more rows make it wait again.
      if (rowids().length === 10) {
        cell[0] = 12_345;
        add(...range(next, next + 39).map((rowid) => ({ rowid })));
        next += 40;
      }
      return Atomics.notify(cell, 0) === 1;
    });
    Atomics.store(cell, 0, 0);
    Atomics.notify(cell, 0);
    await until(() => rowids().length === 10);
    await until(() => Atomics.load(cell, 0) === 0);
  });

  it('leaves no thread when it is stopped, which may be asked for twice, and deletes no more', async () => {
    const { launch, add, rowids, lines } = await start();
    const thread = launch();
    await until(() => rowids().length === 10);
    await thread.stop();
    expect(lines).to.deep.equal([]);
    await thread.stop();
    await until(() => !process.getActiveResourcesInfo().includes('MessagePort'));
    add({ rowid: 51 });
    expect(rowids()).to.have.lengthOf(11);
  });

  it('is logged and restarted when it dies, with growing delays', async () => {
    const { launch, logged, lines, started } = await start();
    mock.timers.enable({ apis: ['setTimeout'] });
    const thread = launch({ file: threadFile('ticker-threads/fails') });
    const delays = [1000, 5000, 15_000, 60_000, 60_000];
    for (const [index, delay] of delays.entries()) {
      const ends = () => lines.filter(({ msg }) => msg === ENDED);
      await logged(() => ends().length === index + 1);
      expect(ends().at(-1)).to.include({ delayMs: delay });
      mock.timers.tick(delay - 1);
      expect(await started()).to.equal(index + 1);
      mock.timers.tick(1);
      expect(await started()).to.equal(index + 2);
    }
    expect(lines.find(({ msg }) => msg === 'the retention thread failed')?.err).to.include({
      message: 'this thread never loads',
    });
    expect(lines.find(({ msg }) => msg === ENDED)).to.include({ level: 50, code: 1, delayMs: 1000 });
    await thread.stop();
  });

  it('continues automatically when the database is back', async () => {
    const { launch, logged, rowids, dataDir } = await start();
    const path = join(dataDir, 'tasks.db');
    await rename(path, `${path}.away`);
    mock.timers.enable({ apis: ['setTimeout'] });
    launch();
    const { err } = await logged(({ msg }) => msg === 'the retention thread failed');
    expect((err as Error).message).to.match(/tasks\.db does not exist/);
    await logged(({ msg }) => msg === ENDED);
    await rename(`${path}.away`, path);
    mock.timers.tick(1000);
    await until(() => rowids().length === 10);
  });

  it('is not restarted after a stop', async () => {
    const { launch, logged, started } = await start();
    mock.timers.enable({ apis: ['setTimeout'] });
    const thread = launch({ file: threadFile('ticker-threads/fails') });
    await logged(({ msg }) => msg === ENDED);
    await thread.stop();
    mock.timers.tick(100_000);
    expect(await started()).to.equal(1);
  });

  it('takes over the write lock of a dead thread', async () => {
    const { launch, logged, rowids, cell } = await start();
    const dead = launch({ file: threadFile('retention-threads/dies-in-turn') });
    await logged(({ msg }) => msg === ENDED);
    await dead.stop();
    expect(Atomics.load(cell, 0)).to.not.equal(0);
    launch();
    await until(() => rowids().length === 10);
    await until(() => Atomics.load(cell, 0) === 0);
  });
});

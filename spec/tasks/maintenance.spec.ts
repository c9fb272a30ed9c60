import { statSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { createMaintenance } from '../../main/tasks/maintenance.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { freshRows, range } from '../support/store.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const ENDED = 'the maintenance thread ended: it is restarted';

/** Prepares a thread beside a connection that writes, and records when the thread holds the writes. */
async function start() {
  const rows = await freshRows();
  const path = join(rows.dataDir, 'tasks.db');
  rows.beside.exec('PRAGMA wal_autocheckpoint = 0');
  const captured = captureLog();
  const calls: string[] = [];
  const launch = ({ onHold, file }: { file?: URL; onHold?: () => void } = {}) => {
    const hold = () => {
      calls.push('hold');
      onHold?.();
    };
    const parts = { dataDir: rows.dataDir, hold, resume: () => calls.push('resume'), log: captured.log };
    const { start, stop, excessRows } = createMaintenance({ ...parts, ...(file && { file }) });
    afterTest(stop);
    start();
    return { stop, excessRows };
  };
  let arrival = 0;
  const write = (mebibytes: number) => {
    for (let time = 0; time < mebibytes; time++) rows.add({ arrival: ++arrival, bytes: MIB });
  };
  // Reads no rows, because a checkpoint cannot move pages that a reader still uses.
  const state = rows.beside.prepare('PRAGMA wal_checkpoint(NOOP)');
  const log = () => state.get() as { log: number; checkpointed: number };
  return { ...rows, ...captured, path, calls, launch, write, log };
}

describe('the maintenance thread', () => {
  it('restarts the log while writes are held, each time that it is long, and loses nothing', async () => {
    const { launch, write, calls, lines, path, left, beside } = await start();
    const sizes: number[] = [];
    launch({ onHold: () => sizes.push(statSync(`${path}-wal`).size) });
    for (let round = 1; round <= 2; round++) {
      write(40);
      await until(() => calls.length === 2 * round);
      expect(sizes.at(-1)).to.be.above(32 * MIB);
      expect(statSync(`${path}-wal`).size).to.be.below(MIB);
    }
    expect(calls).to.deep.equal(['hold', 'resume', 'hold', 'resume']);
    expect(lines).to.deep.equal([]);
    write(1);
    expect(left()).to.deep.equal(range(1, 81));
    expect(beside.prepare('PRAGMA integrity_check').get()).to.deep.equal({ integrity_check: 'ok' });
  });

  it('does not hold writes for a log that a long reader keeps', async () => {
    const { launch, write, log, calls, database } = await start();
    write(4);
    database.statement('BEGIN').run();
    database.statement('SELECT count(*) FROM tasks').get();
    write(36);
    let isReading = true;
    launch({ onHold: () => expect(isReading).to.equal(false) });
    await until(() => log().checkpointed > 0);
    expect(log().checkpointed).to.be.below(log().log / 2);
    expect(calls).to.deep.equal([]);
    isReading = false;
    database.statement('COMMIT').run();
    await until(() => calls.length === 2);
  });

  it('lets writes go on if it dies while they are held', async () => {
    const { launch, calls, logged } = await start();
    launch({ file: new URL('maintenance-threads/dies-while-held.ts', import.meta.url) });
    await logged(({ msg }) => msg === ENDED);
    expect(calls).to.deep.equal(['hold', 'resume']);
  });

  it('counts the rows beyond a number, after a restart if it died, and logs why', async () => {
    const { launch, add, path, logged, log } = await start();
    add(...range(1, 50).map((arrival) => ({ arrival })));
    await rename(path, `${path}.away`);
    mock.timers.enable({ apis: ['setTimeout'] });
    const maintenance = launch();
    const counting = maintenance.excessRows(20);
    const { err } = await logged(({ msg }) => msg === 'the maintenance thread failed');
    expect((err as Error).message).to.match(/tasks\.db does not exist/);
    expect(await logged(({ msg }) => msg === ENDED)).to.include({ level: 50, code: 1, delayMs: 0 });
    await rename(`${path}.away`, path);
    mock.timers.tick(1);
    expect(await counting).to.equal(30);
    expect(await maintenance.excessRows(60)).to.equal(0);
    expect(log().log).to.be.above(0);
  });

  it('keeps nobody waiting for a count when it is stopped, which may be asked for twice', async () => {
    const { launch, lines } = await start();
    const maintenance = launch();
    const counting = maintenance.excessRows(20);
    await maintenance.stop();
    expect(await counting).to.equal(0);
    expect(await maintenance.excessRows(20)).to.equal(0);
    await maintenance.stop();
    expect(lines).to.deep.equal([]);
  });
});

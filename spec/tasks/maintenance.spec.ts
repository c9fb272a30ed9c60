import { statSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { createMaintenance, startRetention } from '../../main/tasks/maintenance.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { freshRows, range } from '../support/store.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
const DAY = 86_400;
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
    expect([calls, lines]).to.deep.equal([['hold', 'resume', 'hold', 'resume'], []]);
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
    const file = new URL(`data:text/javascript,import { parentPort } from 'node:worker_threads';
      parentPort.once('message', () => { throw new Error('it died while writes were held'); });
      parentPort.postMessage({ topic: 'hold' });`);
    launch({ file });
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
    expect([await counting, await maintenance.excessRows(60)]).to.deep.equal([30, 0]);
    expect(log().log).to.be.above(0);
  });

  it('keeps nobody waiting for a count when it is stopped, which may be asked for twice', async () => {
    const { launch, lines } = await start();
    const maintenance = launch();
    const counting = maintenance.excessRows(20);
    await maintenance.stop();
    expect([await counting, await maintenance.excessRows(20)]).to.deep.equal([0, 0]);
    await maintenance.stop();
    expect(lines).to.deep.equal([]);
  });
});

/** Starts the retention over a store whose steps return these answers: whether more may be left, or an error. */
async function retain(
  answers: (boolean | Error)[],
  { stepMs = 0, ...limits }: { rows?: number; days?: number; stepMs?: number } = { rows: 1 },
) {
  const clock = new ManualClock(100 * DAY * 1000);
  const [asked, pauses]: [unknown[], number[]] = [[], []];
  const { log, lines } = captureLog();
  const sleep = clock.sleep.bind(clock);
  // Each pause but the last one has passed at once.
  clock.sleep = async (delayMs, signal) => {
    pauses.push(delayMs);
    if (answers.length === 0) await sleep(delayMs, signal);
  };
  const store = {
    async deleteOldRows(limit: unknown) {
      asked.push(limit);
      clock.advance(stepMs);
      clock.jump(DAY * 1000);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer ?? false;
    },
  };
  const retention = startRetention({ rows: 0, days: 0, ...limits, log, store, clock });
  afterTest(() => retention.stop());
  await until(() => answers.length === 0 && pauses.length === asked.length);
  return { asked, pauses, lines, retention };
}

describe('the retention', () => {
  it('gives the store the limits that are set, and does nothing without one', async () => {
    const before = 98 * DAY;
    expect((await retain([false], { rows: 7 })).asked).to.deep.equal([{ rows: 7, before: undefined }]);
    expect((await retain([false], { days: 2 })).asked).to.deep.equal([{ rows: undefined, before }]);
    expect((await retain([false], { rows: 7, days: 2 })).asked).to.deep.equal([{ rows: 7, before }]);
    expect((await retain([], {})).asked).to.deep.equal([]);
  });

  it('leaves two thirds of the time to others between the steps of a pass, at least a second after it, and 95 % if a search takes long', async () => {
    const { pauses } = await retain([true, true, false, true, false], { rows: 1, stepMs: 5 });
    expect(pauses).to.deep.equal([10, 10, 1000, 10, 1000]);
    expect((await retain([false], { rows: 1, stepMs: 400 })).pauses).to.deep.equal([8000]);
  });

  it('logs an error, and tries again after 15 s', async () => {
    const { pauses, lines } = await retain([new Error('database is locked'), false]);
    expect([pauses, lines.length]).to.deep.equal([[15_000, 1000], 1]);
    expect(lines[0]).to.include({ level: 50, msg: 'old rows cannot be deleted: retrying', delayMs: 15_000 });
    expect(lines[0]?.err).to.include({ message: 'database is locked' });
  });

  it('ends its pause when it is stopped, which may be asked for twice, and deletes no more', async () => {
    const { asked, retention } = await retain([false]);
    await retention.stop();
    await retention.stop();
    expect(asked).to.have.lengthOf(1);
  });

  it('waits for a running step when it is stopped, and begins no other one', async () => {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const steps: string[] = [];
    const deleteOldRows = () => {
      steps.push('begun');
      return promise.finally(() => steps.push('ended'));
    };
    const clock = new ManualClock();
    const retention = startRetention({ rows: 1, days: 0, log: captureLog().log, store: { deleteOldRows }, clock });
    void setImmediate().then(() => resolve(true));
    await retention.stop();
    expect([steps, clock.timers]).to.deep.equal([['begun', 'ended'], 0]);
  });
});

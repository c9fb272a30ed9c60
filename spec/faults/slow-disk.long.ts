import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { type Sight, startNeighbours, TICK_INTERVAL_MS } from '../hostile/neighbours.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { run, runCommand } from '../support/command.ts';
import { Ledger } from '../support/ledger.ts';
import { post, type RunningServices, startServices, untilAnswer } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { randomFrom, seed } from '../support/seed.ts';
import { freshRows, range } from '../support/store.ts';
import { eventually } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';

const SYNC_MS = 50;
const MAX_TICK_MS = 250;
const MAX_HEALTH_MS = 500;
const FLOOD_CLIENTS = 32;
const OLD_ROWS = 60_000;
const LARGE_RESULTS = 50;
/** A result of almost 1 MiB, the limit of an output. */
const LARGE_BYTES = 1024 * 1024 - 100;

/** Library that delays every sync of a file, then performs it. */
const SOURCE = `#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int slowly(const char *name, int file) {
  int (*sync)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
  usleep(1000 * atoi(getenv("SYNC_MS")));
  return sync(file);
}

int fsync(int file) { return slowly("fsync", file); }
int fdatasync(int file) { return slowly("fdatasync", file); }
`;

/** Compiles the library. Returns the settings of a process whose syncs take at least {@link SYNC_MS} longer. */
async function slowDisk(): Promise<Record<string, string>> {
  const folder = await temporaryFolder();
  const [source, library] = [join(folder, 'slow-sync.c'), join(folder, 'slow-sync.so')];
  await writeFile(source, SOURCE);
  await run('gcc', ['-shared', '-fPIC', '-O2', '-o', library, source, '-ldl']);
  return { LD_PRELOAD: library, SYNC_MS: `${SYNC_MS}` };
}

/** Starts services with old rows, on a disk that takes 50 ms a sync, and 20 stream clients with a health probe. */
async function startOnSlowDisk() {
  const { dataDir, beside, add } = await freshRows();
  add(...range(1, OLD_ROWS).map((arrival) => ({ arrival, createdAt: 1_700_000_000, bytes: 500 })));
  const disk = await slowDisk();
  const TASK_HANDLERS = await writeHandlers(`export default { large: () => 'x'.repeat(${LARGE_BYTES}) }`);
  const env = { ...disk, DATA_DIR: dataDir, QUEUE_DRIVER: 'sqlite', TICK_INTERVAL_MS: `${TICK_INTERVAL_MS}` };
  const work = { TASK_HANDLERS, TASK_UNKNOWN_ACTIONS: 'process', TASK_PREFETCH: '50', TASK_RETENTION_ROWS: '1000' };
  const services = await startServices({ env: { ...env, ...work } });
  const neighbours = startNeighbours();
  await neighbours.join(Number(new URL(services.ticker).port), await services.token());
  const { tasks, admin } = services;
  const during = async (work: () => Promise<unknown>): Promise<Sight> => {
    await neighbours.begin({ tasks, admin }, seed);
    await work();
    return neighbours.end();
  };
  const countRows = () => beside.prepare('SELECT count(*) AS count FROM tasks').get()?.count as number;
  return { services, dataDir, countRows, during };
}

async function flooded({ tasks }: RunningServices, work: () => Promise<unknown>): Promise<void> {
  const ledger = new Ledger();
  const stopped = ledger.flood(tasks, randomFrom(0), FLOOD_CLIENTS);
  await work();
  await stopped();
  expect(ledger.size).to.be.above(0);
}

function expectUnharmed(what: string, { tickMs, healthMs, machineMs, missed, errors, disconnections }: Sight): void {
  const millis = (value: number) => value.toFixed(0);
  console.log(`    ${what}: tick ${millis(tickMs)} ms, health ${millis(healthMs)} ms, machine ${millis(machineMs)} ms`);
  // The delays of the clients' own process tell how busy the machine is.
  expect(tickMs, `${what}: tick late`).to.be.at.most(MAX_TICK_MS + 2 * machineMs);
  expect(healthMs, `${what}: health`).to.be.at.most(MAX_HEALTH_MS + 2 * machineMs);
  expect({ missed, errors, disconnections }, what).to.deep.equal({ missed: 0, errors: {}, disconnections: {} });
}

describeWith(lackingProgram('gcc'), `a disk that takes ${SYNC_MS} ms a sync, under a flood of submissions`, () => {
  it('delays no tick and no health check, also during retention, a backup, and large results', async () => {
    const { services, dataDir, countRows, during } = await startOnSlowDisk();
    const { tasks } = services;
    // Shows that the disk is slow.
    const began = performance.now();
    expect((await post(`${tasks}/tasks`, { action: 'sum' })).status).to.equal(202);
    expect(performance.now() - began).to.be.at.least(SYNC_MS);

    const retention = await during(() => flooded(services, () => eventually(countRows, (rows) => rows < OLD_ROWS / 2)));
    expectUnharmed('retention', retention);

    const folder = join(await temporaryFolder(), 'copy');
    const backup = await during(() =>
      flooded(services, async () => expect(await runCommand('backup', [folder], { dataDir })).to.include({ code: 0 })),
    );
    expectUnharmed('backup', backup);

    const large = await during(async () => {
      await post(`${tasks}/queue/pause`, {});
      for (let count = 0; count < LARGE_RESULTS; count++) await post(`${tasks}/tasks`, { action: 'large' });
      await flooded(services, async () => {
        await post(`${tasks}/queue/resume`, {});
        await untilAnswer(`${tasks}/tasks?action=large&summary=1`, ({ body }) => body.count === LARGE_RESULTS);
      });
    });
    expectUnharmed('large results', large);
    expect(services.lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
  });
});

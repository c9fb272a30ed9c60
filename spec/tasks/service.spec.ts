import { expect } from 'chai';
import { openLocalBackend } from '../../main/backends/local.ts';
import { loadConfig } from '../../main/config.ts';
import { openFilesLimit, shareDescriptors } from '../../main/http/descriptor-shares.ts';
import { startTasks } from '../../main/tasks/service.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { freshSettings } from '../support/program.ts';

/**
 * Starts service B with a queue that reports `evicted` dead letters, a problem with its file, and failed syncs of
 * result rows.
 */
async function start(evicted: number, problem: string | undefined, unsynced = 0) {
  const config = loadConfig(await freshSettings());
  const { log } = captureLog();
  const engine = await openLocalBackend(config, log);
  afterTest(() => engine.close());
  const service = await startTasks(
    config,
    {
      ...engine,
      openQueue: async (onEvent) => ({
        ...(await engine.openQueue(onEvent)),
        evicted: () => evicted,
        fileProblem: () => problem,
        unsynced: () => ({ tasks: unsynced, reason: 'EIO: i/o error, fdatasync' }),
      }),
    },
    shareDescriptors(openFilesLimit(), config.tasks.concurrency),
    log,
  );
  const now = Promise.resolve();
  afterTest(() => service.stop({ connections: now, abort: now, all: now }));
  return service;
}

describe('service B', () => {
  it('warns of evicted dead letters, and fails its check while the queue file has a problem', async () => {
    const { checks, warnings } = await start(3, 'database or disk is full');
    expect(await warnings.dead_letters?.()).to.equal('3 dead letters were evicted because of their bound');
    expect(await checks.queue_file?.()).to.equal('database or disk is full');
  });

  it('warns of completed tasks whose rows are not synced', async () => {
    const { warnings, metrics } = await start(0, undefined, 40);
    const detail = '40 completed tasks run again at the next start: EIO: i/o error, fdatasync';
    expect(await warnings.row_sync?.()).to.equal(detail);
    expect(metrics.storage.unsynced?.().tasks).to.equal(40);
  });

  it('is healthy with none of these', async () => {
    const { checks, warnings } = await start(0, undefined);
    expect(await warnings.dead_letters?.()).to.equal(undefined);
    expect(await checks.queue_file?.()).to.equal(undefined);
    expect(await warnings.row_sync?.()).to.equal(undefined);
  });
});

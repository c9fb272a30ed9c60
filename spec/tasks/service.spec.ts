import { expect } from 'chai';
import { tasksMetrics } from '../../main/admin/tasks-metrics.ts';
import { openLocalBackend } from '../../main/backends/local.ts';
import { loadConfig } from '../../main/config.ts';
import { openFilesLimit, shareDescriptors } from '../../main/http/descriptor-shares.ts';
import { startTasks } from '../../main/tasks/service.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { freshSettings, request } from '../support/program.ts';
import { until } from '../support/until.ts';

/**
 * Starts service B with a queue that reports `evicted` dead letters, a problem with its file, and failed syncs of
 * result rows.
 */
async function start(evicted: number, problem: string | undefined, unsynced = 0) {
  const config = loadConfig(await freshSettings());
  const { log, lines } = captureLog();
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
  return { ...service, lines };
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

  it('warns, logs and counts while the queue is paused, and does not wait for its tasks when it stops', async () => {
    const { listener, warnings, metrics, lines, stop } = await start(0, undefined);
    const tasks = `http://localhost:${listener.port}`;
    const gauge = () => tasksMetrics(metrics).gauge?.tasks_paused?.[1]();
    const post = async (path: string, body?: string) =>
      (await request(tasks + path, { method: 'POST', ...(body && { body }) })).body;
    expect([await warnings.queue_paused?.(), gauge()]).to.deep.equal([undefined, 0]);
    expect(await post('/queue/pause')).to.deep.equal({ paused: true });
    expect([await warnings.queue_paused?.(), gauge()]).to.deep.equal([
      'no task is processed until POST /queue/resume',
      1,
    ]);
    await post('/tasks', '{"action":"sum"}');
    expect(await post('/queue/resume')).to.deep.equal({ paused: false });
    await until(() => metrics.queue.counts().completed === 1);
    await post('/queue/pause');
    await post('/tasks', '{"action":"sum"}');
    const never = new Promise<void>(() => {});
    expect(await stop({ connections: Promise.resolve(), abort: never, all: never })).to.deep.equal({
      unfinished: 1,
      kept: true,
    });
    const messages = lines.map(({ msg }) => msg).filter((msg) => msg?.startsWith('the queue is'));
    const paused = 'the queue is paused: no task is processed until it is resumed';
    expect(messages).to.deep.equal([paused, 'the queue is resumed', paused]);
  });

  it('is healthy with none of these', async () => {
    const { checks, warnings } = await start(0, undefined);
    expect(await warnings.dead_letters?.()).to.equal(undefined);
    expect(await checks.queue_file?.()).to.equal(undefined);
    expect(await warnings.row_sync?.()).to.equal(undefined);
  });
});

import { mock } from 'node:test';
import { expect } from 'chai';
import type { QueueCounts, Recovery, TaskSubject } from '../../db/task-store.ts';
import { openBackend } from '../../main/backends/backend.ts';
import { loadConfig } from '../../main/config.ts';
import { openFilesLimit, shareDescriptors } from '../../main/http/connection-limiter.ts';
import type { NodeMessage } from '../../main/tasks/queue.ts';
import { startTasks } from '../../main/tasks/service.ts';
import { systemClock as clock, systemRandom as random } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { freshSettings, request } from '../support/program.ts';
import { until } from '../support/until.ts';
import { writeHandlers } from './handlers/handling.ts';

/** Starts service B on a store that has `lost` tasks at its start, and then reports the `faults` of a spec. */
async function start(env: Record<string, string> = {}, lost: readonly TaskSubject[] = []) {
  const config = loadConfig({ ...(await freshSettings()), ...env });
  const { log, lines } = captureLog();
  const backend = await openBackend(config, clock, random, log);
  afterTest(() => backend.close());
  const { store } = backend;
  const faults = { evicted: 0, problem: undefined as string | undefined, isKept: true };
  const counts = store.counts.bind(store) as () => QueueCounts;
  store.counts = () => ({ ...counts(), evicted: faults.evicted });
  store.problem = () => faults.problem;
  const begin = store.start.bind(store);
  store.start = async () => [...(await begin()), ...lost];
  const close = store.close.bind(store);
  store.close = async () => (await close()) && faults.isKept;
  const listeners: ((of: Recovery) => void)[] = [];
  store.onRecovered = (listener) => void listeners.push(listener);
  const recover = (of: Recovery) => listeners[0]?.(of);
  const { mock: takes } = mock.method(store, 'take');
  const setLimits = store.setLimits.bind(store);
  const takesBefore: number[] = [];
  store.setLimits = async (...limits) => {
    await setLimits(...limits);
    takesBefore.push(takes.callCount());
  };
  const sent: NodeMessage[] = [];
  backend.bus = { send: (message) => void sent.push(message), listen() {}, follow() {} };
  const shares = shareDescriptors(openFilesLimit(), config.tasks.concurrency);
  const service = await startTasks(config, backend, shares, log, { clock, random });
  const now = Promise.resolve();
  afterTest(() => service.stop({ connections: now, abort: now, all: now }));
  const never = new Promise<void>(() => {});
  /** Stops the service, which must wait for neither tasks nor followers of events. */
  const stop = (abort = never) => service.stop({ connections: never, abort, all: never });
  return { ...service, ...{ config, backend, faults, lines, sent, takesBefore, stop, recover } };
}

describe('service B', () => {
  it('warns of evicted dead letters, and fails its check while the store has a problem', async () => {
    const { warnings, checks, faults } = await start();
    const state = async () => [await warnings.dead_letters?.(), await checks.task_queue?.()];
    expect(await state()).to.deep.equal([undefined, undefined]);
    Object.assign(faults, { evicted: 3, problem: 'disk full' });
    expect(await state()).to.deep.equal(['3 dead letters were evicted because of their bound', 'disk full']);
  });

  it('stores the limits of the callbacks before it takes a task', async () => {
    const { takesBefore } = await start({ CALLBACK_HOSTS: '127.0.0.1', CALLBACK_SECRET: `whsec_${'A'.repeat(32)}` });
    expect(takesBefore).to.deep.equal([0]);
  });

  it('keeps at most as many bytes of requests, and of responses that clients do not read, as its settings say', async () => {
    const { config, metrics } = await start();
    const { bodyBudgetBytes, responseBudgetBytes } = config.tasks;
    expect([metrics.bodies.limit, metrics.responses.limit]).to.deep.equal([bodyBudgetBytes, responseBudgetBytes]);
  });

  it('warns of a pause, logs it at the start and each change once, and waits for neither the tasks of a paused queue nor open event streams when it stops', async () => {
    const { listener, warnings, metrics, lines, stop, unsaved, config, backend } = await start();
    const tasks = `http://localhost:${listener?.port}`;
    const post = async (path: string, body?: string) =>
      (await request(tasks + path, { method: 'POST', ...(body && { body }) })).body;
    expect(await warnings.queue_paused?.()).to.equal(undefined);
    for (const _ of [1, 2]) expect(await post('/queue/pause')).to.deep.equal({ paused: true });
    expect((await request(`${tasks}/queue`)).body).to.include({ paused: true });
    expect(await warnings.queue_paused?.()).to.equal('no task is processed until POST /queue/resume');
    await post('/tasks', '{"action":"sum"}');
    for (const _ of [1, 2]) expect(await post('/queue/resume')).to.deep.equal({ paused: false });
    await until(async () => (await metrics.queue.counts()).completed === 1);
    await post('/queue/pause');
    await post('/tasks', '{"action":"sum"}');
    const stream = await fetch(`${tasks}/tasks/events`);
    expect([unsaved(), await stop(), unsaved()]).to.deep.equal([1, { unfinished: 1, kept: true }, 0]);
    expect(await stream.text()).to.match(/^retry: /);
    const messages = lines.map(({ msg }) => msg).filter((msg) => msg?.startsWith('the queue is'));
    const paused = 'the queue is paused: no task is processed until it is resumed';
    expect(messages).to.deep.equal([paused, 'the queue is resumed', paused]);
    await backend.close();
    const next = await start({ DATA_DIR: config.storage.dataDir });
    expect(next.lines[0]).to.include({ level: 40, msg: paused });
  });

  it('counts a scheduled task as lost if the queue cannot be kept, and does not wait for it when it stops', async () => {
    const { metrics, unsaved, stop, faults } = await start();
    faults.isKept = false;
    const message = { id: 'a', action: 'sum', body: '{"id":"a","action":"sum"}', runAt: clock.now() + 60_000 };
    await metrics.queue.publish(message);
    expect([unsaved(), await stop(), unsaved()]).to.deep.equal([1, { unfinished: 1, kept: false }, 1]);
  });

  it('stores the ends of handlers that its stop aborts before it closes the queue', async () => {
    const finish = "async finish(_, { signal, log }) { log.info('begun'); await aborted(signal); }";
    const TASK_HANDLERS = await writeHandlers(`export default { ${finish} };`);
    for (const [QUEUE_DRIVER, abort] of Object.entries({ sqlite: undefined, memory: Promise.resolve() })) {
      const { metrics, lines, stop } = await start({ TASK_HANDLERS, QUEUE_DRIVER });
      await metrics.queue.publish({ id: 'a', action: 'finish', body: '{"id":"a","action":"finish"}' });
      await until(() => lines.some(({ msg }) => msg === 'begun'));
      expect(await stop(abort), QUEUE_DRIVER).to.deep.equal({ unfinished: 0, kept: true });
    }
  });

  it('counts the dead letters of a recovery, at the start or later, and reports the ends that it brings', async () => {
    const { metrics, recover, sent, lines } = await start({}, [{ id: 'lost', action: 'x' }]);
    expect(lines.find(({ task }) => task === 'lost')).to.include({ level: 40, decision: 'discard' });
    const failed = { id: 'a', action: 'x', attempts: 1, reason: 'the process died' };
    const [cancelled, evicted] = ['b', 'c'].map((id) => ({ id, action: 'x' })) as [TaskSubject, TaskSubject];
    recover({ failed: [failed], cancelled: [cancelled], evicted: [evicted] });
    expect(Object.fromEntries(metrics.dispatcher.metrics.dead)).to.include({ crashes: 2, attempts: 0 });
    const events = sent.flatMap((message) => ('event' in message ? [{ ...message.event, at: 0 }] : []));
    const ends = Object.entries({ failed, cancelled, purged: evicted });
    expect(events).to.deep.equal(ends.map(([event, task]) => ({ event, ...task, at: 0 })));
  });
});

import childProcess from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { existsSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { mock } from 'node:test';
import { expect } from 'chai';
import { queueOptionsSymbol } from 'piscina';
import { TaskProcesses } from '../../../main/tasks/pool/task-processes.ts';
import { threadFile } from '../../../main/threads/supervised-thread.ts';
import type { TaskProcessStart, TaskThreadStart } from '../../../workers/tasks/messages.ts';
import { afterTest } from '../../support/cleanup.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { post, startServices } from '../../support/program.ts';
import { until } from '../../support/until.ts';
import { returned, startHandlers, writeHandlers } from '../handlers/handling.ts';

const own = { TASK_ISOLATION: 'process', TASK_CANCEL_GRACE_MS: '60000' };

const handlers = `
  ok: () => 'ok',
  pid: () => process.pid,
  heed: async (_, { signal }) => { await aborted(signal); throw signal.reason; },
`;

const isAlive = (pid: number) => existsSync(`/proc/${pid}`);

describe('a pool whose threads have processes of their own', () => {
  it('loses only the task that allocates a string larger than the heap, which ends its process', async () => {
    const env = { ...own, TASK_MEMORY_MB: '32', TASK_CONCURRENCY: '2' };
    const { run, cancel, pool, told, logged } = await startHandlers(`${handlers} huge: () => 'x'.repeat(1e8),`, env);
    const beside = run('heed');
    await until(() => told.length === 1);
    const [huge, after] = [run('huge'), run('ok')];
    expect(await huge).to.deep.equal({ ended: 'crashed', reason: 'process died: SIGABRT' });
    const { reason } = await logged(({ msg }) => msg === 'the process of a task thread ended: it is replaced');
    expect([reason, await after]).to.deep.equal(['process died: SIGABRT', returned]);
    cancel(1);
    expect([await beside, pool.serving]).to.deep.equal([{ ended: 'cancelled' }, true]);
  });

  it('outlives the signals that a service manager sends to all processes of a service, but not its stop', async () => {
    const { run, output, pool } = await startHandlers(handlers, own);
    await run('pid');
    const pid = output();
    // To its group, which is not that of the service, because Ctrl-C in a terminal reaches all processes of that one.
    for (const signal of ['SIGINT', 'SIGTERM']) process.kill(-pid, signal);
    expect([await run('pid'), output()]).to.deep.equal([returned, pid]);
    await pool.stop(Promise.resolve());
    expect(isAlive(pid)).to.equal(false);
  });

  it('loads each process after its delay, so that one without comes first', async () => {
    const children = [600_000, 0].map((loadDelayMs) => {
      const child = childProcess.fork(threadFile('tasks/task-process'), { serialization: 'advanced' });
      afterTest(() => child.kill('SIGKILL') && once(child, 'close'));
      child.send({ loadDelayMs, abortChannel: 'delays', overlap: 1, memoryMb: 32 });
      return once(child, 'message').then(() => loadDelayMs);
    });
    expect(await Promise.race(children)).to.equal(0);
  });

  it('says why it does not start', async () => {
    const module = `...(workerData.abortChannel && (() => { throw new Error('no'); })()),`;
    const error = await startHandlers(module, own).catch((failure) => failure);
    expect(error.message).to.match(/^the task threads do not start: no, at \S+:2:\d+: /);
  });

  it('ends with the service that it belongs to, even if a handler blocks', async () => {
    const source = 'export default { block(_, { log }) { log.info(String(process.pid)); for (;;); } };';
    const services = await startServices({ env: { ...own, TASK_HANDLERS: await writeHandlers(source) } });
    const { body } = await post(`${services.tasks}/tasks`, { action: 'block' });
    const pid = Number((await services.logged(({ task }) => task === body.id)).msg);
    expect(isAlive(pid)).to.equal(true);
    services.child.kill('SIGKILL');
    await until(() => !isAlive(pid));
  });
});

/** A process that the test plays. It has ended once it emits `close`. */
class PlayedChild extends EventEmitter {
  pid: number | undefined = 1;
  readonly connected = true;
  readonly send = mock.fn((_start: TaskProcessStart) => {});
  readonly kill = mock.fn(() => this.emit('close', null, 'SIGKILL'));
  readonly load = () => this.emit('message', { isLoaded: true });
}

/** Plays the processes of threads. After the first `most` ones, none can be created. */
function playChildren(most = Number.POSITIVE_INFINITY): PlayedChild[] {
  const children: PlayedChild[] = [];
  const fork = () => {
    if (children.length === most) throw new Error('spawn ENOMEM');
    return children[children.push(new PlayedChild()) - 1];
  };
  mock.method(childProcess, 'fork', fork as unknown as typeof childProcess.fork);
  syncBuiltinESMExports();
  // The mock is restored by then.
  afterTest(syncBuiltinESMExports);
  return children;
}

/** Creates the threads of a pool of one thread, with processes that the test plays. */
function playThreads(most?: number) {
  const children = playChildren(most);
  const threads = new TaskProcesses({ abortChannel: 'played' } as TaskThreadStart, 1);
  afterTest(() => threads.destroy());
  const last = () => children.at(-1) as PlayedChild;
  last().load();
  return { children, threads, last };
}

describe('the processes of threads', () => {
  it('are replaced by ones that load after a delay of at most 5 s, unless they were stable, had a task or have never loaded, and tell of each that has loaded', async () => {
    const { children, threads, last } = playThreads();
    let loaded = 0;
    threads.on('workerCreate', () => loaded++);
    let nowMs = 0;
    mock.method(performance, 'now', () => nowMs);
    const end = (ageMs: number) => {
      nowMs += ageMs;
      last().kill();
      last().load();
    };
    for (const ageMs of [...Array(9).fill(0), 9999, 10_000, 0, 0]) end(ageMs);
    void threads.run({ run: 1, [queueOptionsSymbol]: { id: threads.threads[0]?.threadId } } as never);
    end(0);
    const delays = children.slice(1).map(({ send }) => send.mock.calls[0]?.arguments[0].loadDelayMs);
    expect(delays).to.deep.equal([0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 0, 0, 50, 0]);
    for (const _ of [1, 2]) last().kill();
    await new Promise(setImmediate);
    expect([children.length, threads.threads, loaded]).to.deep.equal([16, [], 14]);
  });

  it('have ended once their last message has arrived, and tell if another one cannot be created, at once or later', () => {
    const { threads, last } = playThreads(1);
    const events: unknown[] = [];
    threads.on('message', (message) => events.push(message)).on('error', ({ message }) => events.push(message));
    threads.on('workerDestroy', () => events.push(threads.threads.length));
    threads.threads[0]?.once('exit', (reason) => events.push(reason));
    last().emit('exit', null, 'SIGKILL');
    last().emit('message', { message: 'last' });
    last().pid = undefined;
    last().emit('error', new Error('spawn EAGAIN'));
    expect(events).to.deep.equal(['last', 'spawn ENOMEM', 0, 'process died: spawn EAGAIN']);
  });

  it('are ended if not all of the first ones can be created', () => {
    const children = playChildren(1);
    expect(() => new TaskProcesses({} as TaskThreadStart, 2)).to.throw('spawn ENOMEM');
    expect(children.map(({ kill }) => kill.mock.callCount())).to.deep.equal([1]);
  });

  it('are no start of a pool if one ends after its own test, while another loads for up to 20 s', async () => {
    const children = playChildren();
    const clock = new ManualClock();
    const started = startHandlers(handlers, { ...own, TASK_CONCURRENCY: '2' }, clock).catch(({ message }) => message);
    await until(() => children.length === 2);
    children[0]?.load();
    children[0]?.kill();
    clock.advance(19_999);
    await new Promise(setImmediate);
    children[1]?.load();
    expect(await started).to.equal('the task threads do not start: a thread ended during the test');
    expect(children, 'none in place of those that its stop ends').to.have.length(3);
  });
});
